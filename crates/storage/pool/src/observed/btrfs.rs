use super::Mount;
use crate::disk::DiskId;
use crate::layout::Profile;
use crate::untrusted::Untrusted;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A btrfs as the kernel shows it (ioctls and `/sys/fs/btrfs/UUID`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedBtrfs {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: Option<Untrusted>,
    /// Members by devid.
    pub members: Vec<BtrfsMember>,
    /// The block groups by purpose and profile; more than one profile for a purpose means mixed.
    /// Empty when it isn't mounted, since only the mounted filesystem reports them.
    pub space: Vec<SpaceUse>,
    /// The profiles of its chunks from the chunk tree on the disks; read only when it isn't
    /// mounted, and empty if it can't be read.
    #[serde(default)]
    pub profiles_on_disk: Vec<(Purpose, Profile)>,
    /// The operation that excludes other long ones.
    pub exclusive_operation: ExclusiveOperation,
    /// The last known scrub.
    pub scrub: Scrub,
    /// Quota groups are on.
    pub quotas: bool,
    /// Where it is mounted; empty for one that was only seen on its disks.
    pub mounts: Vec<Mount>,
    /// Transaction of the newest superblock.
    pub generation: u64,
    /// Some subvolume, directory or file has `chattr +C`, or a mount says `nodatacow`: the paths
    /// found.
    pub nodatacow: Vec<String>,
}

/// A device of a btrfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BtrfsMember {
    /// Its number in the filesystem.
    pub devid: u64,
    /// The device's own UUID.
    pub uuid: Option<Uuid>,
    /// Path, when it is there.
    pub path: Option<String>,
    /// Its disk, when it is there and known.
    pub disk: Option<DiskId>,
    /// The size that btrfs uses on it.
    pub size_bytes: u64,
    /// The size of the device itself; more than `size_bytes` when the disk grew and btrfs was not
    /// told.
    pub device_bytes: Option<u64>,
    /// Bytes occupied by chunks; `size_bytes` less this is unallocated.
    pub allocated_bytes: u64,
    /// It isn't there, or only its name is.
    pub missing: bool,
    /// What is wrong with it, if something with its name is there.
    #[serde(default)]
    pub fault: Option<MemberFault>,
    /// Counted since the last reset.
    pub errors: BtrfsErrors,
    /// Errors on it that the last scrub could not correct there. Other members may have the same
    /// data right.
    #[serde(default)]
    pub uncorrectable: u64,
    /// Transaction of its superblock; behind the filesystem's when it missed writes.
    pub generation: Option<u64>,
}

/// Why a member that btrfs uses, and whose device is there, can't be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberFault {
    /// Its device has a size of 0: the disk behind it is gone.
    NoSize,
    /// No read succeeds, anywhere.
    NoAnswer,
    /// Its superblock can't be read; other places can.
    SuperblockUnreadable,
}

impl MemberFault {
    /// Whether nothing at all can be read from it or written to it.
    pub fn is_dead(self) -> bool {
        matches!(self, MemberFault::NoSize | MemberFault::NoAnswer)
    }
}

/// `btrfs device stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BtrfsErrors {
    /// Writes that failed.
    pub write: u64,
    /// Reads that failed.
    pub read: u64,
    /// Flushes that failed.
    pub flush: u64,
    /// Checksums that didn't match.
    pub corruption: u64,
    /// Metadata older than it should be.
    pub generation: u64,
}

/// Block groups of one purpose and profile (`BTRFS_IOC_SPACE_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceUse {
    /// What they hold.
    pub purpose: Purpose,
    /// Their profile.
    pub profile: Profile,
    /// Room in them, each byte counted once however many copies there are.
    pub total_bytes: u64,
    /// How much of it is used.
    pub used_bytes: u64,
}

/// What a block group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Contents of files.
    Data,
    /// Trees.
    Metadata,
    /// The chunk tree.
    System,
    /// Data and metadata in the same block groups (`mkfs.btrfs --mixed`).
    Mixed,
}

/// `/sys/fs/btrfs/UUID/exclusive_operation`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExclusiveOperation {
    /// None.
    #[default]
    None,
    /// A balance.
    Balance,
    /// A balance that is paused.
    BalancePaused,
    /// A device is being added.
    DeviceAdd,
    /// A device is being removed.
    DeviceRemove,
    /// A device is being replaced.
    DeviceReplace,
    /// A resize.
    Resize,
    /// Another word.
    Other(String),
}

/// What is known about scrubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// How long ago the last one ended; `None` when none is known.
    pub ended_ago: Option<Duration>,
    /// The pool's maximum age: nothing in it can be older. `None` when unknown.
    #[serde(default)]
    pub pool_age: Option<Duration>,
    /// One runs now.
    pub running: bool,
    /// The record of when the last one ended isn't readable by this user.
    #[serde(default)]
    pub may_not_be_read: bool,
    /// Errors that it could not correct.
    pub uncorrectable: u64,
    /// Errors that it corrected (md: `mismatch_cnt`).
    pub corrected: u64,
}

impl BtrfsErrors {
    /// All together.
    pub fn sum(self) -> u64 {
        let BtrfsErrors { write, read, flush, corruption, generation } = self;
        [write, read, flush, corruption, generation].into_iter().fold(0, u64::saturating_add)
    }

    /// Failed writes and flushes.
    pub fn refused(self) -> u64 {
        self.write.saturating_add(self.flush)
    }
}

impl BtrfsMember {
    /// Bytes that no chunk occupies.
    pub fn unallocated_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.allocated_bytes)
    }
}

impl ObservedBtrfs {
    /// Profiles of this purpose that hold at least one block group, the one with most room first.
    pub fn profiles(&self, purpose: Purpose) -> Vec<Profile> {
        let mut of: Vec<&SpaceUse> = self
            .space
            .iter()
            .filter(|space| space.purpose == purpose && space.total_bytes > 0)
            .collect();
        of.sort_by_key(|space| std::cmp::Reverse(space.total_bytes));
        of.into_iter().map(|space| space.profile).collect()
    }

    /// How many members may be lost without losing stored data, by the weakest profile of any block
    /// group. `None` when it isn't mounted, so that it isn't known.
    pub fn losses_survived(&self) -> Option<usize> {
        let in_use = self.space.iter().filter(|space| space.total_bytes > 0);
        in_use.map(|space| space.profile.losses_survived()).min()
    }

    /// The profiles that data and metadata should have: the strongest of each that any block group
    /// has, since a degraded mount leaves `single` ones behind. `None` when it isn't mounted, so
    /// that it isn't known.
    pub fn meant_profiles(&self) -> Option<(Profile, Profile)> {
        let strongest = |purpose| {
            let all = self.profiles(purpose).into_iter();
            all.max_by_key(|profile| (profile.losses_survived(), *profile))
        };
        let data = strongest(Purpose::Data).or_else(|| strongest(Purpose::Mixed))?;
        Some((data, strongest(Purpose::Metadata).unwrap_or(data)))
    }

    /// The same; for one that isn't mounted, from what is on its disks.
    pub fn intended_profiles(&self) -> Option<(Profile, Profile)> {
        let strongest = |of: Purpose| {
            let all = self.profiles_on_disk.iter().filter(|(purpose, _)| *purpose == of);
            all.map(|(_, profile)| *profile)
                .max_by_key(|profile| (profile.losses_survived(), *profile))
        };
        let on_disk = || {
            let data = strongest(Purpose::Data).or_else(|| strongest(Purpose::Mixed))?;
            Some((data, strongest(Purpose::Metadata).unwrap_or(data)))
        };
        self.meant_profiles().or_else(on_disk)
    }

    /// The members that are there.
    pub fn present(&self) -> impl Iterator<Item = &BtrfsMember> {
        self.members.iter().filter(|member| !member.missing)
    }

    /// The members that are not.
    pub fn missing(&self) -> impl Iterator<Item = &BtrfsMember> {
        self.members.iter().filter(|member| member.missing)
    }

    /// Room and use of all block groups of this purpose.
    pub fn space_of(&self, purpose: Purpose) -> (u64, u64) {
        let of = self.space.iter().filter(|space| space.purpose == purpose);
        of.fold((0, 0), |(total, used), space| (total + space.total_bytes, used + space.used_bytes))
    }
}
