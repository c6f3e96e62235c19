//! Where a host's configuration is.

use std::path::{Path, PathBuf};

/// The root folder of a host's configuration (`/etc/fstab`, `/etc/mdadm/mdadm.conf`): `/`, or
/// another one for a system mounted elsewhere and for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRoot(PathBuf);

impl ConfigRoot {
    /// The running host's.
    pub fn host() -> ConfigRoot {
        ConfigRoot(PathBuf::from("/"))
    }

    /// Another one.
    pub fn at(folder: impl Into<PathBuf>) -> ConfigRoot {
        ConfigRoot(folder.into())
    }

    /// The location of the file that the host calls `path`, an absolute path.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Whether it is the running host's.
    pub fn is_host(&self) -> bool {
        self.0 == Path::new("/")
    }
}
