use crate::{LoopDisk, run};
use braid_units::ByteSize;
use std::fs;
use std::path::{Path, PathBuf};

/// A mounted btrfs, removed when dropped.
pub struct Btrfs {
    /// Its mount point.
    pub path: PathBuf,
    _disk: LoopDisk,
}

impl Btrfs {
    /// A new btrfs called `name`, on a sparse disk of `size`, mounted in `folder`.
    ///
    /// # Panics
    /// If that isn't possible.
    pub fn new(folder: &Path, name: &str, size: ByteSize) -> Btrfs {
        let disk = LoopDisk::new(folder, &format!("{name}.img"), size).unwrap();
        run("mkfs.btrfs", &["-q", "-L", name, disk.path()]);
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        run("mount", &["-t", "btrfs", disk.path(), path.to_str().unwrap()]);
        Btrfs { path, _disk: disk }
    }

    /// Creates an empty subvolume.
    ///
    /// # Panics
    /// If that isn't possible.
    pub fn subvolume(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        run("btrfs", &["-q", "subvolume", "create", path.to_str().unwrap()]);
        path
    }
}

impl Drop for Btrfs {
    fn drop(&mut self) {
        run("umount", &[self.path.to_str().unwrap()]);
    }
}
