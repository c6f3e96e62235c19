//! What was seen of the pools on a host, at one moment.

mod btrfs;
mod host;
mod md;

pub use btrfs::{
    BtrfsErrors, BtrfsMember, ExclusiveOperation, MemberFault, ObservedBtrfs, Purpose, Scrub,
    SpaceUse,
};
pub use host::{DriveTimeout, ObservedHost, ObservedSystemd};
pub use md::{MdMember, MdMemberState, ObservedMd, OnArray, Sync, SyncAction};

use crate::untrusted::Untrusted;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};

/// One pool as it is: a btrfs, or an md array with what is on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub enum ObservedPool {
    /// A btrfs of one or more devices.
    Btrfs(ObservedBtrfs),
    /// An md array.
    Md(ObservedMd),
}

/// Something that is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    pub at: String,
    /// Options of mount and superblock, as in `/proc/self/mountinfo`: `rw`, `degraded`,
    /// `nodatacow`, `subvolid=5`…
    pub options: Vec<String>,
    /// The root of what is mounted there inside the filesystem, such as `/@home`.
    pub subvolume: Option<String>,
}

impl Mount {
    /// Whether this option is on.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|each| each == option)
    }
}

impl ObservedPool {
    /// By what the user calls it: the label or the array's name without its host; else the UUID.
    pub fn name(&self) -> String {
        match self {
            ObservedPool::Btrfs(btrfs) => btrfs
                .label
                .as_ref()
                .filter(|label| !label.is_empty())
                .map_or(btrfs.uuid.to_string(), Untrusted::to_string),
            ObservedPool::Md(md) => Untrusted(md.short_name()).to_string(),
        }
    }

    /// UUID of the filesystem or of the array.
    pub fn uuid(&self) -> Uuid {
        match self {
            ObservedPool::Btrfs(btrfs) => btrfs.uuid,
            ObservedPool::Md(md) => md.uuid,
        }
    }

    /// Where it is mounted.
    pub fn mounts(&self) -> &[Mount] {
        match self {
            ObservedPool::Btrfs(btrfs) => &btrfs.mounts,
            ObservedPool::Md(md) => md.carries.as_ref().map_or(&[], |on| &on.mounts),
        }
    }
}
