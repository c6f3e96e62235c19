//! What we have set on the host, on disk before it is set: what a crash leaves
//! behind, the next start takes back.

mod storage;
mod version_1;

use crate::netlink::Netlink;
use crate::operation;
use braid_engines::{FirewallTable, Operation};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use storage::Storage;

pub use storage::Damaged;

/// The record of what is done to the host for one tunnel or group.
pub struct UndoJournal {
    storage: Storage,
    entries: Vec<Entry>,
    netlink: Netlink,
    restored: Vec<Operation>,
}

/// Something that could not be set or taken back. The rest was done.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {error}")]
pub struct Failure {
    /// What.
    pub operation: Operation,
    /// Why.
    pub error: io::Error,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    operation: Operation,
    /// What was there before.
    prior: Option<String>,
}

impl Entry {
    /// With what is needed to take it back. A table is taken away by its name, and with ten
    /// thousand rules its text has megabytes, to be written at each step: who goes on with it after
    /// a restart makes it anew.
    fn as_stored(&self) -> Entry {
        let mut stored = self.clone();
        if let Operation::Firewall(table) = &mut stored.operation {
            let interface = std::mem::take(&mut table.interface);
            *table = FirewallTable { interface, ..FirewallTable::default() };
        }
        stored
    }
}

impl UndoJournal {
    /// Opens the journal, for the calling thread's network namespace. It is kept
    /// in the first of these files that can be written. What it holds at start was
    /// left by a crash: [`UndoJournal::undo`] it.
    ///
    /// # Errors
    /// `InvalidData` when a newer braid wrote it; those of netlink's socket.
    pub fn open(places: &[PathBuf]) -> io::Result<UndoJournal> {
        let (storage, entries) = Storage::open(places.to_vec())?;
        Ok(UndoJournal { storage, entries, netlink: Netlink::open()?, restored: Vec::new() })
    }

    /// Whether these files hold something that a crash left.
    pub fn holds_something(places: &[PathBuf]) -> bool {
        Storage::holds_something(places)
    }

    /// What was in the journal's place when it was opened, if that was none: what it told of the
    /// host can't be taken back by it.
    pub fn damaged(&self) -> Option<&Damaged> {
        self.storage.damaged()
    }

    /// Why the journal isn't on disk as it is now, if so: a crash would leave
    /// behind what it doesn't hold. It is tried again with each change.
    pub fn trouble(&self) -> Option<&str> {
        self.storage.trouble()
    }

    /// Tries again to write it, if it isn't on disk as it is.
    pub fn retry(&mut self) {
        if self.storage.trouble().is_some() {
            self.storage.store(&self.entries);
        }
    }

    /// What we have set.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.entries.iter().map(|entry| &entry.operation)
    }

    /// What was gone although nobody here took it away, and was set again, since the last
    /// call.
    pub fn take_restored(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.restored)
    }

    /// Brings the host to the desired state: undoes what is no longer wanted, sets what is missing
    /// (including what the kernel dropped, such as routes of an interface that went down). What
    /// somebody else has already set stays theirs.
    ///
    /// Returns what could not be done; it is tried again at the next call. A full
    /// disk keeps nothing from being set: see [`UndoJournal::trouble`].
    pub fn reconcile(&mut self, desired: &[Operation]) -> Vec<Failure> {
        let mut failures = self.remove(|done| {
            !desired.iter().any(|wanted| wanted == done || operation::is_replaced_by(done, wanted))
        });
        for wanted in desired {
            if let Err(error) = self.ensure(wanted) {
                failures.push(Failure { operation: wanted.clone(), error });
            }
        }
        failures
    }

    /// Takes everything back, the last first, and deletes the file. Returns
    /// what could not be; the file then keeps it.
    pub fn undo(&mut self) -> Vec<Failure> {
        self.remove(|_| true)
    }

    fn remove(&mut self, unwanted: impl Fn(&Operation) -> bool) -> Vec<Failure> {
        let mut failures = Vec::new();
        for at in (0..self.entries.len()).rev() {
            let Some(entry) = self.entries.get(at).filter(|entry| unwanted(&entry.operation))
            else {
                continue;
            };
            match operation::unset(&entry.operation, entry.prior.as_deref(), &mut self.netlink) {
                Ok(()) => {
                    self.entries.remove(at);
                    self.store();
                }
                Err(error) => failures.push(Failure { operation: entry.operation.clone(), error }),
            }
        }
        failures
    }

    fn ensure(&mut self, wanted: &Operation) -> io::Result<()> {
        let ours = self.entries.iter().find(|entry| entry.operation == *wanted);
        let prior = ours.and_then(|entry| entry.prior.as_deref());
        let of_others = match operation::is_set(wanted, prior, &mut self.netlink) {
            Ok(true) if ours.is_some() || !operation::is_exclusive(wanted) => return Ok(()),
            Ok(is_set) => is_set,
            Err(error) => return Err(error),
        };
        if ours.is_some() {
            operation::set(wanted, prior, &mut self.netlink)?;
            self.restored.push(wanted.clone());
            return Ok(());
        }
        let prior = operation::prior(wanted, &mut self.netlink)?;
        let before = self.entries.clone();
        self.entries.retain(|entry| !operation::is_replaced_by(&entry.operation, wanted));
        self.entries.push(Entry { operation: wanted.clone(), prior: prior.clone() });
        self.store();
        let set = operation::set(wanted, prior.as_deref(), &mut self.netlink);
        if set.is_err() && (of_others || self.had_no_effect(wanted, prior.as_deref())) {
            // Nothing is to be undone; what may exist in its place belongs to others.
            self.entries = before;
            self.store();
        }
        set
    }

    /// Of what could not be set. In doubt it had: what isn't there is taken back without harm.
    fn had_no_effect(&mut self, wanted: &Operation, prior: Option<&str>) -> bool {
        // A program that sets it may have been stopped with us when it was done, or the kernel's
        // answer got lost.
        match operation::is_set(wanted, prior, &mut self.netlink) {
            Ok(false) => operation::undo_half(wanted, prior).is_ok(),
            Ok(true) | Err(_) => false,
        }
    }

    fn store(&mut self) {
        self.storage.store(&self.entries);
    }
}

#[cfg(test)]
mod tests;
