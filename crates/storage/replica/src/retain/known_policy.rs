//! By which policy a folder was thinned out last, kept in the folder itself: under another one
//! most of it may go, and that is told first.

use crate::error::Error;
use crate::files::read_own;
use crate::files::write_durably;
use braid_pool::retention::Policy;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
struct Record {
    policy: String,
}

/// Whether it was this one.
///
/// # Errors
/// The record is there but can't be read.
pub fn is(folder: &Path, policy: &Policy) -> Result<bool, Error> {
    let path = file(folder);
    let text = match read_own(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io("reading", &path, e))?,
    };
    // What can't be understood is as good as another policy.
    let record = serde_json::from_slice::<Record>(&text);
    Ok(record.is_ok_and(|record| record.policy == policy.to_string()))
}

/// From now on it is this one.
///
/// # Errors
/// The folder can't be written.
pub fn note(folder: &Path, policy: &Policy) -> Result<(), Error> {
    if is(folder, policy)? {
        return Ok(());
    }
    let path = file(folder);
    let record = Record { policy: policy.to_string() };
    let text =
        serde_json::to_vec_pretty(&record).map_err(|e| Error::io("writing", &path, e.into()))?;
    write_durably(&path, &text)
}

fn file(folder: &Path) -> PathBuf {
    folder.join(".braid-retention.json")
}
