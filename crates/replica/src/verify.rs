//! Whether a replica is what it should be, file by file.

use crate::agent::threads;
use crate::archive;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::manifest::{self, Difference, Line, Manifest};
use crate::replicate::{Connector, Place};
use crate::subvolume;
use crate::wire::{Frame, Message, Open, PROTOCOL, Work, unexpected};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

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
/// the other folder under the same names. `hashed` counts bytes on this side.
///
/// # Errors
/// One side can't be read.
pub fn verify(
    original: &Path,
    copy: &Place,
    connector: &Connector,
    hashed: &AtomicU64,
) -> Result<Vec<Finding>, Error> {
    if let Place::Local(folder) = copy
        && archive::is_archive(folder)
    {
        return archive::verify(Some(original), folder, hashed);
    }
    let snapshots = match subvolume::is_subvolume(original) {
        true => vec![],
        false => crate::sink::snapshots_in(original)?,
    };
    if snapshots.is_empty() {
        return Ok(vec![verify_one(original, copy, connector, hashed)?]);
    }
    let each = snapshots.into_iter().map(|(name, _)| {
        verify_one(&original.join(&name), &copy.join(Path::new(&name)), connector, hashed)
    });
    each.collect()
}

/// Looks whether stored streams are still what was stored, and complete.
///
/// # Errors
/// There are none in `folder`, or they can't be read.
pub fn verify_stored(folder: &Path, hashed: &AtomicU64) -> Result<Vec<Finding>, Error> {
    if !archive::is_archive(folder) {
        return Err(Error::Refused(format!(
            "{} holds no stored streams; name original and replica",
            folder.display()
        )));
    }
    archive::verify(None, folder, hashed)
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

/// Reading everything there may take hours.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 3600);

fn lines_of(place: &Place, connector: &Connector, hashed: &AtomicU64) -> Result<Vec<Line>, Error> {
    if let Place::Local(path) = place {
        let Manifest { lines, .. } = manifest::read(path, threads(), hashed)?;
        return Ok(lines);
    }
    let (mut link, guard) = connector.connect(place)?.split();
    let work = Work::Manifest { folder: place.path().into() };
    let mut all = vec![];
    let mut listen = || -> Result<(), Error> {
        link.say(Message::Open(Open { protocol: PROTOCOL, work: work.clone() }))?;
        loop {
            match link.hear(PATIENCE)? {
                Message::Lines(lines) => all.extend(lines),
                Message::Bye => return Ok(()),
                other => return Err(unexpected(&Frame::Message(other))),
            }
        }
    };
    let outcome = listen();
    drop(link);
    guard.finish(outcome)?;
    Ok(all)
}
