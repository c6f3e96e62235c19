use crate::error::Error;
use crate::subvolume;
use braid_pool::uuid::Uuid;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A filesystem's top level, mounted where nobody else looks; unmounted when dropped.
pub struct TopLevel {
    path: PathBuf,
    file: File,
    /// The filesystem's UUID.
    pub filesystem: Uuid,
}

/// So many were mounted by this process: each has a place of its own.
static MOUNTED: AtomicU32 = AtomicU32::new(0);

impl TopLevel {
    /// Mounts the top level of the btrfs that holds `path`.
    pub fn mount(path: &Path) -> Result<TopLevel, Error> {
        let path = fs::canonicalize(path).map_err(|e| Error::io("looking at", path, e))?;
        let folder = subvolume::open_folder(&path)?;
        if !subvolume::is_btrfs(&folder) {
            return Err(Error::Refused(format!("{} is not on btrfs", path.display())));
        }
        let filesystem =
            subvolume::filesystem(&folder).map_err(|e| Error::io("asking about", &path, e))?;
        let device = device_of(filesystem)?;
        let number = MOUNTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("/run/braid-clone.{}.{number}", std::process::id());
        let at = PathBuf::from(name);
        fs::create_dir_all(&at).map_err(|e| Error::io("making the folder", &at, e))?;
        let mounted = mount(&device, &at);
        if mounted.is_err() {
            // It is empty; who can't mount can't do more about it.
            let _ = fs::remove_dir(&at);
        }
        mounted.map_err(|e| Error::io("mounting the top level of", &path, e))?;
        let file = subvolume::open_folder(&at)?;
        Ok(TopLevel { path: at, file, filesystem })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its root.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for TopLevel {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.path.as_os_str().as_bytes()) {
            // Detached at once, gone when the last open file is closed.
            // SAFETY: a zero-terminated path.
            if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } == 0 {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
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
    let (device, at) =
        (CString::new(device.as_os_str().as_bytes())?, CString::new(at.as_os_str().as_bytes())?);
    // SAFETY: zero-terminated texts, all of which outlive the call.
    let done = unsafe {
        libc::mount(
            device.as_ptr(),
            at.as_ptr(),
            c"btrfs".as_ptr(),
            libc::MS_NOATIME,
            c"subvolid=5".as_ptr().cast(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
