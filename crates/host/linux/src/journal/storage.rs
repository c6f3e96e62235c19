//! Where the journal is kept: in the first of some places that can be written.

use super::Entry;
use super::version_1::OldEntry;
use crate::operation;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The form of the file. Older ones are read, so that they can be undone.
const VERSION: u32 = 2;
/// For root alone: it tells what will be done as root.
const MODE: u32 = 0o600;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The places of one journal, and what was written last.
pub(super) struct Storage {
    /// The preferred first.
    places: Vec<PathBuf>,
    /// Of this boot; empty where the kernel doesn't tell.
    boot: String,
    /// Grows with each writing: the highest is the journal, others are stale.
    serial: u64,
    /// Why it isn't on disk as it is.
    trouble: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Document<E = Entry> {
    version: u32,
    #[serde(default)]
    boot: String,
    #[serde(default)]
    serial: u64,
    entries: Vec<E>,
}

/// What every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Storage {
    /// Reads the newest journal of these places. What can't outlive the boot that
    /// it was written in is left out.
    ///
    /// # Errors
    /// `InvalidData` for a file that isn't a journal. One that can't be read is a
    /// [`Storage::trouble`].
    pub(super) fn open(places: Vec<PathBuf>) -> io::Result<(Storage, Vec<Entry>)> {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        let (newest, trouble) = newest(&places)?;
        let (mut entries, serial) = newest
            .as_ref()
            .map_or((Vec::new(), 0), |newest| (newest.entries.clone(), newest.serial));
        if newest.is_some_and(|newest| is_another(&newest.boot, &boot)) {
            entries.retain(|entry| operation::outlives_boot(&entry.operation));
        }
        Ok((Storage { places, boot, serial, trouble }, entries))
    }

    /// Whether there is something to take back, as far as files tell.
    pub(super) fn holds_something(places: &[PathBuf]) -> bool {
        match newest(places) {
            Ok((document, _)) => document.is_some_and(|document| !document.entries.is_empty()),
            // Who opens it is told.
            Err(_) => true,
        }
    }

    /// Why the journal isn't on disk as it is.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Writes it so that a crash leaves the old or the new one, and removes what is
    /// stale elsewhere. Where it can't be written nowhere, [`Storage::trouble`] says
    /// why: what is set goes on, and is still known here.
    pub(super) fn store(&mut self, entries: &[Entry]) {
        self.serial += 1;
        self.trouble = match entries.is_empty() {
            true => self.remove_all(),
            false => self.write_somewhere(entries).err(),
        };
    }

    fn write_somewhere(&self, entries: &[Entry]) -> Result<(), String> {
        let text = self.document(entries).map_err(|error| error.to_string())?;
        let mut told = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            // Root writes through nobody's link.
            let written = match fs::symlink_metadata(place).is_ok_and(|it| it.is_symlink()) {
                true => Err(io::Error::other("is a symbolic link")),
                false => braid_durable::replace(place, &text, Some(MODE)),
            };
            match written {
                Ok(()) => {
                    self.remove_others(at);
                    return Ok(());
                }
                Err(error) => told.push(format!("{}: {error}", place.display())),
            }
        }
        Err(told.join("; "))
    }

    /// One that can't be removed is stale by its serial number.
    fn remove_others(&self, kept: usize) {
        for (at, place) in self.places.iter().enumerate() {
            if at != kept {
                let _ = braid_durable::remove(place);
            }
        }
    }

    /// One that can't be removed is outdone by an empty one elsewhere.
    fn remove_all(&self) -> Option<String> {
        let mut stays = None;
        for place in &self.places {
            // Asked first: where nothing is, even a read-only disk is fine.
            let removed = match place.exists() {
                true => braid_durable::remove(place),
                false => Ok(()),
            };
            if let Err(error) = removed {
                stays = Some(format!("{}: {error}", place.display()));
            }
        }
        let told = stays?;
        let text = self.document(&[]).ok()?;
        let outdone = self
            .places
            .iter()
            .any(|place| braid_durable::replace(place, &text, Some(MODE)).is_ok());
        (!outdone).then_some(told)
    }

    fn document(&self, entries: &[Entry]) -> io::Result<Vec<u8>> {
        let (boot, serial) = (self.boot.clone(), self.serial);
        let entries = entries.iter().map(Entry::as_stored).collect();
        let document = Document { version: VERSION, boot, serial, entries };
        Ok(serde_json::to_vec_pretty(&document)?)
    }
}

/// The newest of the journals, and why others couldn't be read.
fn newest(places: &[PathBuf]) -> io::Result<(Option<Document>, Option<String>)> {
    let (mut newest, mut trouble): (Option<Document>, _) = (None, None);
    for place in places {
        match read(place) {
            Ok(Some(found)) if newest.as_ref().is_none_or(|it| found.serial > it.serial) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(error) => trouble = Some(format!("{}: {error}", place.display())),
        }
    }
    Ok((newest, trouble))
}

/// What isn't known is taken for the same.
fn is_another(boot: &str, now: &str) -> bool {
    !boot.is_empty() && !now.is_empty() && boot != now
}

/// What it says is done as root: one that others may have written isn't read.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let metadata = file.metadata()?;
    // SAFETY: no arguments, and it can't fail.
    let us = unsafe { libc::geteuid() };
    if metadata.uid() != us || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others could have written it: it isn't read; remove it",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read(path: &Path) -> io::Result<Option<Document>> {
    let bytes = match read_own(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let invalid = |what: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
    };
    let foreign = |error| invalid(format!("not a journal of braid's ({error})"));
    let Versioned { version } = serde_json::from_slice(&bytes).map_err(foreign)?;
    match version {
        VERSION => serde_json::from_slice(&bytes).map(Some).map_err(foreign),
        1 => {
            let old: Document<OldEntry> = serde_json::from_slice(&bytes).map_err(foreign)?;
            let entries = old.entries.into_iter().map(Entry::from).collect();
            let (boot, serial) = (old.boot, old.serial);
            Ok(Some(Document { version: VERSION, boot, serial, entries }))
        }
        newer => Err(invalid(format!(
            "a newer braid wrote it (version {newer}, this one knows {VERSION}): `braid down` by that one \
             takes back what it has set on this host, and the file goes"
        ))),
    }
}
