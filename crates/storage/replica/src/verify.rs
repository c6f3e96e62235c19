//! Whether a replica is what it should be, file by file.

mod stored;

pub(crate) use stored::look;

use crate::archive::{self, StoredNow};
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::manifest::{self, Difference, Line, Manifest, threads};
use crate::replicate::{Connector, Place};
use crate::subvolume;
use crate::wire::{Frame, Message, SILENCE, Work, unexpected};
use braid_pool::uuid::Uuid;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::thread;

/// What a comparison found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The original.
    pub original: ExactPath,
    /// Its copy.
    pub copy: String,
    /// How many files, folders and other things the original has.
    pub files: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Subvolumes inside, which aren't compared.
    pub nested: Vec<ExactPath>,
    /// Where they differ.
    pub differences: Vec<Difference>,
}

/// Compares each original with its copy. The original is a snapshot or any
/// folder; a folder of snapshots stands for all of them, whose copies are in
/// the other folder under the same names, or stored there as streams. `hashed`
/// counts bytes on this side.
///
/// # Errors
/// One side can't be read.
pub fn verify(
    original: &Path,
    copy: &Place,
    connector: &Connector,
    hashed: &AtomicU64,
) -> Result<Vec<Finding>, Error> {
    let snapshots = match subvolume::is_subvolume(original) {
        true => vec![],
        false => crate::folder::snapshots_in(original)?,
    };
    if snapshots.is_empty() && !may_be_archive(copy) {
        return Ok(vec![verify_one(original, copy, connector, hashed)?]);
    }
    let wanted: Vec<Uuid> = snapshots.iter().map(|(_, about)| about.series_uuid()).collect();
    let stored = stored_at(copy, Some(wanted), connector, hashed)?;
    if !stored.is_empty() {
        return stored::compare(Some(original), copy, &stored, hashed);
    }
    let each = snapshots.into_iter().map(|(name, _)| {
        verify_one(&original.join(&name), &copy.join(Path::new(&name)), connector, hashed)
    });
    each.collect()
}

/// Checks that stored streams are unchanged and complete.
///
/// # Errors
/// There are none in `folder`, or they can't be read.
pub fn verify_stored(
    folder: &Place,
    connector: &Connector,
    hashed: &AtomicU64,
) -> Result<Vec<Finding>, Error> {
    let stored = stored_at(folder, None, connector, hashed)?;
    if stored.is_empty() {
        return Err(Error::Refused(format!(
            "{folder} holds no stored streams; name original and replica"
        )));
    }
    stored::compare(None, folder, &stored, hashed)
}

/// Without asking another computer.
fn may_be_archive(place: &Place) -> bool {
    matches!(place, Place::Local(folder) if archive::is_archive(folder))
}

/// The streams stored at a place, if there are any.
fn stored_at(
    place: &Place,
    read: Option<Vec<Uuid>>,
    connector: &Connector,
    hashed: &AtomicU64,
) -> Result<Vec<StoredNow>, Error> {
    if let Place::Local(folder) = place {
        return match archive::is_archive(folder) {
            true => look(folder, read.as_deref(), hashed),
            false => Ok(vec![]),
        };
    }
    let mut all = vec![];
    ask(place, Work::Stored { folder: place.path().into(), read }, connector, |message| {
        match message {
            Message::Stored(some) => all.extend(some),
            other => return Err(unexpected(&Frame::Message(other))),
        }
        Ok(())
    })?;
    Ok(all)
}

fn verify_one(
    original: &Path,
    copy: &Place,
    connector: &Connector,
    hashed: &AtomicU64,
) -> Result<Finding, Error> {
    thread::scope(|scope| {
        // Both sides read at the same time.
        let theirs = scope.spawn(|| lines_of(copy, connector, hashed));
        let ours = manifest::read(original, threads(), hashed)?;
        let theirs = theirs
            .join()
            .unwrap_or_else(|_| Err(Error::Refused("the comparing thread died".to_owned())))?;
        Ok(Finding {
            original: original.into(),
            copy: copy.to_string(),
            files: ours.lines.len(),
            bytes: ours.bytes,
            differences: manifest::compare(&ours.lines, &theirs),
            nested: ours.nested,
        })
    })
}

fn lines_of(place: &Place, connector: &Connector, hashed: &AtomicU64) -> Result<Vec<Line>, Error> {
    if let Place::Local(path) = place {
        let Manifest { lines, .. } = manifest::read(path, threads(), hashed)?;
        return Ok(lines);
    }
    let mut all = vec![];
    ask(place, Work::Manifest { folder: place.path().into() }, connector, |message| {
        match message {
            Message::Lines(lines) => all.extend(lines),
            other => return Err(unexpected(&Frame::Message(other))),
        }
        Ok(())
    })?;
    Ok(all)
}

/// Requests something from another place and reads it to its end.
fn ask(
    place: &Place,
    work: Work,
    connector: &Connector,
    mut take: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut connection, guard) = connector.open(place, work, None)?.split();
    let mut listen = || loop {
        match connection.hear(SILENCE)? {
            Message::Bye => return Ok(()),
            other => take(other)?,
        }
    };
    let outcome = listen();
    drop(connection);
    guard.finish(outcome)
}
