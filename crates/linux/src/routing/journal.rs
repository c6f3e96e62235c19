//! What we have set on the host, on disk before it is set: what a crash leaves
//! behind, the next start takes back.

use super::item::Item;
use crate::netlink::Netlink;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The form of the file.
const VERSION: u32 = 1;

/// The record of what is set on the host for one tunnel.
pub struct Journal {
    path: PathBuf,
    entries: Vec<Entry>,
    netlink: Netlink,
}

/// Something that could not be set or taken back. The rest was done.
#[derive(Debug, thiserror::Error)]
#[error("{item}: {error}")]
pub struct Failure {
    /// What.
    pub item: Item,
    /// Why.
    pub error: io::Error,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    item: Item,
    /// What was there before.
    prior: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    entries: Vec<Entry>,
}

impl Journal {
    /// Opens the journal, for the calling thread's network namespace. What it
    /// holds at start was left by a crash: [`Journal::undo`] it.
    ///
    /// # Errors
    /// Those of the file; `InvalidData` when it isn't a journal.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Journal> {
        let path = path.into();
        let entries = match fs::read(&path) {
            Ok(bytes) => parse(&bytes).map_err(|what| {
                let message = format!("{}: {what}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Journal { path, entries, netlink: Netlink::open()? })
    }

    /// What we have set.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.entries.iter().map(|entry| &entry.item)
    }

    /// Makes the host as desired: takes back what is no longer wanted, sets
    /// what is missing (also what the kernel dropped, as it does with routes
    /// of an interface that went down). What is so already by somebody else's
    /// hand stays theirs.
    ///
    /// Returns what could not be done; it is tried again at the next call.
    ///
    /// # Errors
    /// Those of the journal's file: then nothing more is changed.
    pub fn reconcile(&mut self, desired: &[Item]) -> io::Result<Vec<Failure>> {
        let mut failures = self.remove(|item| {
            !desired.iter().any(|wanted| wanted == item || item.is_replaced_by(wanted))
        })?;
        for item in desired {
            if let Err(error) = self.ensure(item)? {
                failures.push(Failure { item: item.clone(), error });
            }
        }
        Ok(failures)
    }

    /// Takes everything back, the last first, and deletes the file. Returns
    /// what could not be; the file then keeps it.
    ///
    /// # Errors
    /// Those of the journal's file.
    pub fn undo(&mut self) -> io::Result<Vec<Failure>> {
        self.remove(|_| true)
    }

    fn remove(&mut self, unwanted: impl Fn(&Item) -> bool) -> io::Result<Vec<Failure>> {
        let mut failures = Vec::new();
        for at in (0..self.entries.len()).rev() {
            let Some(entry) = self.entries.get(at).filter(|entry| unwanted(&entry.item)) else {
                continue;
            };
            match entry.item.unset(entry.prior.as_deref(), &mut self.netlink) {
                Ok(()) => {
                    self.entries.remove(at);
                    self.store()?;
                }
                Err(error) => failures.push(Failure { item: entry.item.clone(), error }),
            }
        }
        Ok(failures)
    }

    /// Outer error: the journal can't be written. Inner: the item can't be set.
    fn ensure(&mut self, item: &Item) -> io::Result<io::Result<()>> {
        let ours = self.entries.iter().any(|entry| entry.item == *item);
        let of_others = match item.is_set(&mut self.netlink) {
            Ok(true) if ours || !item.is_exclusive() => return Ok(Ok(())),
            Ok(is_set) => is_set,
            Err(error) => return Ok(Err(error)),
        };
        if ours {
            return Ok(item.set(&mut self.netlink));
        }
        let prior = match item.prior(&mut self.netlink) {
            Ok(prior) => prior,
            Err(error) => return Ok(Err(error)),
        };
        let before = self.entries.clone();
        self.entries.retain(|entry| !entry.item.is_replaced_by(item));
        self.entries.push(Entry { item: item.clone(), prior });
        self.store()?;
        let set = item.set(&mut self.netlink);
        // A program that sets it may have been stopped with us when it was done.
        let mut took_effect = || item.is_set(&mut self.netlink).unwrap_or(false);
        if set.is_err() && (of_others || !took_effect()) {
            // Nothing happened, so nothing is to be undone; what may exist in
            // its place belongs to others.
            self.entries = before;
            self.store()?;
        }
        Ok(set)
    }

    /// Writes the journal so that a crash leaves the old or the new one.
    fn store(&self) -> io::Result<()> {
        if self.entries.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => sync_directory(&self.path),
            };
        }
        let document = Document { version: VERSION, entries: self.entries.clone() };
        let text = serde_json::to_vec_pretty(&document)?;
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let mut file = File::create(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        sync_directory(&self.path)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let document: Document = serde_json::from_slice(bytes)
        .map_err(|error| format!("not a journal of braid's ({error})"))?;
    if document.version != VERSION {
        return Err(format!("journal of version {}, expected {VERSION}", document.version));
    }
    Ok(document.entries)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
