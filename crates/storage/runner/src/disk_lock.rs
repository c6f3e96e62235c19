//! One change at a time for each disk, whatever the pools' names: two mkfs at once destroy each
//! other's work.
//!
//! The locks are files in `/run`, not locks on the devices: udev doesn't look at a device that is
//! locked (systemd's "Locking Block Device Access"), and its links are what later steps need. mkfs
//! and mdadm want the device with `O_EXCL` themselves.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Gone at the next boot, like device numbers.
const FOLDER: &str = "/run/braid/disks";

/// Disks that no other process changes until this is dropped.
#[derive(Debug)]
pub struct DiskLocks(#[expect(dead_code, reason = "held open")] Vec<File>);

/// Why disks can't be locked.
#[derive(Debug, thiserror::Error)]
pub enum DiskLockError {
    /// Another process has one.
    #[error("another braid is changing {disk}: when that has ended, begin again")]
    Busy {
        /// Its path.
        disk: String,
    },
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

impl DiskLocks {
    /// Locks these disks and partitions, without waiting. Locking a partition also keeps others
    /// from its whole disk, but not from the other partitions. Missing disks are skipped: nobody
    /// can change them.
    ///
    /// # Errors
    /// When another process has one of them, or the locks' files can't be made.
    pub fn take<'a>(disks: impl IntoIterator<Item = &'a str>) -> Result<DiskLocks, DiskLockError> {
        let mut held = Vec::new();
        let mut whole_disks = Vec::new();
        for disk in disks {
            let Some(device) = device_number(disk) else { continue };
            if let Some(whole) = whole_disk(&device)
                && !whole_disks.contains(&whole)
            {
                held.push(lock(&whole, File::try_lock_shared, disk)?);
                whole_disks.push(whole);
            }
            held.push(lock(&device, File::try_lock, disk)?);
        }
        Ok(DiskLocks(held))
    }
}

/// `8:1`, as sysfs writes it.
fn device_number(path: &str) -> Option<String> {
    let about = fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
    let number = about.rdev();
    Some(format!("{}:{}", libc::major(number), libc::minor(number)))
}

/// For a partition.
fn whole_disk(device: &str) -> Option<String> {
    let sysfs = Path::new("/sys/dev/block").join(device);
    if !sysfs.join("partition").exists() {
        return None;
    }
    let number = fs::read_to_string(sysfs.join("../dev")).ok()?;
    Some(number.trim().to_owned())
}

fn lock(
    device: &str,
    how: impl FnOnce(&File) -> Result<(), TryLockError>,
    disk: &str,
) -> Result<File, DiskLockError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DiskLockError::Io { path, error }
    };
    let folder = Path::new(FOLDER);
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.map_err(failed(folder))?;
    let path = folder.join(device);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed(&path))?;
    match how(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DiskLockError::Busy { disk: disk.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(&path)(error)),
    }
}
