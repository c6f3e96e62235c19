//! Transfers a repository's files to and from a target that fails now and then: retries, checks
//! what arrives, sends several packs at a time, and lets nothing refer to a pack before it is
//! there.

mod backend;
mod slots;
#[cfg(test)]
mod tests;
mod transfer;

pub use transfer::Delivery;

use crate::Error;
use crate::store::{self, Name, Store, StoreError};
use crate::target::Target;
use crate::target_options::TargetOptions;
use crate::throttle::Throttle;
use bytes::Bytes;
use jiff::Timestamp;
use rustic_core::{FileType, Id};
use slots::Slots;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use transfer::Transfers;

#[derive(Clone)]
pub(crate) struct Courier {
    transfers: Arc<Transfers>,
    holds_snapshots: Arc<AtomicBool>,
    holding_few: Arc<AtomicUsize>,
    slots: Arc<Slots>,
}

/// As [`Courier::hold_few`] says.
pub(crate) struct HoldsFew(Arc<AtomicUsize>);

impl Drop for HoldsFew {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Courier {
    pub(crate) fn new(target: &Target, target_options: &TargetOptions) -> Result<Courier, Error> {
        let throttle = Arc::new(Throttle::new(target_options.limit));
        Ok(Courier::with(
            store::open(target, target_options, &throttle)?,
            target.shown(),
            target_options.clone(),
        ))
    }

    fn with(store: Arc<dyn Store>, place: String, target_options: TargetOptions) -> Courier {
        let slots = Arc::new(Slots::new(target_options.connections));
        let transfers = Arc::new(Transfers::new(store, place, target_options));
        Courier { transfers, holds_snapshots: Arc::default(), holding_few: Arc::default(), slots }
    }

    /// Why nothing works any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        if self.transfers.is_to_end() {
            return Some(Error::Interrupted);
        }
        let failed = self.transfers.lock().failed.clone()?;
        Some(Error::Target { target: self.transfers.place.clone(), what: failed.to_string() })
    }

    /// Whether there is no point in continuing.
    pub(crate) fn has_ended(&self) -> bool {
        self.transfers.is_to_end() || self.transfers.lock().failed.is_some()
    }

    /// Why the library gave up: the target's error if there is one, else the library's.
    pub(crate) fn error_of(&self, said: String) -> Error {
        let unreadable = self.transfers.lock().unreadable.take();
        self.failure().unwrap_or_else(|| unreadable.map_or(Error::Format(said), Error::Damaged))
    }

    /// What has been sent so far.
    pub(crate) fn delivery(&self) -> Delivery {
        self.transfers.lock().delivery.clone()
    }

    /// Whether snapshots' files are thrown away instead of written.
    pub(crate) fn hold_snapshots(&self, hold: bool) {
        self.holds_snapshots.store(hold, Ordering::Relaxed);
    }

    /// Until it is dropped, no more packs are in memory than there are connections: a restore of
    /// the library's has twenty threads, each with a pack and all that it decodes to. Whoever holds
    /// one must not ask for another.
    pub(crate) fn hold_few(&self) -> HoldsFew {
        self.holding_few.fetch_add(1, Ordering::Relaxed);
        HoldsFew(Arc::clone(&self.holding_few))
    }

    /// Removes what is left of writers that were killed; what stays takes nothing but room.
    pub(crate) fn tidy(&self) {
        let _ = self.transfers.store.tidy();
    }

    /// Checks that everything written since `before` is there: listed with its size, and for files
    /// that name others, with unchanged contents.
    pub(crate) fn look_again(&self, before: usize) -> Result<(), Error> {
        self.transfers.wait().map_err(|error| self.target_error(&error))?;
        let written = self.delivery().written;
        let written = written.get(before..).unwrap_or_default();
        for kind in [FileType::Pack, FileType::Index, FileType::Snapshot] {
            let expected: Vec<_> = written.iter().filter(|(of, ..)| *of == kind).collect();
            if expected.is_empty() {
                continue;
            }
            let listed = self.transfers.list(kind).map_err(|error| self.target_error(&error))?;
            let listed: std::collections::HashMap<Id, u32> = listed.into_iter().collect();
            for (_, id, size) in expected {
                let name = Name::new(kind, id);
                let there = listed.get(id) == Some(size);
                // Index and snapshot say where everything else is; a list may be out of date.
                if !there || kind != FileType::Pack {
                    let came = self.transfers.read(&name, None).map_err(|error| {
                        let what = format!("{} was sent and can't be read: {error}", name.path());
                        Error::Target { target: self.transfers.place.clone(), what }
                    })?;
                    if came.len() as u64 != u64::from(*size) {
                        return Err(Error::Damaged(format!("{} isn't as sent", name.path())));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a file is there with all its bytes.
    pub(crate) fn has(&self, name: &Name, size: u32) -> Result<bool, Error> {
        let last = u64::from(size).saturating_sub(1)..u64::from(size);
        match self.transfers.read(name, Some(&last)) {
            Ok(came) => Ok(came.len() == 1),
            Err(StoreError::Absent | StoreError::Damaged(_)) => Ok(false),
            Err(error) => Err(self.target_error(&error)),
        }
    }

    /// A part of a file; `None` if it isn't there, or can't be read there.
    pub(crate) fn part(&self, name: &Name, part: Range<u64>) -> Result<Option<Bytes>, Error> {
        match self
            .transfers
            .persist("reading", || self.transfers.store.read(name, Some(part.clone())))
        {
            Ok(came) => {
                self.transfers.target_options.watch.carried(came.len());
                Ok(Some(came))
            }
            Err(StoreError::Absent | StoreError::Damaged(_)) => Ok(None),
            Err(error) => Err(self.target_error(&error)),
        }
    }

    /// Takes this for the list of packs, instead of asking the target for one, until it is told
    /// otherwise.
    pub(crate) fn take_for_listed(&self, packs: Option<Vec<(Id, u32)>>) {
        self.transfers.lock().listed = packs;
    }

    /// By the target's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.transfers.store.now()
    }

    /// Makes what the first file needs.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let made = self.transfers.persist("preparing", || self.transfers.store.create());
        made.map_err(|error| self.target_error(&error))
    }

    /// Whether the target can lock what it has.
    pub(crate) fn check_lock(&self) -> Result<(), Error> {
        let can =
            self.transfers.persist("asking whether it locks", || self.transfers.store.can_lock());
        can.map_err(|error| self.target_error(&error))
    }

    /// Locks them against deletion until then; `each` is called with the end of each lock.
    pub(crate) fn lock(
        &self,
        names: &[Name],
        until: Timestamp,
        each: &(dyn Fn(&Name, Timestamp) + Sync),
    ) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let absent = Mutex::new(None);
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.transfers.persist("locking", || self.transfers.store.lock(name, until)) {
                    Ok(end) => each(name, end),
                    // Others exist and need to be locked.
                    Err(StoreError::Absent) => {
                        *absent.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                            Some(*name);
                    }
                    Err(_) => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.transfers.target_options.connections.max(1) {
                scope.spawn(work);
            }
        });
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        match absent.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(name) => Err(Error::Damaged(format!(
                "{} isn't there, though backups need it: `braid pool backup check` tells more",
                self.transfers.about(&name)
            ))),
            None => Ok(()),
        }
    }

    /// The end of its lock, if it has one.
    pub(crate) fn lock_end(&self, name: &Name) -> Result<Option<Timestamp>, Error> {
        let end = self.transfers.persist("reading a lock", || self.transfers.store.lock_end(name));
        end.map_err(|error| self.target_error(&error))
    }

    fn target_error(&self, error: &StoreError) -> Error {
        let target =
            Error::Target { target: self.transfers.place.clone(), what: error.to_string() };
        self.failure().unwrap_or(target)
    }
}
