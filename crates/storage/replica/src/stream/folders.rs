//! Paths inside one subvolume, resolved so that none leads out of it: not by
//! `..`, not through a symbolic link (openat2(2)).

use super::StreamError;
use crate::error::Error;
use rustix::fs::{OFlags, ResolveFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A subvolume's root, with the folder and the file that were last used.
pub(super) struct Folders {
    root: File,
    folder: Option<(PathBuf, File)>,
    file: Option<(PathBuf, File)>,
}

/// An open folder and a name in it.
pub(super) struct FolderEntry<'a> {
    pub folder: &'a File,
    pub name: OsString,
}

impl FolderEntry<'_> {
    /// A path for the calls that take no folder: the folder is named by its
    /// descriptor, so that nothing but `name` itself is resolved again.
    pub fn by_descriptor(&self) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(&self.name)
    }
}

impl Folders {
    pub fn new(root: File) -> Folders {
        Folders { root, folder: None, file: None }
    }

    pub fn root(&self) -> &File {
        &self.root
    }

    /// A rename or removal may affect what is kept open.
    pub fn forget(&mut self) {
        self.folder = None;
        self.file = None;
    }

    /// The folder of `path` and the name in it.
    pub fn place(&mut self, path: &Path) -> Result<FolderEntry<'_>, Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(leads_out(path));
        };
        let name = name.to_owned();
        if self.folder.as_ref().is_none_or(|(open, _)| open != parent) {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let folder = beneath(&self.root, parent, flags)
                .map_err(|e| Error::io("opening the folder", parent, e))?;
            self.folder = Some((parent.to_owned(), folder));
        }
        match &self.folder {
            Some((_, folder)) => Ok(FolderEntry { folder, name }),
            None => Err(leads_out(path)),
        }
    }

    /// The file at `path`, open for writing.
    pub fn file(&mut self, path: &Path) -> Result<&File, Error> {
        if self.file.as_ref().is_none_or(|(open, _)| open != path) {
            self.file = None;
            let file = beneath(&self.root, path, OFlags::RDWR | OFlags::NONBLOCK)
                .map_err(|e| Error::io("opening", path, e))?;
            self.file = Some((path.to_owned(), file));
        }
        match &self.file {
            Some((_, file)) => Ok(file),
            None => Err(leads_out(path)),
        }
    }

    /// Anything at `path` itself, for its name only.
    pub fn anything(&self, path: &Path) -> Result<File, Error> {
        beneath(&self.root, path, OFlags::PATH | OFlags::NOFOLLOW)
            .map_err(|e| Error::io("opening", path, e))
    }
}

/// Opens `path` below `root`, on its filesystem, and nowhere else.
pub(super) fn beneath(root: &File, path: &Path, flags: OFlags) -> io::Result<File> {
    crate::beneath::open(root, path, flags, ResolveFlags::NO_XDEV)
}

fn leads_out(path: &Path) -> Error {
    StreamError::Path(path.display().to_string()).into()
}
