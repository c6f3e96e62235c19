//! The policy that last thinned out a folder, kept in the folder itself: under a different one most
//! of it may go, which calls for a warning first.

use crate::error::Error;
use crate::files::{Stored, read_state, write_state};
use braid_pool::retention::Policy;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Record {
    policy: String,
}

/// Whether it was this one.
///
/// # Errors
/// The record is there but can't be read.
pub fn is(folder: &Path, policy: &Policy) -> Result<bool, Error> {
    Ok(match read_state::<Record>(&file(folder), VERSION)? {
        Stored::Whole(record) => record.policy == policy.to_string(),
        // An unreadable record counts as another policy.
        Stored::Absent | Stored::Damaged(_) => false,
    })
}

/// From now on it is this one.
///
/// # Errors
/// The folder can't be written.
pub fn note(folder: &Path, policy: &Policy) -> Result<(), Error> {
    if is(folder, policy)? {
        return Ok(());
    }
    write_state(&file(folder), VERSION, Record { policy: policy.to_string() })
}

fn file(folder: &Path) -> PathBuf {
    folder.join(".braid-retention.json")
}
