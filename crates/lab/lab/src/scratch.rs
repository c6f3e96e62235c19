//! A folder for the engines' configs, keys and logs that disappears with the process, even if that
//! is killed.

use rustix::mount::{MountFlags, mount};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// These are empty on every distribution, and contain nothing of ours.
const MOUNT_POINTS: [&str; 3] = ["/mnt", "/media", "/srv"];

/// The folder.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _removed_on_drop: Option<TempDir>,
}

impl Scratch {
    /// A tmpfs that only this process tree sees, and that ends with it. Requires our own mount
    /// namespace ([`crate::topology::prepare_process`]). `wanted` are paths that must stay visible.
    /// If mounting fails, it is a temporary folder as from [`Scratch::temporary`].
    ///
    /// # Errors
    /// Not even a temporary folder can be created.
    pub fn private(wanted: &[&Path]) -> io::Result<Self> {
        let free = |point: &&&str| {
            let point = Path::new(**point);
            point.is_dir() && !wanted.iter().any(|path| absolute(path).starts_with(point))
        };
        for point in MOUNT_POINTS.iter().filter(free) {
            if mount_tmpfs(point).is_ok() {
                return Ok(Scratch { path: PathBuf::from(point), _removed_on_drop: None });
            }
        }
        Self::temporary()
    }

    /// A folder that is removed when this is dropped.
    ///
    /// # Errors
    /// It can't be created.
    pub fn temporary() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("braid-lab-").tempdir()?;
        Ok(Scratch { path: folder.path().to_path_buf(), _removed_on_drop: Some(folder) })
    }

    /// A new empty folder inside.
    ///
    /// # Errors
    /// It can't be created.
    pub fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn mount_tmpfs(point: &str) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("braid-lab", point, "tmpfs", flags, None)?)
}
