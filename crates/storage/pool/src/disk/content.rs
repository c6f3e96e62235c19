use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that is on a disk, or that uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Content {
    /// A filesystem of one device (for btrfs see [`Content::Member`]).
    Filesystem {
        /// As blkid calls it: `ext4`, `xfs`, `vfat`, `crypto_LUKS`…
        kind: String,
        /// Its label.
        label: Option<String>,
        /// Its UUID, in the format of its kind.
        uuid: Option<String>,
    },
    /// A partition table.
    PartitionTable {
        /// `gpt` or `dos`.
        kind: String,
        /// Paths of the partitions in it that the kernel shows.
        partitions: Vec<String>,
        /// The number of partitions, if known: the kernel may not know this kind of table, or not
        /// have read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entries: Option<u32>,
        /// What distinguishes it from others, if it has that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uuid: Option<String>,
    },
    /// A member of something made of several devices.
    Member {
        /// Of what kind.
        family: Family,
        /// Name or label of the whole.
        name: Option<String>,
        /// UUID of the whole.
        uuid: Option<String>,
    },
    /// A swap area, used or not.
    Swap {
        /// Its label.
        label: Option<String>,
    },
    /// In use as swap.
    SwapActive,
    /// It is mounted.
    Mounted {
        /// Where.
        at: String,
    },
    /// Another running device is built on it (`/sys/class/block/…/holders`).
    Holder {
        /// That device, such as `md127` or `dm-0`.
        device: String,
    },
    /// It is a disk that is in use, reached by another path.
    OtherPath {
        /// The path by which it is used.
        path: String,
    },
    /// Something unknown holds it open exclusively.
    Busy,
    /// Data in no recognised format ([`super::emptiness`]).
    Unknown {
        /// What was seen.
        what: String,
    },
    /// What is on one of its partitions.
    OnPartition {
        /// Path of the partition.
        partition: String,
        /// What is on that.
        what: Box<Content>,
    },
    /// Its contents couldn't be seen, so it must not be assumed empty.
    Unseen {
        /// What stood in the way.
        why: String,
    },
}

/// What combines many devices into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// btrfs, also of one device.
    Btrfs,
    /// Linux md.
    Md,
    /// LVM's physical volume.
    Lvm,
    /// ZFS.
    Zfs,
    /// bcachefs.
    Bcachefs,
    /// bcache, firmware RAID (DDF, Intel), DRBD…
    Other,
}

impl Content {
    /// Whether it is in use right now, so that not even `--erase` may touch the disk.
    pub fn is_in_use(&self) -> bool {
        matches!(
            self,
            Content::Mounted { .. }
                | Content::Holder { .. }
                | Content::SwapActive
                | Content::OtherPath { .. }
                | Content::Busy
        )
    }

    /// Whether it is data, rather than a user of the disk, or a table whose partitions are reported
    /// themselves.
    pub fn is_data(&self) -> bool {
        matches!(
            self,
            Content::Filesystem { .. }
                | Content::Member { .. }
                | Content::Swap { .. }
                | Content::Unknown { .. }
                | Content::Unseen { .. }
        )
    }

    /// Whether it shows only when the disk is examined place by place.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Content::Unknown { .. })
    }

    /// Whether it belongs to another volume manager, which Braid recognises and leaves alone.
    pub fn is_left_alone(&self) -> bool {
        let Content::Member { family, .. } = self else { return false };
        !matches!(family, Family::Btrfs | Family::Md)
    }
}

impl Family {
    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Btrfs => "btrfs",
            Family::Md => "md",
            Family::Lvm => "LVM",
            Family::Zfs => "ZFS",
            Family::Bcachefs => "bcachefs",
            Family::Other => "another RAID",
        }
    }
}

impl fmt::Display for Content {
    /// As shown in plans and refusals: `ext4 "photos" (UUID 4f…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, name: &Option<String>, uuid: &Option<String>| {
            if let Some(name) = name.as_ref().filter(|name| !name.is_empty()) {
                write!(f, " {name:?}")?;
            }
            uuid.as_ref().map_or(Ok(()), |uuid| write!(f, " (UUID {uuid})"))
        };
        match self {
            Content::Filesystem { kind, label, uuid } => {
                write!(f, "{kind} filesystem")?;
                named(f, label, uuid)
            }
            Content::PartitionTable { kind, partitions, entries, .. } => {
                let shown = partitions.len() as u32;
                match (shown, entries.map(|entries| entries.saturating_sub(shown))) {
                    (0, Some(0)) => write!(f, "empty {kind} partition table"),
                    (0, None) => write!(f, "{kind} partition table, unread by the kernel"),
                    (0, Some(hidden)) => write!(
                        f,
                        "{kind} partition table with {hidden} that the kernel doesn't show"
                    ),
                    (_, None | Some(0)) => {
                        write!(f, "{kind} partition table with {}", partitions.join(", "))
                    }
                    (_, Some(hidden)) => write!(
                        f,
                        "{kind} partition table with {} and {hidden} that the kernel doesn't show",
                        partitions.join(", ")
                    ),
                }
            }
            Content::Member { family, name, uuid } => {
                write!(f, "member of {}", family.as_str())?;
                named(f, name, uuid)
            }
            Content::Swap { label } => {
                f.write_str("swap area")?;
                named(f, label, &None)
            }
            Content::SwapActive => f.write_str("swapped to right now"),
            Content::Mounted { at } => write!(f, "mounted at {at}"),
            Content::Holder { device } => write!(f, "used by {device}"),
            Content::OtherPath { path } => {
                write!(f, "the same disk as {path}, which is in use")
            }
            Content::Busy => f.write_str("held open by some program"),
            Content::Unknown { what } => f.write_str(what),
            Content::OnPartition { partition, what } => write!(f, "{what} on {partition}"),
            Content::Unseen { why } => write!(f, "what is there could not be seen: {why}"),
        }
    }
}
