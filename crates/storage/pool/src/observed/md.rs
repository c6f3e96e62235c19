use super::{Mount, Scrub};
use crate::disk::DiskId;
use crate::layout::MdLayout;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// An md array, from `/sys/block/mdX/md` and its members' superblocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedMd {
    /// The array's UUID.
    pub uuid: Uuid,
    /// The kernel's name: `md127`. `None` when it isn't assembled.
    pub device: Option<String>,
    /// Name in the superblock, with its host: `alpha:data`. Empty with metadata 0.90.
    pub name: String,
    /// Metadata version: `1.2`, `0.90`…
    pub metadata: String,
    /// Level and layout; `None` for one that Braid doesn't know (linear, raid4, an odd raid10).
    pub layout: Option<MdLayout>,
    /// Stripe unit; 0 for raid1.
    pub chunk_bytes: u64,
    /// Number of members when complete.
    pub wants_disks: usize,
    /// Its members, spares and faulty ones.
    pub members: Vec<MdMember>,
    /// How many of those are missing or not in sync (`md/degraded`; `mdadm --detail` can be wrong
    /// about it).
    pub degraded: usize,
    /// What runs.
    pub sync: Option<Sync>,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes used on each member (`md/component_size`).
    pub member_bytes: u64,
    /// There is a write-intent bitmap.
    pub bitmap: bool,
    /// The last check, and `mismatch_cnt`.
    pub scrub: Scrub,
    /// What is on the array.
    pub carries: Option<OnArray>,
}

/// A member of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdMember {
    /// Path; `None` when it is gone.
    pub path: Option<String>,
    /// Its disk, when known.
    pub disk: Option<DiskId>,
    /// Its place in the array.
    pub slot: Option<usize>,
    /// `md/dev-*/state`.
    pub state: MdMemberState,
    /// Read errors corrected (`md/dev-*/errors`).
    pub errors: u64,
    /// Size of the device itself.
    pub device_bytes: Option<u64>,
    /// Events in its superblock; behind the others' when it missed writes.
    pub events: Option<u64>,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MdMemberState {
    /// Has all its data.
    InSync,
    /// Is being rebuilt.
    Recovering,
    /// Waits for another to fail.
    Spare,
    /// Kicked out.
    Faulty,
    /// In the superblock, but not there.
    Missing,
}

/// A background operation of an array.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// Which.
    pub action: SyncAction,
    /// How much of it is done, 0 to 1.
    pub done: f64,
    /// How fast.
    pub bytes_per_sec: Option<u64>,
}

/// `md/sync_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncAction {
    /// Making copies the same after a crash or creation.
    Resync,
    /// Filling a new member.
    Recover,
    /// Changing the shape.
    Reshape,
    /// Reading and comparing everything.
    Check,
    /// The same, and correcting it.
    Repair,
    /// Stopped (`frozen`), or waiting for another array on the same disks (`DELAYED`, `PENDING`).
    Waiting,
}

/// The filesystem on an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnArray {
    /// `ext4`, `xfs`…
    pub kind: String,
    /// Its UUID, where it is one.
    pub uuid: Option<Uuid>,
    /// Its label.
    pub label: Option<String>,
    /// Its capacity; known when mounted.
    pub size_bytes: Option<u64>,
    /// How much of it is used; known when mounted.
    pub used_bytes: Option<u64>,
    /// Where it is mounted.
    pub mounts: Vec<Mount>,
}

impl ObservedMd {
    /// The name without its host: `data` of `alpha:data`; the kernel's when there is none.
    pub fn short_name(&self) -> &str {
        match self.name.split_once(':') {
            Some((_, name)) => name,
            None if !self.name.is_empty() => &self.name,
            None => self.device.as_deref().unwrap_or("md"),
        }
    }

    /// The host in its name: `alpha` of `alpha:data`.
    pub fn homehost(&self) -> Option<&str> {
        self.name.split_once(':').map(|(host, _)| host)
    }

    /// Whether it runs; one that lacks the members for that may still be assembled, and has no
    /// size.
    pub fn runs(&self) -> bool {
        self.device.is_some() && self.size_bytes > 0
    }

    /// Where the array is opened.
    pub fn path(&self) -> Option<String> {
        self.device.as_ref().map(|device| format!("/dev/{device}"))
    }

    /// Members with all their data.
    pub fn in_sync(&self) -> impl Iterator<Item = &MdMember> {
        self.members.iter().filter(|member| member.state == MdMemberState::InSync)
    }
}
