//! How a layout can grow later.

use crate::layout::{Layout, MdLayout, Profile, Spread};
use serde::Serialize;

/// What adding a disk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// A disk of any size is added while in use; a balance spreads the existing data.
    AnyDisk,
    /// A disk at least as large as the smallest is added, and everything is moved to the new shape
    /// while in use.
    Reshape,
    /// Another disk adds a copy, but no room.
    CopiesOnly,
    /// Not at all: copy the data away and make it anew.
    Never,
}

/// How `layout` grows.
pub fn growth(layout: Layout) -> Growth {
    match layout {
        Layout::Btrfs(_) => Growth::AnyDisk,
        Layout::Md(MdLayout::Raid1) => Growth::CopiesOnly,
        // "Cannot reshape RAID10 in far-mode" (mdadm, Grow.c).
        Layout::Md(MdLayout::Raid10 { spread: Spread::Far, .. }) => Growth::Never,
        Layout::Md(_) => Growth::Reshape,
    }
}

/// The same in words, with what else can change.
pub fn growth_says(layout: Layout) -> &'static str {
    match (growth(layout), layout) {
        (Growth::AnyDisk, Layout::Btrfs(Profile::Single | Profile::Raid0)) => {
            "add or remove disks of any size in use; convert to a redundant profile in use"
        }
        (Growth::AnyDisk, _) => {
            "add or remove disks of any size in use; convert to other profiles in use"
        }
        (Growth::CopiesOnly, _) => {
            "a further disk gives another copy, no room; larger disks one by one give room"
        }
        (Growth::Never, _) => {
            "can't be reshaped: no further disk, ever; larger disks one by one don't help either"
        }
        (Growth::Reshape, Layout::Md(MdLayout::Raid0)) => {
            "add a disk by a reshape in use, through raid4; keep a backup"
        }
        (Growth::Reshape, _) => {
            "add a disk by a reshape in use, which takes long; larger disks one by one give room"
        }
    }
}
