//! Which snapshots to keep: grandfather, father, son. A policy is a sequence of stages, from now
//! into the past: `1x1h(keep=all) | 24x1h | 14x1d` keeps all of the first hour, then one per hour
//! for a day, then one per day for two weeks. The grammar is zrepl's "grid".

mod caution;
mod policy;

pub use caution::{Caution, Fate, caution};
pub use policy::{Keep, Policy, PolicyError, Stage};

use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A snapshot, as far as retention cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name, unique among those given.
    pub name: String,
    /// When it was taken, since the Unix epoch.
    pub taken: Duration,
}

/// The newest snapshot that this side and a replica both have: without it the next replication
/// would have to send everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonParent {
    /// Name of the snapshot here.
    pub snapshot: String,
    /// The replica that needs it.
    pub replica: String,
}

/// The fate of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The snapshot.
    pub snapshot: String,
    /// Whether it stays.
    pub keep: bool,
    /// Every reason for that; never empty.
    pub because: Vec<Reason>,
}

/// Why a snapshot stays or goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Stays: it is the newest.
    Newest,
    /// Stays: it claims to be from the future. A clock was wrong then, or is wrong now; there is no
    /// telling.
    Future,
    /// Stays: the stage keeps it.
    Stage {
        /// The stage as it is written, `24x1h`.
        stage: String,
        /// Which of the stage's intervals it is in, from 1.
        interval: u32,
    },
    /// Stays: the replica's next incremental needs it.
    LastCommonParent {
        /// The replica.
        replica: String,
    },
    /// Stays: another one that stays is stored as a difference from it.
    BaseOf {
        /// That other one.
        snapshot: String,
    },
    /// Goes: its interval has enough older ones.
    IntervalFull {
        /// The stage as it is written.
        stage: String,
        /// Which of its intervals, from 1.
        interval: u32,
        /// One that is kept there.
        kept: String,
    },
    /// Goes: it is older than all stages.
    TooOld,
}

/// Decides for each snapshot whether it stays, newest first. Intervals are counted from the newest
/// snapshot that isn't later than `now` (since the Unix epoch): nothing is lost merely because no
/// snapshot was taken for a while, or because the clock is ahead. One later than `now` stays and
/// doesn't count, so one wrong date doesn't age the others. In an interval the oldest stay:
/// otherwise newer ones would keep pushing out older ones, and nothing would ever reach the later
/// stages.
pub fn select(
    policy: &Policy,
    snapshots: &[Snapshot],
    parents: &[CommonParent],
    now: Duration,
) -> Vec<Decision> {
    let mut all: Vec<&Snapshot> = snapshots.iter().collect();
    all.sort_by(|a, b| b.taken.cmp(&a.taken).then_with(|| b.name.cmp(&a.name)));
    let (future, newest_first) = all.split_at(all.partition_point(|one| one.taken > now));
    let mut decisions: Vec<Decision> = Vec::with_capacity(all.len());
    decisions.extend(future.iter().map(|one| Decision {
        snapshot: one.name.clone(),
        keep: true,
        because: vec![Reason::Future],
    }));
    let Some(newest) = newest_first.first().map(|snapshot| snapshot.taken) else {
        return decisions;
    };
    let places: Vec<Option<Slot>> =
        newest_first.iter().map(|one| policy.slot_of(newest.saturating_sub(one.taken))).collect();
    for (index, snapshot) in newest_first.iter().enumerate() {
        let mut stays = Vec::new();
        let mut goes = Vec::new();
        if index == 0 {
            stays.push(Reason::Newest);
        }
        for parent in parents.iter().filter(|parent| parent.snapshot == snapshot.name) {
            stays.push(Reason::LastCommonParent { replica: parent.replica.clone() });
        }
        match places.get(index).copied().flatten() {
            None => goes.push(Reason::TooOld),
            Some(place) => {
                // Older ones in the same interval come later in this order.
                let elders = places.iter().skip(index + 1).filter(|other| **other == Some(place));
                let elders = elders.count();
                let (stage, interval) = (place.stage.to_string(), place.interval + 1);
                match place.stage.keep {
                    Keep::AtMost(n) if elders >= n as usize => {
                        let eldest = newest_first.get(index + elders);
                        let kept = eldest.map(|one| one.name.clone()).unwrap_or_default();
                        goes.push(Reason::IntervalFull { stage, interval, kept });
                    }
                    _ => stays.push(Reason::Stage { stage, interval }),
                }
            }
        }
        let keep = !stays.is_empty();
        let because = if keep { stays } else { goes };
        decisions.push(Decision { snapshot: snapshot.name.clone(), keep, because });
    }
    decisions
}

/// The newest of `snapshots` that `replica_has`.
pub fn last_common(
    snapshots: &[Snapshot],
    replica_has: impl Fn(&str) -> bool,
) -> Option<&Snapshot> {
    snapshots.iter().filter(|one| replica_has(&one.name)).max_by_key(|one| one.taken)
}

/// One interval of one stage.
#[derive(Clone, Copy, PartialEq)]
struct Slot {
    index: usize,
    stage: Stage,
    interval: u32,
}

impl Policy {
    /// The interval of a snapshot this much older than the newest.
    fn slot_of(&self, age: Duration) -> Option<Slot> {
        let mut begins = Duration::ZERO;
        for (index, stage) in self.stages().iter().enumerate() {
            let span = stage.length.saturating_mul(stage.count);
            if age < begins + span {
                let into = (age - begins).as_nanos() / stage.length.as_nanos().max(1);
                return Some(Slot { index, stage: *stage, interval: into as u32 });
            }
            begins += span;
        }
        None
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Newest => f.write_str("the newest"),
            Reason::Future => f.write_str("dated in the future: set aside"),
            Reason::Stage { stage, interval } => write!(f, "{stage}, interval {interval}"),
            Reason::LastCommonParent { replica } => {
                write!(f, "replica {replica} needs it for the next incremental")
            }
            Reason::BaseOf { snapshot } => {
                write!(f, "{snapshot} is stored as the difference to it")
            }
            Reason::IntervalFull { stage, interval, kept } => {
                write!(f, "{stage}, interval {interval} is kept by {kept}")
            }
            Reason::TooOld => f.write_str("older than all stages"),
        }
    }
}

#[cfg(test)]
mod tests;
