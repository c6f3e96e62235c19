//! Whether the stored data fits on other devices or with other profiles, and whether a balance can
//! start at all.

use crate::capacity::capacity;
use crate::layout::{Layout, MdFilesystem, Profile};
use crate::observed::{ObservedBtrfs, Purpose};
use crate::planner::Refused;

const GIB: u64 = 1 << 30;

/// Bytes stored: data, and metadata with its system chunks.
pub(super) fn used(pool: &ObservedBtrfs) -> (u64, u64) {
    let (_, data) = pool.space_of(Purpose::Data);
    let (_, mixed) = pool.space_of(Purpose::Mixed);
    let (_, metadata) = pool.space_of(Purpose::Metadata);
    (data + mixed, metadata)
}

/// Checks that the stored data fits on devices of these sizes.
pub(super) fn check_fits(
    pool: &ObservedBtrfs,
    data: Profile,
    metadata: Profile,
    sizes: &[u64],
) -> Result<(), Refused> {
    let (data_bytes, metadata_bytes) = used(pool);
    // Metadata scaled to data's copies; and one chunk of it is never full.
    let spare = chunk_bytes(sizes).min(256 << 20);
    let share = (metadata_bytes + spare) * metadata.copies() as u64 / data.copies().max(1) as u64;
    let needs = data_bytes + share;
    let has = capacity(Layout::Btrfs(data), MdFilesystem::Ext4, sizes)
        .map_or(0, |room| room.usable_bytes);
    if needs <= has {
        return Ok(());
    }
    let what = format!("what is stored, as {} on {} disks,", Layout::Btrfs(data), sizes.len());
    Err(Refused::NoSpace { what, needs, has })
}

/// Checks that a chunk of this profile can be allocated, given each device's unallocated space:
/// otherwise a balance stops with ENOSPC before it has moved anything.
pub(super) fn check_chunk(
    profile: Profile,
    unallocated: &[u64],
    sizes: &[u64],
) -> Result<(), Refused> {
    let chunk = chunk_bytes(sizes);
    let needs = profile.min_disks();
    let with_room = needs - lacking(profile, unallocated, chunk);
    if with_room == needs {
        return Ok(());
    }
    Err(Refused::Impossible {
        what: format!(
            "a new {} chunk needs {} unallocated on {needs} disks, and {with_room} have it",
            profile.as_str(),
            braid_units::ByteSize::from_bytes(chunk)
        ),
        instead: "delete files or snapshots and run `braid pool rebalance`, or add a disk more"
            .to_owned(),
    })
}

/// On how many more disks a chunk of this profile would need this much unallocated space.
pub(in crate::planner) fn lacking(profile: Profile, unallocated: &[u64], chunk: u64) -> usize {
    let with_room = unallocated.iter().filter(|free| **free >= chunk).count();
    profile.min_disks().saturating_sub(with_room)
}

/// How many chunks' worth of free space data chunks must have so that emptying some into others is
/// sure to free a whole one.
pub(in crate::planner) const GIVES_BACK_CHUNKS: u64 = 2;

/// A chunk's part on one device: a gibibyte, or a tenth of a small filesystem.
pub(super) fn chunk_bytes(sizes: &[u64]) -> u64 {
    (sizes.iter().sum::<u64>() / 10).min(GIB)
}

/// A metadata chunk's part on one device, with the system chunk that may come with it: 256 MiB, a
/// gibibyte from 50 GiB on, or a tenth of a small filesystem.
pub(super) fn metadata_chunk_bytes(sizes: &[u64]) -> u64 {
    const SYSTEM_CHUNK: u64 = 32 << 20;
    let all: u64 = sizes.iter().sum();
    let chunk = if all > 50 * GIB { GIB } else { 256 << 20 };
    (all / 10).min(chunk) + SYSTEM_CHUNK.min(all / 50)
}

/// The unallocated space of each present member, and the sizes of all.
pub(super) fn free_and_sizes(pool: &ObservedBtrfs) -> (Vec<u64>, Vec<u64>) {
    let free = pool.present().map(|member| member.unallocated_bytes()).collect();
    let sizes = pool.present().map(|member| member.size_bytes).collect();
    (free, sizes)
}
