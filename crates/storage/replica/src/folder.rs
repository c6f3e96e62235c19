//! A folder of snapshots.

use crate::error::Error;
use crate::subvolume::{self, Subvolume};
use crate::wire::Entry;
use braid_pool::uuid::Uuid;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The subvolume that is being written, inside the folder that receives.
pub const WORK: &str = ".braid-replica.part";

/// A read-only snapshot in a folder.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name in the folder.
    pub name: OsString,
    /// Where it is.
    pub path: PathBuf,
    /// What the filesystem knows about it.
    pub about: Subvolume,
    /// Its manifest, if it is a stored stream.
    pub stored: Option<Box<Entry>>,
}

impl Snapshot {
    /// The UUID that its replicas carry.
    pub fn uuid(&self) -> Uuid {
        self.about.series_uuid()
    }
}

/// The read-only subvolumes in a folder, with their names.
pub(crate) fn snapshots_in(folder: &Path) -> Result<Vec<(OsString, Subvolume)>, Error> {
    let mut found = vec![];
    let entries = fs::read_dir(folder).map_err(|e| Error::io("reading the folder", folder, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("reading the folder", folder, e))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || entry.file_name() == WORK {
            continue;
        }
        if let Ok((_, about)) = subvolume::open(&entry.path())
            && about.read_only
        {
            found.push((entry.file_name(), about));
        }
    }
    found.sort_by(|a, b| a.1.made_in.cmp(&b.1.made_in).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}
