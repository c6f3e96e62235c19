//! The observed state of a host's pools at one moment.

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
    /// The name that the user uses: the label or the array's name without its host; else the UUID.
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

    /// Nodes of its members that are there.
    pub fn member_paths(&self) -> impl Iterator<Item = &str> {
        let (btrfs, md) = match self {
            ObservedPool::Btrfs(btrfs) => (Some(btrfs), None),
            ObservedPool::Md(md) => (None, Some(md)),
        };
        let of_btrfs = btrfs.into_iter().flat_map(|btrfs| &btrfs.members);
        let of_md = md.into_iter().flat_map(|md| &md.members);
        let of_btrfs = of_btrfs.filter_map(|member| member.path.as_deref());
        of_btrfs.chain(of_md.filter_map(|member| member.path.as_deref()))
    }

    /// Node of the member that the user names: by path, its disk's id, devid or slot, or `missing`.
    pub fn member_path(&self, word: &str) -> Option<&str> {
        match self {
            ObservedPool::Btrfs(btrfs) => btrfs_member(btrfs, word)?.path.as_deref(),
            ObservedPool::Md(md) => md_member(md, word)?.path.as_deref(),
        }
    }

    /// Whether that member is gone, or doesn't answer although it may have a node.
    pub fn has_lost(&self, word: &str) -> bool {
        match self {
            ObservedPool::Btrfs(btrfs) => {
                btrfs_member(btrfs, word).is_some_and(|member| member.missing)
            }
            ObservedPool::Md(md) => md_member(md, word).is_some_and(|member| {
                matches!(member.state, MdMemberState::Faulty | MdMemberState::Missing)
            }),
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

fn btrfs_member<'a>(btrfs: &'a ObservedBtrfs, word: &str) -> Option<&'a BtrfsMember> {
    btrfs.members.iter().find(|member| {
        (word == "missing" && member.missing)
            || word.parse() == Ok(member.devid)
            || member.path.as_deref() == Some(word)
            || member.disk.as_ref().is_some_and(|disk| disk.as_str() == word)
    })
}

fn md_member<'a>(md: &'a ObservedMd, word: &str) -> Option<&'a MdMember> {
    md.members.iter().find(|member| {
        (word == "missing" && member.state == MdMemberState::Faulty)
            || member.path.as_deref() == Some(word)
            || member.disk.as_ref().is_some_and(|disk| disk.as_str() == word)
            || (member.slot.is_some() && word.parse().ok() == member.slot)
    })
}
