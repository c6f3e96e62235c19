//! Replicas in a folder that isn't on btrfs: the send streams themselves, as files, each with a
//! manifest beside it. Any of them can be given to `btrfs receive -f`, after those that it builds
//! on.
//!
//! A stream is written under another name and gets its own when it is complete and on the disk. The
//! progress of an unfinished one shows in its own bytes, which are read again when it continues.

pub use crate::wire::{Entry, StoredNow};

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::files::{read_state, write_state};
use crate::folder::Snapshot;
use crate::subvolume::Subvolume;
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Suffix of a stored stream's file name.
pub(crate) const STREAM: &str = ".btrfs-stream";
/// Suffix of its manifest's file name.
const MANIFEST: &str = ".btrfs-stream.json";
/// Of manifests.
const VERSION: u32 = 1;
/// Maximum length of a chain of differences before everything is stored again: with an endless
/// chain nothing could ever be deleted.
pub(crate) const LONGEST_CHAIN: usize = 30;

impl Entry {
    /// The snapshot's UUID.
    pub fn uuid(&self) -> Uuid {
        self.begin.stream.uuid
    }

    /// Where the stream is.
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(named(self.begin.name.as_name(), STREAM))
    }

    pub(crate) fn manifest(&self, folder: &Path) -> PathBuf {
        folder.join(named(self.begin.name.as_name(), MANIFEST))
    }

    pub(crate) fn save(&self, folder: &Path) -> Result<(), Error> {
        write_state(&self.manifest(folder), VERSION, self)
    }

    /// Deletes it; a stream without its manifest doesn't count.
    pub(crate) fn delete(&self, folder: &Path) -> Result<(), Error> {
        for path in [self.manifest(folder), self.file(folder)] {
            fs::remove_file(&path).map_err(|e| Error::io("deleting", &path, e))?;
        }
        Ok(())
    }

    /// As a snapshot that can be sent on.
    pub(crate) fn as_snapshot(&self, folder: &Path) -> Snapshot {
        let about = Subvolume {
            id: 0,
            parent_id: 0,
            name: self.begin.name.as_name().to_owned(),
            read_only: true,
            uuid: self.uuid(),
            parent_uuid: self.begin.stream.parent,
            received_uuid: None,
            changed_in: self.begin.transaction,
            made_in: self.begin.transaction,
            sent_in: 0,
            made_at: SystemTime::UNIX_EPOCH,
        };
        let name = self.begin.name.as_name().to_owned();
        Snapshot { name, path: self.file(folder), about, stored: Some(Box::new(self.clone())) }
    }
}

/// The complete streams in a folder, each after the one that it builds on.
///
/// # Errors
/// The folder or a manifest can't be read.
pub fn entries(folder: &Path) -> Result<Vec<Entry>, Error> {
    let mut rest = BTreeMap::new();
    let found = fs::read_dir(folder).map_err(|e| Error::io("reading the folder", folder, e))?;
    for file in found {
        let path = file.map_err(|e| Error::io("reading the folder", folder, e))?.path();
        let is_manifest =
            path.file_name().is_some_and(|name| name.as_bytes().ends_with(MANIFEST.as_bytes()));
        if !is_manifest {
            continue;
        }
        // Links don't count: somebody who may put one there must not have its target read.
        if !is_file(&path) {
            continue;
        }
        let Some(entry) = read_state::<Entry>(&path, VERSION)?.intact(&path)? else { continue };
        if is_file(&entry.file(folder)) && entry.manifest(folder) == path {
            rest.insert(entry.begin.name.clone(), entry);
        }
    }
    let mut sorted: Vec<Entry> = vec![];
    // Each round takes those whose base is present, or lost.
    while !rest.is_empty() {
        let waiting: Vec<Uuid> = rest.values().map(Entry::uuid).collect();
        let (ready, later): (BTreeMap<_, _>, BTreeMap<_, _>) =
            rest.into_iter().partition(|(_, entry)| {
                entry.begin.stream.parent.is_none_or(|p| !waiting.contains(&p))
            });
        if ready.is_empty() {
            // No honest stream builds on itself.
            sorted.extend(later.into_values());
            break;
        }
        sorted.extend(ready.into_values());
        rest = later;
    }
    Ok(sorted)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

/// Whether the folder holds stored streams.
pub(crate) fn is_archive(folder: &Path) -> bool {
    entries(folder).is_ok_and(|entries| !entries.is_empty())
}

/// The folder and the snapshot's name, if `path` is a stored stream: its file, or that without the
/// ending.
pub(crate) fn entry_at(path: &Path) -> Option<(PathBuf, Entry)> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    Some((folder.to_owned(), entry_named(folder, name)?))
}

/// The stored stream in a folder whose file this is, with the ending or without.
pub(crate) fn entry_named(folder: &Path, name: &OsStr) -> Option<Entry> {
    let name = name.as_bytes();
    let name = name.strip_suffix(STREAM.as_bytes()).unwrap_or(name);
    let name = ExactPath::from(OsStr::from_bytes(name).to_owned());
    entries(folder).ok()?.into_iter().find(|entry| entry.begin.name == name)
}

/// This one and all that it builds on, the base first; an error when one is lost.
pub(crate) fn with_bases(entries: &[Entry], uuid: Uuid) -> Result<Vec<Entry>, Error> {
    let mut chain: Vec<Entry> = vec![];
    let mut next = Some(uuid);
    while let Some(uuid) = next {
        let found = entries.iter().find(|entry| entry.uuid() == uuid);
        match found.filter(|_| chain.len() < entries.len()) {
            Some(entry) => {
                next = entry.begin.stream.parent;
                chain.push(entry.clone());
            }
            None => {
                let of = chain.last().map(|entry| entry.begin.name.to_string());
                return Err(Error::Refused(format!(
                    "the stream {uuid}, on which {} builds, isn't there",
                    of.unwrap_or_default()
                )));
            }
        }
    }
    chain.reverse();
    Ok(chain)
}

/// Those on which nothing more should be built.
pub(crate) fn ends_of_chains(entries: &[Entry]) -> Vec<Uuid> {
    let is_long = |entry: &&Entry| {
        with_bases(entries, entry.uuid()).is_ok_and(|chain| chain.len() >= LONGEST_CHAIN)
    };
    entries.iter().filter(is_long).map(Entry::uuid).collect()
}

pub(crate) fn named(name: &OsStr, ending: &str) -> OsString {
    let mut full = name.to_owned();
    full.push(ending);
    full
}
