//! A pool's state, in one line.

use crate::absent_mounts;
use crate::capacity::capacity;
use crate::layout::{Layout, MdFilesystem, MdLayout, Profile};
use crate::luks::LuksVolume;
use crate::observed::{
    ExclusiveOperation, MdMemberState, ObservedBtrfs, ObservedMd, ObservedPool, Purpose, SyncAction,
};
use crate::uuid::Uuid;
use serde::Serialize;
use std::fmt;

/// What `braid pool status` shows of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// UUID of the filesystem or the array.
    pub uuid: Uuid,
    /// `btrfs-raid1`, `md-raid10-f2`; several profiles of data have `+` between; without a profile
    /// when it isn't known.
    pub layout: String,
    /// Whether all is there.
    pub state: State,
    /// How many members it should have.
    pub disks: usize,
    /// How many of those are missing, or don't have all their data.
    pub lacking: usize,
    /// Room for data in this layout.
    pub size_bytes: Option<u64>,
    /// What is stored, each byte counted once; known when mounted.
    pub used_bytes: Option<u64>,
    /// Where it is mounted first.
    pub mounted_at: Option<String>,
    /// What runs.
    pub activity: Option<Activity>,
}

/// Whether a pool has all its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All are there.
    Whole,
    /// All are there but the array isn't assembled.
    Stopped,
    /// One is being rebuilt.
    Rebuilding,
    /// Its disks are encrypted, and nobody has opened them.
    Locked,
    /// All are there, but what fstab mounts isn't mounted.
    Unmounted,
    /// Some are not there; the data is.
    Degraded,
    /// So many are missing that data is unavailable until they come back.
    Failed,
}

/// A long operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Activity {
    /// `scrub`, `balance`, `resync`…
    pub name: String,
    /// How much of it is done, 0 to 1; btrfs reports it elsewhere.
    pub done: Option<f64>,
}

impl Summary {
    /// From a pool as observed.
    pub fn of(pool: &ObservedPool) -> Self {
        match pool {
            ObservedPool::Btrfs(btrfs) => of_btrfs(pool, btrfs),
            ObservedPool::Md(md) => of_md(pool, md),
        }
    }

    /// For an encrypted pool of which only the LUKS volumes can be seen.
    pub fn locked(name: &str, volumes: &[&LuksVolume]) -> Self {
        Summary {
            name: name.to_owned(),
            uuid: volumes
                .iter()
                .find_map(|volume| volume.pool_uuid)
                .unwrap_or(Uuid::from_bytes([0; 16])),
            layout: "encrypted".to_owned(),
            state: State::Locked,
            disks: volumes.len(),
            lacking: 0,
            size_bytes: None,
            used_bytes: None,
            mounted_at: None,
            activity: None,
        }
    }

    /// The same on a host with this fstab, which may want it mounted.
    pub fn on_host(pool: &ObservedPool, fstab: &str) -> Self {
        let mut summary = Summary::of(pool);
        if summary.state == State::Whole && !absent_mounts::of_pool(pool, fstab).is_empty() {
            summary.state = State::Unmounted;
        }
        summary
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Whole => "whole",
            State::Stopped => "stopped",
            State::Rebuilding => "rebuilding",
            State::Locked => "locked",
            State::Unmounted => "unmounted",
            State::Degraded => "degraded",
            State::Failed => "failed",
        })
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.done {
            Some(done) => write!(f, "{} {:.0} %", self.name, (done * 100.0).floor()),
            None => f.write_str(&self.name),
        }
    }
}

fn of_btrfs(pool: &ObservedPool, btrfs: &ObservedBtrfs) -> Summary {
    let lacking = btrfs.missing().count();
    let mut profiles = btrfs.profiles(Purpose::Data);
    profiles.extend(btrfs.profiles(Purpose::Mixed));
    // What a degraded mount left behind is not what the pool is meant to be.
    profiles.sort_by_key(|profile| std::cmp::Reverse(profile.copies()));
    let used = [Purpose::Data, Purpose::Metadata, Purpose::System, Purpose::Mixed]
        .map(|purpose| btrfs.space_of(purpose).1);
    Summary {
        name: pool.name(),
        uuid: btrfs.uuid,
        layout: match profiles.as_slice() {
            [] => "btrfs".to_owned(),
            all => {
                format!("btrfs-{}", all.iter().map(|p| p.as_str()).collect::<Vec<_>>().join("+"))
            }
        },
        state: match (lacking, btrfs.exclusive_operation == ExclusiveOperation::DeviceReplace) {
            (0, false) => State::Whole,
            (0, true) => State::Rebuilding,
            _ => State::Degraded,
        },
        disks: btrfs.members.len(),
        lacking,
        size_bytes: profiles.first().and_then(|profile| btrfs_room(btrfs, *profile)),
        used_bytes: (!btrfs.space.is_empty()).then(|| used.into_iter().sum()),
        mounted_at: first_mount(pool),
        activity: btrfs_activity(btrfs),
    }
}

fn btrfs_room(btrfs: &ObservedBtrfs, profile: Profile) -> Option<u64> {
    let sizes: Vec<u64> = btrfs.members.iter().map(|member| member.size_bytes).collect();
    let room = capacity(Layout::Btrfs(profile), MdFilesystem::default(), &sizes);
    // When the profile's minimum isn't reached any more, the allocated room is all there is.
    Some(room.map_or_else(|| btrfs.space_of(Purpose::Data).0, |room| room.usable_bytes))
}

fn btrfs_activity(btrfs: &ObservedBtrfs) -> Option<Activity> {
    let name = match &btrfs.exclusive_operation {
        ExclusiveOperation::None if btrfs.scrub.running => "scrub",
        ExclusiveOperation::None => return None,
        ExclusiveOperation::Balance => "balance",
        ExclusiveOperation::BalancePaused => "balance (paused)",
        ExclusiveOperation::DeviceAdd => "device add",
        ExclusiveOperation::DeviceRemove => "device remove",
        ExclusiveOperation::DeviceReplace => "device replace",
        ExclusiveOperation::Resize => "resize",
        ExclusiveOperation::Other(name) => name,
    };
    Some(Activity { name: name.to_owned(), done: None })
}

fn of_md(pool: &ObservedPool, md: &ObservedMd) -> Summary {
    let whole = md.in_sync().filter(|member| member.slot.is_some()).count();
    let lacking = md.wants_disks.saturating_sub(whole).max(md.degraded);
    let runs = md.runs();
    let is_filled = md.members.iter().any(|member| member.state == MdMemberState::Recovering);
    Summary {
        name: pool.name(),
        uuid: md.uuid,
        layout: md.layout.map_or_else(|| "md".to_owned(), |layout| Layout::Md(layout).to_string()),
        state: match lacking {
            0 if runs => State::Whole,
            0 => State::Stopped,
            lacking if md.layout.is_some_and(|l| lacking > most_losses(l, md.wants_disks)) => {
                State::Failed
            }
            _ if runs && is_filled => State::Rebuilding,
            _ => State::Degraded,
        },
        disks: md.wants_disks,
        lacking,
        size_bytes: md
            .carries
            .as_ref()
            .and_then(|on| on.size_bytes)
            .or((md.size_bytes > 0).then_some(md.size_bytes)),
        used_bytes: md.carries.as_ref().and_then(|on| on.used_bytes),
        mounted_at: first_mount(pool),
        activity: md.sync.map(|sync| Activity {
            name: sync_name(sync.action).to_owned(),
            done: Some(sync.done),
        }),
    }
}

/// How many losses it can survive, if the right ones are lost.
fn most_losses(layout: MdLayout, disks: usize) -> usize {
    match layout {
        MdLayout::Raid10 { copies, .. } => disks - disks.div_ceil(usize::from(copies.max(1))),
        other => other.losses_survived(disks),
    }
}

fn sync_name(action: SyncAction) -> &'static str {
    match action {
        SyncAction::Resync => "resync",
        SyncAction::Recover => "recovery",
        SyncAction::Reshape => "reshape",
        SyncAction::Check => "check",
        SyncAction::Repair => "repair",
        SyncAction::Waiting => "waiting",
    }
}

fn first_mount(pool: &ObservedPool) -> Option<String> {
    pool.mounts().first().map(|mount| mount.at.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::observed::{SpaceUse, Sync};

    const GIB: u64 = 1 << 30;

    fn btrfs() -> ObservedBtrfs {
        fixture::btrfs(Profile::Raid1, Profile::Raid1, "ab", 100 * GIB, 4 * GIB)
    }

    fn md(layout: MdLayout, states: &[MdMemberState]) -> ObservedMd {
        let letters: String = ('a'..).take(states.len()).collect();
        let mut md = fixture::md(layout, &letters, GIB);
        for (member, state) in md.members.iter_mut().zip(states) {
            member.state = *state;
        }
        md.degraded = states.iter().filter(|state| **state != MdMemberState::InSync).count();
        md
    }

    #[test]
    fn a_whole_btrfs_has_the_room_of_its_layout() {
        let summary = Summary::of(&ObservedPool::Btrfs(btrfs()));
        assert_eq!((summary.name.as_str(), summary.layout.as_str()), ("data", "btrfs-raid1"));
        assert_eq!((summary.state, summary.disks, summary.lacking), (State::Whole, 2, 0));
        assert!((4 * GIB..5 * GIB).contains(&summary.used_bytes.unwrap()), "{summary:?}");
        assert!((99 * GIB..=100 * GIB).contains(&summary.size_bytes.unwrap()), "{summary:?}");
    }

    #[test]
    fn a_btrfs_without_a_member_is_degraded_and_keeps_its_size() {
        let mut seen = btrfs();
        seen.members[1].missing = true;
        seen.scrub.running = true;
        let summary = Summary::of(&ObservedPool::Btrfs(seen));
        assert_eq!((summary.state, summary.lacking), (State::Degraded, 1));
        assert!(summary.size_bytes.unwrap() > 99 * GIB);
        assert_eq!(summary.activity.unwrap().to_string(), "scrub");
    }

    #[test]
    fn a_pool_that_fstab_mounts_and_nobody_has_mounted_is_not_whole() {
        let mut seen = btrfs();
        let fstab = format!("UUID={} /srv/data btrfs defaults 0 0\n", seen.uuid);
        let state = |seen: &ObservedBtrfs, fstab: &str| {
            Summary::on_host(&ObservedPool::Btrfs(seen.clone()), fstab).state
        };
        assert_eq!(state(&seen, &fstab), State::Whole);
        seen.mounts.clear();
        assert_eq!((state(&seen, &fstab), state(&seen, "")), (State::Unmounted, State::Whole));
    }

    #[test]
    fn leftover_single_chunks_stand_behind_the_layout_that_is_meant() {
        let mut seen = btrfs();
        seen.space.push(SpaceUse {
            purpose: Purpose::Data,
            profile: Profile::Single,
            total_bytes: 50 * GIB,
            used_bytes: 1,
        });
        let summary = Summary::of(&ObservedPool::Btrfs(seen));
        assert_eq!(summary.layout, "btrfs-raid1+single");
        assert!(summary.size_bytes.unwrap() <= 100 * GIB);
    }

    #[test]
    fn an_array_fails_only_when_too_many_are_lost() {
        use MdMemberState::{InSync, Missing, Recovering};
        for (layout, states, expected) in [
            (MdLayout::Raid1, vec![InSync, InSync], State::Whole),
            (MdLayout::Raid1, vec![InSync, Missing], State::Degraded),
            (MdLayout::Raid1, vec![InSync, Recovering], State::Rebuilding),
            (MdLayout::Raid0, vec![InSync, Missing], State::Failed),
            (MdLayout::Raid5, vec![InSync, Missing, Missing], State::Failed),
            (MdLayout::FAR2, vec![InSync, Missing, InSync, Missing], State::Degraded),
            (MdLayout::FAR2, vec![InSync, Missing, Missing, Missing], State::Failed),
        ] {
            let summary = Summary::of(&ObservedPool::Md(md(layout, &states)));
            assert_eq!(summary.state, expected, "{layout} {states:?}");
        }
    }

    #[test]
    fn an_array_that_was_not_assembled_is_stopped_and_says_what_runs_otherwise() {
        let mut stopped = md(MdLayout::Raid1, &[MdMemberState::InSync; 2]);
        let sync = Sync { action: SyncAction::Check, done: 0.419, bytes_per_sec: None };
        stopped.sync = Some(sync);
        let running = Summary::of(&ObservedPool::Md(stopped.clone()));
        assert_eq!(running.activity.unwrap().to_string(), "check 41 %");
        stopped.device = None;
        stopped.sync = None;
        assert_eq!(Summary::of(&ObservedPool::Md(stopped)).state, State::Stopped);
    }
}
