//! btrfs takes space from its devices chunk by chunk, each time from those with most unallocated,
//! so unequal devices are used as far as the number of copies allows (fs/btrfs/volumes.c,
//! `btrfs_create_chunk`).

use super::Capacity;
use crate::layout::Profile;

/// Never allocated at the beginning of each device (`BTRFS_DEVICE_RANGE_RESERVED`).
const RESERVED: u64 = 1 << 20;
/// What chunks are multiples of (`BTRFS_STRIPE_LEN`).
const STRIPE_LEN: u64 = 64 << 10;
/// The largest stripe of a data chunk (`BTRFS_MAX_DATA_CHUNK_SIZE` limits the chunk, this its part
/// on one device).
const MAX_STRIPE: u64 = 1 << 30;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

pub(super) fn capacity(profile: Profile, disk_bytes: &[u64]) -> Capacity {
    let free: Vec<u64> = disk_bytes
        .iter()
        .map(|bytes| bytes.saturating_sub(RESERVED) / STRIPE_LEN * STRIPE_LEN)
        .collect();
    let mut allocator = Allocator::new(&free);
    let mut simulated = 0;
    while let Some(room) = allocator.take(profile, MAX_STRIPE) {
        simulated += room;
    }
    let usable_bytes = closed_form(profile, &free).unwrap_or(simulated);
    // Less than one chunk left per device is rounding, not waste.
    let rounding = allocator.largest_stripe(profile, MAX_STRIPE);
    let wasted_bytes =
        allocator.free.iter().map(|left| if *left > rounding { *left } else { 0 }).collect();
    Capacity { usable_bytes, fill_bytes: fill_bytes(profile, &free), wasted_bytes }
}

/// The limit that ever smaller chunks would reach; `None` for raid10 and the parity profiles, whose
/// allocation has no such simple limit.
pub(super) fn closed_form(profile: Profile, free: &[u64]) -> Option<u64> {
    let sum: u64 = free.iter().sum();
    let copies = match profile {
        Profile::Single | Profile::Raid0 => return Some(sum),
        Profile::Dup => return Some(sum / 2),
        Profile::Raid1 | Profile::Raid1c3 | Profile::Raid1c4 => profile.copies(),
        Profile::Raid10 | Profile::Raid5 | Profile::Raid6 => return None,
    };
    let mut descending = free.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    // However the j largest are used, each of them can hold at most one copy of everything: the
    // other copies have to fit on the rest.
    (0..copies).map(|j| descending.iter().skip(j).sum::<u64>() / (copies - j) as u64).min()
}

/// Bytes available for the data of large files while metadata, which needs its own chunks, grows
/// with it.
fn fill_bytes(profile: Profile, free: &[u64]) -> u64 {
    // Checksums (4 bytes for 4096), extents and their back references.
    const METADATA_SHARE: f64 = 0.0013;
    /// At most 512 MiB stay reserved in metadata (`btrfs_update_global_block_rsv`).
    const GLOBAL_RESERVE: u64 = 512 << 20;
    let metadata = profile.metadata_beside(free.len());
    let mut allocator = Allocator::new(free);
    let metadata_chunk = if allocator.total > 50 * GIB { GIB } else { 256 * MIB };
    // For striped metadata the limit is for all stripes together.
    let metadata_stripe = match metadata {
        Profile::Raid10 => metadata_chunk / width(metadata, free.len()).unwrap_or(1) as u64,
        _ => metadata_chunk,
    };
    let _system = allocator.take(metadata, 8 * MIB);
    let Some(mut metadata_room) = allocator.take(metadata, metadata_stripe) else { return 0 };
    let mut data = 0;
    loop {
        let needs = (data as f64 * METADATA_SHARE) as u64;
        let reserve = GLOBAL_RESERVE.min(metadata_room / 4);
        if needs + reserve > metadata_room {
            match allocator.take(metadata, metadata_stripe) {
                Some(more) => metadata_room += more,
                None => return data,
            }
        }
        match allocator.take(profile, MAX_STRIPE) {
            Some(room) => data += room,
            None => return data,
        }
    }
}

/// Unallocated bytes of each device, from which chunks are taken as the kernel does.
pub(super) struct Allocator {
    free: Vec<u64>,
    total: u64,
}

impl Allocator {
    pub(super) fn new(free: &[u64]) -> Self {
        Allocator { free: free.to_vec(), total: free.iter().sum() }
    }

    /// Takes one chunk and returns how much it holds; `None` when too few devices have space left.
    pub(super) fn take(&mut self, profile: Profile, max_stripe: u64) -> Option<u64> {
        let mut order: Vec<usize> = (0..self.free.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.free.get(*index).copied().unwrap_or(0)));
        order.retain(|index| {
            self.free.get(*index).is_some_and(|left| *left >= STRIPE_LEN * dev_stripes(profile))
        });
        let width = width(profile, order.len())?;
        order.truncate(width);
        let least = order.iter().filter_map(|index| self.free.get(*index)).min().copied()?;
        let stripe = (least / dev_stripes(profile)).min(self.largest_stripe(profile, max_stripe));
        let stripe = (stripe / STRIPE_LEN * STRIPE_LEN).max(STRIPE_LEN);
        for index in order {
            if let Some(left) = self.free.get_mut(index) {
                *left -= stripe * dev_stripes(profile);
            }
        }
        Some(stripe * data_stripes(profile, width))
    }

    /// A chunk is at most a tenth of the filesystem. Beyond 2.5 TiB larger steps than the kernel's
    /// keep this fast without a visible difference.
    fn largest_stripe(&self, profile: Profile, max_stripe: u64) -> u64 {
        let data = width(profile, self.free.len()).map_or(1, |width| data_stripes(profile, width));
        max_stripe.min(self.total / 10 / data).max(self.total / 2500 / data).max(STRIPE_LEN)
    }
}

/// How many devices a chunk spans when this many have space.
fn width(profile: Profile, with_space: usize) -> Option<usize> {
    let width = match profile {
        Profile::Single | Profile::Dup => 1,
        Profile::Raid1 | Profile::Raid1c3 | Profile::Raid1c4 => profile.copies(),
        Profile::Raid10 => with_space / 2 * 2,
        Profile::Raid0 | Profile::Raid5 | Profile::Raid6 => with_space,
    };
    (width >= profile.min_disks() && width <= with_space && width > 0).then_some(width)
}

/// How many stripes of a chunk lie on each of its devices.
fn dev_stripes(profile: Profile) -> u64 {
    if profile == Profile::Dup { 2 } else { 1 }
}

/// How many of its stripes hold different data.
fn data_stripes(profile: Profile, width: usize) -> u64 {
    match profile {
        Profile::Single | Profile::Dup => 1,
        Profile::Raid1 | Profile::Raid1c3 | Profile::Raid1c4 => 1,
        Profile::Raid0 => width as u64,
        Profile::Raid10 => width as u64 / 2,
        Profile::Raid5 => (width as u64).saturating_sub(1).max(1),
        Profile::Raid6 => (width as u64).saturating_sub(2).max(1),
    }
}
