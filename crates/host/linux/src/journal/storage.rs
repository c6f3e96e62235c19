//! Where the journal is kept: in the first writable one of several places.

use super::Entry;
use super::version_1::OldEntry;
use crate::operation;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Format version of the file. Older versions are read so that they can be undone.
const VERSION: u32 = 2;
/// Only for root: it determines what will be done as root.
const MODE: u32 = 0o600;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The places of one journal, and what was written last.
pub(super) struct Storage {
    /// The preferred first.
    places: Vec<PathBuf>,
    /// Id of this boot; empty if the kernel doesn't tell.
    boot: String,
    /// Increases with each write: the file with the highest serial is the journal, others are
    /// stale.
    serial: u64,
    /// Why the file on disk isn't up to date.
    trouble: Option<String>,
    /// What was found in its place when it was opened.
    damaged: Option<Damaged>,
}

/// A file in a journal's place that isn't one. We never leave such a file: each journal replaces
/// the previous one atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it is kept now.
    pub kept: PathBuf,
    /// What is wrong with it.
    pub why: String,
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

/// What is found in a journal's place.
enum Reading {
    Nothing,
    Journal(Document),
    /// It isn't a journal, and why.
    Damaged(String),
}

/// The newest journal, and what else is in the places.
#[derive(Default)]
struct Newest {
    document: Option<Document>,
    /// Why one couldn't be read.
    trouble: Option<String>,
    damaged: Vec<(PathBuf, String)>,
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Storage {
    /// Reads the newest journal of these places. What can't outlive the boot that
    /// it was written in is left out.
    ///
    /// # Errors
    /// `InvalidData` for a newer braid's. An unreadable one is a [`Storage::trouble`]; a damaged
    /// one is moved aside ([`Storage::damaged`]), as otherwise nothing could be set or undone any
    /// more.
    pub(super) fn open(places: Vec<PathBuf>) -> io::Result<(Storage, Vec<Entry>)> {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        let Newest { document: newest, trouble, damaged } = newest(&places)?;
        let mut kept = None;
        for (place, why) in damaged {
            kept = Some(Damaged { kept: put_aside(&place)?, why });
        }
        let (mut entries, serial) = newest
            .as_ref()
            .map_or((Vec::new(), 0), |newest| (newest.entries.clone(), newest.serial));
        if newest.is_some_and(|newest| is_another(&newest.boot, &boot)) {
            entries.retain(|entry| operation::outlives_boot(&entry.operation));
        }
        Ok((Storage { places, boot, serial, trouble, damaged: kept }, entries))
    }

    /// Whether the files contain something to undo.
    pub(super) fn holds_something(places: &[PathBuf]) -> bool {
        match newest(places) {
            Ok(Newest { damaged, .. }) if !damaged.is_empty() => true,
            Ok(Newest { document, .. }) => document.is_some_and(|it| !it.entries.is_empty()),
            // Opening it reports the error.
            Err(_) => true,
        }
    }

    /// The damaged file found in the journal's place when it was opened.
    pub(super) fn damaged(&self) -> Option<&Damaged> {
        self.damaged.as_ref()
    }

    /// Why the journal on disk isn't up to date.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Writes it so that a crash leaves the old or the new one, and removes what is stale
    /// elsewhere. If it can't be written anywhere, [`Storage::trouble`] says why; operations
    /// continue, and the entries stay in memory.
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
            // Root must not write through a link that somebody else made.
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

    /// A file that can't be removed is stale because of its serial number.
    fn remove_others(&self, kept: usize) {
        for (at, place) in self.places.iter().enumerate() {
            if at != kept {
                let _ = braid_durable::remove(place);
            }
        }
    }

    /// A file that can't be removed is superseded by an empty one elsewhere.
    fn remove_all(&self) -> Option<String> {
        let mut stays = None;
        for place in &self.places {
            // Checked first: if no file exists, a read-only disk is no problem.
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

fn newest(places: &[PathBuf]) -> io::Result<Newest> {
    let mut newest = Newest::default();
    for place in places {
        match read(place) {
            Ok(Reading::Journal(found)) => {
                if newest.document.as_ref().is_none_or(|it| found.serial > it.serial) {
                    newest.document = Some(found);
                }
            }
            Ok(Reading::Nothing) => {}
            Ok(Reading::Damaged(why)) => newest.damaged.push((place.clone(), why)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(error) => newest.trouble = Some(format!("{}: {error}", place.display())),
        }
    }
    Ok(newest)
}

/// How many damaged files are kept; a further one replaces the last.
const KEPT: u32 = 9;

/// Renames it within its folder.
fn put_aside(place: &Path) -> io::Result<PathBuf> {
    let name = |number| {
        let mut name = place.as_os_str().to_owned();
        name.push(format!(".damaged-{number}"));
        PathBuf::from(name)
    };
    let free = (1..KEPT).map(name).find(|kept| fs::symlink_metadata(kept).is_err());
    let kept = free.unwrap_or_else(|| name(KEPT));
    let told = |error: io::Error| {
        let (place, kept) = (place.display(), kept.display());
        let text = format!("{place} is damaged and can't be moved to {kept}: {error}");
        io::Error::new(error.kind(), text)
    };
    fs::rename(place, &kept).map_err(told)?;
    Ok(kept)
}

/// An unknown boot id counts as the same boot.
fn is_another(boot: &str, now: &str) -> bool {
    !boot.is_empty() && !now.is_empty() && boot != now
}

/// Its contents are carried out as root, so a file that others may have written isn't read.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let metadata = file.metadata()?;
    if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others could have written it, so it isn't read; remove it",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read(path: &Path) -> io::Result<Reading> {
    let bytes = match read_own(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reading::Nothing),
        Err(error) => return Err(error),
    };
    let document = match serde_json::from_slice(&bytes) {
        Ok(Versioned { version: VERSION }) => serde_json::from_slice(&bytes),
        Ok(Versioned { version: 1 }) => {
            serde_json::from_slice(&bytes).map(|old: Document<OldEntry>| {
                let entries = old.entries.into_iter().map(Entry::from).collect();
                Document { version: VERSION, boot: old.boot, serial: old.serial, entries }
            })
        }
        Ok(Versioned { version: newer }) => {
            let place = path.display();
            let told = format!(
                "{place}: a newer braid wrote it (version {newer}, this one knows {VERSION}): \
                 `braid down` by that one takes back what it has set on this host, and the file goes"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, told));
        }
        Err(error) => Err(error),
    };
    Ok(match document {
        Ok(document) => Reading::Journal(document),
        Err(error) => Reading::Damaged(error.to_string()),
    })
}
