//! How much a layout holds on given disks, and how much of each disk it can't use.

mod btrfs;
mod filesystem;
mod md;

use crate::layout::{Layout, MdFilesystem};
use serde::Serialize;

/// A layout's capacity on given disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// Room before the filesystem's own metadata.
    pub usable_bytes: u64,
    /// Estimate of what a fill with large files reaches: room less metadata, journal, inode tables
    /// and reserves.
    pub fill_bytes: u64,
    /// For each disk, in the order given, what the layout leaves unused because the others are
    /// smaller.
    pub wasted_bytes: Vec<u64>,
}

/// Capacity of `layout` on disks of these sizes; `None` when there are too few, or they are too
/// small to hold even the superblocks. `filesystem` is what an md array would carry.
pub fn capacity(layout: Layout, filesystem: MdFilesystem, disk_bytes: &[u64]) -> Option<Capacity> {
    if disk_bytes.len() < layout.min_disks() {
        return None;
    }
    let capacity = match layout {
        Layout::Btrfs(profile) => btrfs::capacity(profile, disk_bytes),
        Layout::Md(md) => {
            let array = md::capacity(md, disk_bytes)?;
            Capacity {
                usable_bytes: array.usable_bytes,
                fill_bytes: filesystem::fill_bytes(filesystem, array.usable_bytes),
                wasted_bytes: array.wasted_bytes,
            }
        }
    };
    (capacity.usable_bytes > 0).then_some(capacity)
}

pub use md::member_bytes;

#[cfg(test)]
mod tests;
