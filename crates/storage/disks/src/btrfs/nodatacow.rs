#![allow(unsafe_code)]

use crate::mount_table::{MountTable, Mounted};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// At most this many directory entries are examined; on a large filesystem the rest isn't.
const LOOK_AT: usize = 2_000;
/// Two levels below the mount point.
const DEPTH: usize = 2;
/// Deeper places that programs and guides are known to make nodatacow.
const WELL_KNOWN: [&str; 6] = [
    "var/lib/mysql",
    "var/lib/postgresql",
    "var/lib/libvirt/images",
    "var/lib/docker",
    "var/lib/machines",
    "var/log/journal",
];

/// Places without copy-on-write, thus without checksums: mounts with that option, and directories
/// and files with `chattr +C` near the top of each mount, or where it is usual.
pub fn found(table: &MountTable, mounts: &[&Mounted]) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = LOOK_AT;
    for mounted in mounts {
        if mounted.options.iter().any(|option| option == "nodatacow") {
            found.push(mounted.at.clone());
        }
        let mut walk = Walk { table, mounted, found: &mut found, left: &mut left };
        walk.look(&mounted.reach, DEPTH);
        for place in WELL_KNOWN {
            walk.look(&mounted.reach.join(place), 0);
        }
    }
    found.sort();
    found.dedup();
    found
}

struct Walk<'a> {
    table: &'a MountTable,
    mounted: &'a Mounted,
    found: &'a mut Vec<String>,
    left: &'a mut usize,
}

impl Walk<'_> {
    /// A directory that is found isn't entered: its contents are most likely the same.
    fn look(&mut self, path: &Path, depth: usize) {
        if *self.left == 0 {
            return;
        }
        *self.left -= 1;
        if has_nocow(path) {
            self.found.push(self.shown(path));
            return;
        }
        if depth == 0 {
            return;
        }
        let Ok(device) = fs::metadata(path).map(|metadata| metadata.dev()) else { return };
        let Ok(entries) = fs::read_dir(path) else { return };
        let mut inner: Vec<PathBuf> = Vec::new();
        for entry in entries.flatten().take(*self.left) {
            let Ok(kind) = entry.file_type() else { continue };
            if self.table.is_mount_point(&entry.path()) {
                continue;
            }
            let same = || entry.metadata().is_ok_and(|metadata| metadata.dev() == device);
            if kind.is_file() || (kind.is_dir() && (same() || is_subvolume(&entry.path()))) {
                inner.push(entry.path());
            }
        }
        inner.sort();
        for path in inner {
            let below = if path.is_dir() { depth - 1 } else { 0 };
            self.look(&path, below);
        }
    }

    fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.mounted.reach).unwrap_or(path);
        Path::new(&self.mounted.at).join(inside).to_string_lossy().trim_end_matches('/').to_owned()
    }
}

/// A subvolume has a device number of its own, and always this inode (BTRFS_FIRST_FREE_OBJECTID).
fn is_subvolume(path: &Path) -> bool {
    const FIRST: u64 = 256;
    fs::metadata(path).is_ok_and(|metadata| metadata.ino() == FIRST)
}

/// `FS_NOCOW_FL` of ioctl_iflags(2).
fn has_nocow(path: &Path) -> bool {
    const NOCOW: libc::c_int = 0x0080_0000;
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
        return false;
    };
    inode_flags(&file).is_some_and(|flags| flags & NOCOW != 0)
}

fn inode_flags(file: &File) -> Option<libc::c_int> {
    let mut flags: libc::c_int = 0;
    // SAFETY: the request writes one int, though its number was made with a long.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) };
    (result == 0).then_some(flags)
}
