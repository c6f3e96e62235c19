//! A pool's regular jobs: scrubs, snapshots, retention, replication; and the systemd units that run
//! them.

mod backup;
mod calendar;
mod lock_span;
mod unit;

pub use backup::{BackupTarget, BackupTargetError, Backups};
pub use calendar::{Calendar, CalendarError};
pub use lock_span::{LockSpan, LockSpanError};
pub use unit::{MadeBy, ScheduledPool, Unit, scrub_service, scrub_timer};

use crate::place::Place;
use crate::retention::Policy;
use braid_units::Rate;
use std::time::Duration;

/// Which of these are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Everything is read and compared with its checksums or copies.
    pub scrub: Option<When>,
    /// Snapshots are taken.
    pub snapshot: Option<Snapshots>,
    /// Old ones are deleted.
    pub retain: Option<Retention>,
    /// They are sent elsewhere.
    pub replicate: Option<Replication>,
    /// Folders are backed up.
    pub backup: Option<Backups>,
}

/// When something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// At these times,
    pub on: Calendar,
    /// or up to this much later, so that pools and computers don't all start at once.
    pub jitter: Duration,
}

/// Snapshots of subvolumes of the pool. All paths are relative to where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshots {
    /// When they are taken.
    pub when: When,
    /// Of what; at least one.
    pub of: Vec<String>,
    /// Into which folder.
    pub into: String,
}

/// What happens to old snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// When it runs.
    pub when: When,
    /// Which stay.
    pub policy: Policy,
    /// In which folder.
    pub folder: String,
}

/// A copy of the snapshots elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// When snapshots that aren't there yet are sent.
    pub when: When,
    /// From which folder.
    pub folder: String,
    /// To where.
    pub to: Place,
    /// Maximum rate.
    pub limit: Option<Rate>,
    /// Only the newest of each subvolume.
    pub newest: bool,
}

/// Parses a replication's rate limit; zero is refused, since it would wait forever.
///
/// # Errors
/// What is wrong with it, in words: it isn't a rate, or it is zero.
pub fn rate_limit(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate.bits_per_sec() == 0 => Err("nothing would ever be sent".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

/// The default folder of snapshots.
pub const SNAPSHOTS: &str = ".snapshots";

impl Upkeep {
    /// The timers and services for the pool, which is mounted at `at`.
    pub fn units(&self, pool: &ScheduledPool<'_>, at: &str) -> Vec<Unit> {
        let mut units = vec![];
        if let Some(when) = &self.scrub {
            units.extend([scrub_service(), scrub_timer(pool, when)]);
        }
        if let Some(snapshot) = &self.snapshot {
            units.extend(unit::snapshot(pool, snapshot, at));
        }
        if let Some(retain) = &self.retain {
            units.extend(unit::retain(pool, retain, at));
        }
        if let Some(replicate) = &self.replicate {
            units.extend(unit::replicate(pool, replicate, at));
        }
        if let Some(backup) = &self.backup {
            units.extend(unit::backup(pool, backup, at));
        }
        units
    }
}
