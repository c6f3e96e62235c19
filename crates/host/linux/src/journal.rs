//! What we set on the host, recorded on disk before it is set, so that the next start can undo what
//! a crash left behind.

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

/// An operation that could not be set or undone. The others were done.
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
    /// Reduced to what undoing needs. A table is removed by its name; its text, megabytes with ten
    /// thousand rules, would be written at each step. A daemon that continues after a restart
    /// creates it anew.
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
    /// Opens the journal, for the calling thread's network namespace. It is kept in the first of
    /// these files that can be written. Entries that it contains when opened were left by a crash:
    /// [`UndoJournal::undo`] them.
    ///
    /// # Errors
    /// `InvalidData` when a newer braid wrote it; those of netlink's socket.
    pub fn open(places: &[PathBuf]) -> io::Result<UndoJournal> {
        let (storage, entries) = Storage::open(places.to_vec())?;
        Ok(UndoJournal { storage, entries, netlink: Netlink::open()?, restored: Vec::new() })
    }

    /// Whether these files contain entries that a crash left.
    pub fn holds_something(places: &[PathBuf]) -> bool {
        Storage::holds_something(places)
    }

    /// The damaged file found in the journal's place when it was opened: what it recorded can't be
    /// undone.
    pub fn damaged(&self) -> Option<&Damaged> {
        self.storage.damaged()
    }

    /// Why the journal on disk isn't up to date, if so: after a crash, what it lacks would stay on
    /// the host. Writing is retried with each change.
    pub fn trouble(&self) -> Option<&str> {
        self.storage.trouble()
    }

    /// Retries writing, if the file on disk isn't up to date.
    pub fn retry(&mut self) {
        if self.storage.trouble().is_some() {
            self.storage.store(&self.entries);
        }
    }

    /// What we have set.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.entries.iter().map(|entry| &entry.operation)
    }

    /// What others removed and was set again since the last call.
    pub fn take_restored(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.restored)
    }

    /// Brings the host to the desired state: undoes what is no longer wanted, sets what is missing
    /// (including what the kernel dropped, such as routes of an interface that went down). What
    /// somebody else has already set stays theirs.
    ///
    /// Returns what could not be done; it is tried again at the next call. A full disk doesn't
    /// prevent anything from being set: see [`UndoJournal::trouble`].
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

    /// Undoes everything, last first, and deletes the file. Returns what could not be undone; the
    /// file then keeps it.
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
            // There is nothing to undo; whatever exists in its place belongs to others.
            self.entries = before;
            self.store();
        }
        set
    }

    /// Whether a failed operation left nothing behind. If unknown, assume it did: undoing what
    /// doesn't exist does no harm.
    fn had_no_effect(&mut self, wanted: &Operation, prior: Option<&str>) -> bool {
        // The program that sets it may have been stopped together with us after finishing, or the
        // kernel's answer may have been lost.
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
