//! Sequential reads: which disks the engines of Linux 6.x really use at once was determined by
//! counting sectors per disk while one file was read (docs/reference/pools.md has the table). B is
//! the slowest disk's speed, n the number of disks.

use super::{DiskSpeed, LayoutSpeed, SpeedSource};
use crate::layout::{Layout, MdLayout, Profile, Spread};

/// A database or other small synchronous writer gets about this share of ext4's rate on btrfs
/// (MariaDB's test-ATIS took 32 s instead of 23).
const COW_SHARE: f64 = 0.72;
/// md's parity writer reaches about this share of what its data disks could take, with the default
/// stripe cache.
const PARITY_WRITE_SHARE: f64 = 0.7;
/// One reader on far2 without rotation: 121 of 192 MiB came from one disk, so 192/121.
const FAR_FLASH: f64 = 0.8;
/// A far write moves the heads from one half of the disk to the other.
const FAR_WRITE_SHARE: f64 = 0.9;

pub(super) fn layout_speed(
    layout: Layout,
    disks: &[DiskSpeed],
    rotational: bool,
    member_bytes: u64,
) -> LayoutSpeed {
    let slowest = |of: fn(&DiskSpeed) -> f64| disks.iter().map(of).fold(f64::INFINITY, f64::min);
    let n = disks.len() as f64;
    let (read, write) = (slowest(|disk| disk.read), slowest(|disk| disk.write));
    let (random_read, random_write) = (slowest(|d| d.random_read), slowest(|d| d.random_write));
    let shape = shape(layout, disks.len(), rotational);
    LayoutSpeed {
        read_one: shape.read_one * read,
        read_many: n * read,
        write: shape.write * write,
        random_read: n * random_read,
        random_write: shape.random_write * random_write,
        rebuild_seconds: shape.rebuilds.then(|| member_bytes as f64 / read.min(write)),
        from: SpeedSource::Model,
    }
}

/// How many disks' worth of speed a layout gives.
struct Shape {
    read_one: f64,
    write: f64,
    random_write: f64,
    rebuilds: bool,
}

fn shape(layout: Layout, disks: usize, rotational: bool) -> Shape {
    match layout {
        Layout::Btrfs(profile) => btrfs(profile, disks),
        Layout::Md(md) => md_shape(md, disks, rotational),
    }
}

fn btrfs(profile: Profile, disks: usize) -> Shape {
    let n = disks as f64;
    // Stripes of a raid10 chunk.
    let pairs = (disks / 2).max(1) as f64;
    let (read_one, write) = match profile {
        // One disk at a time: a chunk lies on one disk, and a reader stays with one copy of it.
        Profile::Single | Profile::Raid1 | Profile::Raid1c3 | Profile::Raid1c4 => (1.0, 1.0),
        Profile::Dup => (1.0, 0.5),
        Profile::Raid0 => (n, n),
        Profile::Raid10 => (pairs, pairs),
        Profile::Raid5 => (n - 1.0, (n - 1.0) * PARITY_WRITE_SHARE),
        Profile::Raid6 => (n - 2.0, (n - 2.0) * PARITY_WRITE_SHARE),
    };
    let copies = match profile {
        Profile::Raid5 => 4.0,
        Profile::Raid6 => 6.0,
        _ => profile.copies() as f64,
    };
    let random_write = n / copies * COW_SHARE;
    Shape { read_one, write, random_write, rebuilds: profile.losses_survived() > 0 }
}

fn md_shape(md: MdLayout, disks: usize, rotational: bool) -> Shape {
    let n = disks as f64;
    let (read_one, write, random_write) = match md {
        MdLayout::Raid0 => (n, n, n),
        MdLayout::Raid1 => (1.0, 1.0, 1.0),
        MdLayout::Raid10 { spread, copies } => {
            let copies = f64::from(copies);
            let write = n / copies;
            match spread {
                // One copy's heads are nearer, so with rotating disks one of a pair does nearly
                // everything (176 of 192 MiB).
                Spread::Near if rotational && n <= copies => (1.0, write, write),
                Spread::Near => (n, write, write),
                Spread::Far if rotational => (n, write * FAR_WRITE_SHARE, write * FAR_WRITE_SHARE),
                Spread::Far => (n * FAR_FLASH, write, write),
                // A rotating disk can't skip the other copies any faster than read them.
                Spread::Offset if rotational => (n / copies, write, write),
                Spread::Offset => (n, write, write),
            }
        }
        // A small write reads data and parity and writes both again: 4 (raid6: 6) requests.
        MdLayout::Raid5 => (n - 1.0, (n - 1.0) * PARITY_WRITE_SHARE, n / 4.0),
        MdLayout::Raid6 => (n - 2.0, (n - 2.0) * PARITY_WRITE_SHARE, n / 6.0),
    };
    Shape { read_one, write, random_write, rebuilds: md.losses_survived(disks) > 0 }
}
