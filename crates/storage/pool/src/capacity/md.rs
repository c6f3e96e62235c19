//! md uses the same amount of every member (except for raid0), after a superblock, a bitmap and
//! headroom for later reshapes.

use crate::layout::MdLayout;

/// mdadm's default stripe unit.
const CHUNK: u64 = 512 << 10;
const MIB: u64 = 1 << 20;

pub(super) struct ArrayCapacity {
    pub(super) usable_bytes: u64,
    pub(super) wasted_bytes: Vec<u64>,
}

pub(super) fn capacity(layout: MdLayout, disk_bytes: &[u64]) -> Option<ArrayCapacity> {
    let n = disk_bytes.len() as u64;
    let smallest = disk_bytes.iter().copied().min()?;
    let member = member_bytes(layout, smallest);
    let usable_bytes = match layout {
        MdLayout::Raid0 => disk_bytes.iter().map(|bytes| member_bytes(layout, *bytes)).sum(),
        MdLayout::Raid1 => member,
        MdLayout::Raid10 { copies, .. } => {
            let copies = u64::from(copies).max(1);
            // Whole chunks of a member, shared among the copies.
            (n as u128 * u128::from(member / CHUNK) / u128::from(copies)) as u64 * CHUNK
        }
        MdLayout::Raid5 => n.saturating_sub(1) * member,
        MdLayout::Raid6 => n.saturating_sub(2) * member,
    };
    let wasted_bytes = disk_bytes
        .iter()
        .map(|bytes| if layout == MdLayout::Raid0 { 0 } else { bytes - smallest })
        .collect();
    Some(ArrayCapacity { usable_bytes, wasted_bytes })
}

/// What md uses of a member of this size.
pub fn member_bytes(layout: MdLayout, disk_bytes: u64) -> u64 {
    let behind_offset = disk_bytes.saturating_sub(data_offset(disk_bytes));
    match layout {
        MdLayout::Raid1 => behind_offset / 1024 * 1024,
        _ => behind_offset / CHUNK * CHUNK,
    }
}

/// Where data begins with metadata 1.2 (mdadm, super1.c): a mebibyte for superblock, bitmap and bad
/// block log, and headroom of up to 128 MiB, though at most a 1024th of the device.
fn data_offset(disk_bytes: u64) -> u64 {
    let mut headroom = 128 * MIB;
    while headroom > disk_bytes / 1024 && headroom > MIB {
        headroom /= 2;
    }
    headroom + MIB
}
