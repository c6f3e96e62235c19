#![allow(unsafe_code)]

use crate::error::Error;
use crate::subvolume;
use braid_pool::uuid::Uuid;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A btrfs' top level, mounted privately; unmounted when dropped.
pub struct TopLevel {
    at: Mounted,
    file: File,
    /// The filesystem's UUID.
    pub filesystem: Uuid,
}

/// Number mounted by this process: each has a mount point of its own.
static MOUNTED: AtomicU32 = AtomicU32::new(0);

impl TopLevel {
    /// Mounts the top level of the btrfs that holds `path`, or is on the device `path`.
    pub fn mount(path: &Path) -> Result<TopLevel, Error> {
        let path = fs::canonicalize(path).map_err(|e| Error::io("looking at", path, e))?;
        let device = match is_device(&path) {
            true => path.clone(),
            false => {
                let folder = subvolume::open_folder(&path)?;
                if !subvolume::is_btrfs(&folder) {
                    return Err(Error::Refused(format!("{} is not on btrfs", path.display())));
                }
                let filesystem = subvolume::filesystem(&folder)
                    .map_err(|e| Error::io("asking about", &path, e))?;
                device_of(filesystem)?
            }
        };
        let at = Mounted::new(|at| mount(&device, at))
            .map_err(|e| Error::io("mounting the top level of", &path, e))?;
        let file = subvolume::open_folder(at.path())?;
        let filesystem =
            subvolume::filesystem(&file).map_err(|e| Error::io("asking about", &path, e))?;
        Ok(TopLevel { at, file, filesystem })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Its root.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A device of it.
    pub fn device(&self) -> Result<PathBuf, Error> {
        device_of(self.filesystem)
    }
}

/// A filesystem of another kind, that belongs to a system: `/boot`, the ESP.
pub struct Beside {
    path: PathBuf,
    _mounted: Option<Mounted>,
}

impl Beside {
    /// The one mounted at the folder `path`, or on the device `path`.
    pub fn open(path: &Path) -> Result<Beside, Error> {
        if !is_device(path) {
            return Ok(Beside { path: path.to_owned(), _mounted: None });
        }
        let mounted = Mounted::new(|at| {
            // What is it? mount(8) knows.
            let output = Command::new("mount").env("LC_ALL", "C").args([path, at]).output()?;
            match output.status.success() {
                true => Ok(()),
                false => {
                    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
                }
            }
        });
        let mounted = mounted.map_err(|e| Error::io("mounting", path, e))?;
        Ok(Beside { path: mounted.path().to_owned(), _mounted: Some(mounted) })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes out what is in memory.
    pub fn sync(&self) -> Result<(), Error> {
        let failed = |e| Error::io("writing out", &self.path, e);
        let folder = File::open(&self.path).map_err(failed)?;
        rustix::fs::syncfs(&folder).map_err(|error| failed(error.into()))
    }

    /// Whether it knows owners and modes; FAT doesn't.
    pub fn has_owners(&self) -> bool {
        const FAT: u64 = 0x4d44;
        rustix::fs::statfs(&self.path).map_or(true, |about| about.f_type as u64 != FAT)
    }
}

/// From here on nobody else sees what this process mounts, and all of it disappears with the
/// process.
///
/// # Errors
/// The process may not do that.
pub fn mount_privately() -> Result<(), Error> {
    // SAFETY: what is unshared are mounts, not descriptors.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    unshared.and_then(|()| mount_change("/", private)).map_err(|error| Error::Io {
        doing: "making a mount namespace (are you root?)".to_owned(),
        error: error.into(),
    })
}

/// Something mounted in a folder of its own; unmounted when dropped.
struct Mounted {
    path: PathBuf,
}

impl Mounted {
    fn new(mount: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Mounted> {
        let number = MOUNTED.fetch_add(1, Ordering::Relaxed);
        let at = PathBuf::from(format!("/run/braid-clone.{}.{number}", std::process::id()));
        fs::create_dir_all(&at)?;
        match mount(&at) {
            Ok(()) => Ok(Mounted { path: at }),
            Err(error) => {
                // It is empty; after a failed mount there is nothing else to do.
                let _ = fs::remove_dir(&at);
                Err(error)
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Detached at once, gone when the last open file is closed.
        if unmount(&self.path, UnmountFlags::DETACH).is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

/// Whether a device below the filesystem is encrypted (dm-crypt).
pub fn is_encrypted(filesystem: Uuid) -> bool {
    let Ok(devices) = fs::read_dir(format!("/sys/fs/btrfs/{filesystem}/devices")) else {
        return false;
    };
    devices.flatten().any(|device| {
        let kind = fs::read_to_string(device.path().join("dm/uuid"));
        kind.is_ok_and(|kind| kind.starts_with("CRYPT-"))
    })
}

/// A device of the filesystem, by the kernel's list.
fn device_of(filesystem: Uuid) -> Result<PathBuf, Error> {
    let folder = PathBuf::from(format!("/sys/fs/btrfs/{filesystem}/devices"));
    let io = |error| Error::io("reading", &folder, error);
    for entry in fs::read_dir(&folder).map_err(io)? {
        let device = Path::new("/dev").join(entry.map_err(io)?.file_name());
        if fs::metadata(&device).is_ok_and(|about| about.rdev() != 0) {
            return Ok(device);
        }
    }
    Err(Error::Refused(format!("no device of the filesystem {filesystem} was found")))
}

fn mount(device: &Path, at: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount(device, at, "btrfs", MountFlags::NOATIME, c"subvolid=5")?)
}
