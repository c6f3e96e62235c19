use std::collections::BTreeMap;

/// A part of a disk, in bytes; both are multiples of [`ALIGNED`], except the length at an unaligned
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
}

/// Alignment that works for direct reads on every disk.
const ALIGNED: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// At the start lie partition tables, boot sectors with their backups (FAT: sector 6, exFAT: 12),
/// the labels of LVM, BSD, Atari, ZFS, bcache, swap, md 1.1 and 1.2, LUKS' keys, and what follows a
/// lost partition table: partitions begin at sector 63 or at 1 MiB. LUKS2's second header lies at 4
/// MiB at most.
const HEAD: u64 = 4 * MIB + WINDOW;
/// At the end lie the backups of GPT (last sector) and NTFS, md 0.90 (128 KiB before) and 1.0 (16
/// KiB before), two of ZFS' labels (512 KiB), the metadata of DDF, IMSM and other firmware RAIDs,
/// of DRBD, and those of a last partition.
const TAIL: u64 = 4 * MIB;
/// Read at each of the other places.
const WINDOW: u64 = 16 << 10;
/// Where a filesystem may begin: at the disk's start, or in a first partition whose table is lost.
const STARTS: [u64; 2] = [0, MIB];
/// Places spread evenly over the disk.
const SPREAD: u64 = 256;

/// Copies of a btrfs superblock: fs/btrfs/disk-io.h, `btrfs_sb_offset`.
const BTRFS_MIRRORS: [u64; 2] = [64 * MIB, 256 * GIB];
/// Bytes of a block group of ext2, 3 and 4 with blocks of 1, 2 and 4 KiB, and the first groups that
/// carry a superblock (`sparse_super`: 1 and powers of 3, 5, 7).
const EXT_GROUPS: [u64; 3] = [8 * MIB, 32 * MIB, 128 * MIB];
const EXT_BACKUPS: [u64; 9] = [1, 3, 5, 7, 9, 25, 27, 49, 81];
/// XFS has 4 allocation groups, or more of 1 TiB each, or 16 and more on several disks; each begins
/// with its headers. How it rounds depends on the stripe, so more is read around each.
const XFS_GROUPS: u64 = 16;
const AROUND_XFS: u64 = 64 << 10;
/// A group of 1 TiB may be a block short. Beyond this many there are enough other places.
const MOST_TIB: usize = 32;
/// Windows puts NTFS' master file table at cluster 786432 of 4 KiB.
const NTFS_TABLE: u64 = 3 * GIB;

/// Where a disk of this size is read, in order and without overlaps: about 20 MB at some hundred
/// places, which takes an HDD a few seconds.
pub fn places(size_bytes: u64) -> Vec<Extent> {
    let mut wanted = vec![(0, HEAD), (size_bytes.saturating_sub(TAIL), TAIL)];
    let mut window = |at: u64| wanted.push((at, WINDOW));
    for start in STARTS {
        BTRFS_MIRRORS.iter().for_each(|mirror| window(start + mirror));
        for (group, number) in EXT_GROUPS.iter().flat_map(|g| EXT_BACKUPS.map(|n| (g, n))) {
            window(start + group * number);
        }
        (2..63).map(|power| 1 << power).take_while(|at| *at < size_bytes / MIB).for_each(
            |mib: u64| {
                window(start + mib * MIB);
            },
        );
        window(start + NTFS_TABLE);
    }
    let slot = size_bytes / SPREAD;
    (0..SPREAD).for_each(|number| window(number * slot + slot / 2));
    for start in STARTS {
        let length = size_bytes.saturating_sub(start);
        for at in (1..XFS_GROUPS).map(|number| length / XFS_GROUPS * number) {
            wanted.push((start + at - AROUND_XFS.min(at), 2 * AROUND_XFS));
        }
        for number in (1..=length / TIB).take(MOST_TIB) {
            let rounded_off = number * ALIGNED;
            wanted.push((start + number * TIB - rounded_off, rounded_off + WINDOW));
        }
    }
    merged(wanted, size_bytes)
}

fn merged(wanted: Vec<(u64, u64)>, size_bytes: u64) -> Vec<Extent> {
    // The end of each by its start.
    let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
    for (start, length) in wanted {
        let end = start.saturating_add(length).checked_next_multiple_of(ALIGNED);
        let end = end.unwrap_or(u64::MAX).min(size_bytes);
        let start = start / ALIGNED * ALIGNED;
        if start < end {
            let longest = parts.entry(start).or_default();
            *longest = end.max(*longest);
        }
    }
    let mut places: Vec<Extent> = Vec::new();
    for (start, end) in parts {
        match places.last_mut() {
            Some(last) if start <= last.start + last.length => {
                last.length = last.length.max(end - last.start);
            }
            _ => places.push(Extent { start, length: end - start }),
        }
    }
    places
}
