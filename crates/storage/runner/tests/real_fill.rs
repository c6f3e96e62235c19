//! Capacity as planned, against a real fill: sparse loop devices, unequal too, filled by
//! fallocate(2) until there is no space left. Nothing but metadata is written, so the disks can be
//! as large as real ones.

#![allow(unsafe_code)]

use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts, run};
use braid_pool::capacity::{Capacity, capacity};
use braid_pool::layout::{Layout, MdFilesystem, MdLayout};
use braid_units::ByteSize;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

#[test]
fn btrfs_holds_what_was_planned_on_equal_and_unequal_disks() {
    in_private_mounts("btrfs_holds_what_was_planned_on_equal_and_unequal_disks", || {
        for (layout, sizes) in [
            ("btrfs-single", &[40, 10, 10][..]),
            ("btrfs-raid0", &[40, 10, 10]),
            ("btrfs-raid1", &[80, 20, 20]),
            ("btrfs-raid1", &[50, 40, 30]),
            ("btrfs-raid1c3", &[60, 50, 40, 30]),
            ("btrfs-raid1c4", &[50, 50, 40, 40]),
            ("btrfs-raid10", &[60, 30, 30, 20]),
            ("btrfs-raid10", &[40, 40, 40, 40]),
        ] {
            let Layout::Btrfs(profile) = layout.parse().unwrap() else { panic!("{layout}") };
            let mut sizes: Vec<u64> = sizes.iter().map(|gib| gib * 10 * GIB).collect();
            // As the planner names them to mkfs.
            sizes.sort_unstable();
            let planned = capacity(Layout::Btrfs(profile), MdFilesystem::Ext4, &sizes).unwrap();
            let metadata = profile.metadata_beside(sizes.len()).as_str();
            let make = ["-q", "-d", profile.as_str(), "-m", metadata];
            let filled = fill_new(&sizes, "mkfs.btrfs", &make);
            judge(&format!("{layout} of {sizes:?}"), &planned, filled);
        }
    });
}

#[test]
fn ext4_and_xfs_hold_what_was_planned() {
    in_private_mounts("ext4_and_xfs_hold_what_was_planned", || {
        for gib in [10, 40, 200] {
            // On a single member a raid1 is what the filesystem is on, but for md's own header.
            for (filesystem, make) in [
                (MdFilesystem::Ext4, &["-q", "-F", "-m", "0"][..]),
                (MdFilesystem::Xfs, &["-q", "-f"]),
            ] {
                let planned = capacity(Layout::Md(MdLayout::Raid1), filesystem, &[gib * GIB; 2]);
                let program = format!("mkfs.{}", filesystem.as_str());
                let filled = fill_new(&[gib * GIB], &program, make);
                judge(&format!("{} of {gib} GiB", filesystem.as_str()), &planned.unwrap(), filled);
            }
        }
    });
}

/// Within 3 % of the room that was told, and near what files were told to get; rather more, since
/// what is only allocated needs no checksums, and so no further metadata.
fn judge(what: &str, planned: &Capacity, filled: u64) {
    let off = |told: u64| (filled as f64 / told as f64 - 1.0) * 100.0;
    let (room, fill) = (off(planned.usable_bytes), off(planned.fill_bytes));
    println!("{what}: filled {filled}, {room:+.2} % of usable, {fill:+.2} % of fill");
    assert!(room.abs() <= 3.0, "{what}: {filled} is {room:+.2} % beside usable: {planned:?}");
    assert!(
        (-2.0..=4.0).contains(&fill),
        "{what}: {filled} is {fill:+.2} % beside fill: {planned:?}"
    );
}

/// Makes a filesystem on new disks of these sizes, fills it, gives the bytes that went in.
fn fill_new(sizes: &[u64], program: &str, options: &[&str]) -> u64 {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let disk = |(index, size): (usize, &u64)| {
        LoopDisk::new(folder.path(), &format!("disk{index}"), ByteSize::from_bytes(*size)).unwrap()
    };
    let disks: Vec<LoopDisk> = sizes.iter().enumerate().map(disk).collect();
    let paths: Vec<&str> = disks.iter().map(LoopDisk::path).collect();
    run(program, &[options, &paths].concat());
    let at = folder.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let place = at.to_str().unwrap();
    let devices: String = paths[1..].iter().map(|path| format!(",device={path}")).collect();
    run("mount", &["-o", &format!("noatime{devices}"), paths[0], place]);
    let filled = fill(&at);
    run("umount", &[place]);
    filled
}

fn fill(folder: &Path) -> u64 {
    let mut filled = 0;
    let mut names = 0..;
    for piece in [GIB, 64 * MIB, MIB] {
        while allocate(&folder.join(format!("{}", names.next().unwrap_or(0))), piece) {
            filled += piece;
        }
    }
    filled
}

/// Whether a file of so many bytes got its room.
fn allocate(path: &Path, bytes: u64) -> bool {
    let Ok(file) = File::create(path) else { return false };
    // SAFETY: a system call on a descriptor that `file` keeps open; it touches no memory of ours.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
    if result != 0 {
        drop(fs::remove_file(path));
    }
    result == 0
}
