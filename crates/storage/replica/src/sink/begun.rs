//! What a sink knows about the replica that it has begun, kept on disk beside it.

use super::note::{Circumstances, Progress};
use crate::error::Error;
use crate::files::{Stored, open_own, read_state, write_state};
use crate::folder::WORK;
use crate::shown::shown;
use crate::wire::Begin;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;

/// The folder, inside the one that receives, that holds what was begun, its note and checkpoints.
pub const FOLDER: &str = ".braid-replica";

const FILE: &str = "begun.json";
const NOTE: &str = "progress";
const VERSION: u32 = 1;

/// A replica that was begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BegunReplica {
    /// Of what.
    pub begin: Begin,
    /// The subvolume that is being written, once it is there: nothing else is
    /// ever deleted.
    pub work: Option<Uuid>,
    /// The boot and mount for which the note is valid.
    pub note: Option<Circumstances>,
    /// A state that survives a crash.
    pub checkpoint: Option<Checkpoint>,
}

/// A snapshot of the unfinished subvolume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number; its name is made of it.
    pub number: u64,
    /// Its own UUID.
    pub uuid: Uuid,
    /// How far the stream was applied in it.
    pub progress: Progress,
}

impl Checkpoint {
    /// The name of checkpoint `number` in [`FOLDER`].
    pub fn name(number: u64) -> String {
        format!("checkpoint-{number}")
    }
}

impl BegunReplica {
    /// What was begun in the folder, if anything.
    ///
    /// # Errors
    /// What was begun is noted, but can't be read.
    pub fn load(folder: &Path) -> Result<Option<BegunReplica>, Error> {
        let path = folder.join(FOLDER).join(FILE);
        match read_state(&path, VERSION)? {
            Stored::Whole(begun) => Ok(Some(begun)),
            Stored::Absent => Ok(None),
            Stored::Damaged(error) => Err(Error::Refused(format!(
                "{}: {error}; to begin afresh, delete it, the subvolume {WORK} beside it, and the \
                 checkpoints in it",
                shown(&path).display()
            ))),
        }
    }

    /// Writes it atomically with respect to crashes.
    ///
    /// # Errors
    /// It can't be written.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        write_state(&folder.join(FOLDER).join(FILE), VERSION, self)
    }

    /// Records durably that nothing is unfinished any more.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(folder: &Path) -> Result<(), Error> {
        for name in [FILE, NOTE] {
            let path = folder.join(FOLDER).join(name);
            braid_durable::remove(&path).map_err(|e| Error::io("removing", &path, e))?;
        }
        Ok(())
    }

    /// The note's file.
    ///
    /// # Errors
    /// It can't be opened or made.
    pub fn note_file(folder: &Path) -> Result<File, Error> {
        let path = folder.join(FOLDER).join(NOTE);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        open_own(&path, &mut options).map_err(|e| Error::io("opening", &path, e))
    }
}
