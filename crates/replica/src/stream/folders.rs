//! Paths inside one subvolume, resolved so that none leads out of it: not by
//! `..`, not through a symbolic link (openat2(2)).

use super::StreamError;
use crate::error::Error;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A subvolume's root, with the folder and the file that were last used.
pub(super) struct Folders {
    root: File,
    folder: Option<(PathBuf, OwnedFd)>,
    file: Option<(PathBuf, File)>,
}

/// A folder that is open and a name in it.
pub(super) struct Place<'a> {
    pub folder: &'a OwnedFd,
    pub name: CString,
}

impl Place<'_> {
    /// A path for the calls that take no folder: the folder is named by its
    /// descriptor, so that nothing but `name` itself is resolved again.
    pub fn by_descriptor(&self) -> CString {
        let mut path = format!("/proc/self/fd/{}/", self.folder.as_raw_fd()).into_bytes();
        path.extend(self.name.as_bytes());
        // Neither part can hold a zero byte.
        CString::new(path).unwrap_or_default()
    }
}

impl Folders {
    pub fn new(root: File) -> Folders {
        Folders { root, folder: None, file: None }
    }

    pub fn root(&self) -> &File {
        &self.root
    }

    /// What was renamed or removed may be what is kept open.
    pub fn forget(&mut self) {
        self.folder = None;
        self.file = None;
    }

    /// The folder of `path` and the name in it.
    pub fn place(&mut self, path: &Path) -> Result<Place<'_>, Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(leads_out(path));
        };
        let name = CString::new(name.as_bytes()).map_err(|_| leads_out(path))?;
        if self.folder.as_ref().is_none_or(|(open, _)| open != parent) {
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            let folder = beneath(&self.root, parent, flags)
                .map_err(|e| Error::io("opening the folder", parent, e))?;
            self.folder = Some((parent.to_owned(), folder));
        }
        match &self.folder {
            Some((_, folder)) => Ok(Place { folder, name }),
            None => Err(leads_out(path)),
        }
    }

    /// The file at `path`, open for writing.
    pub fn file(&mut self, path: &Path) -> Result<&File, Error> {
        if self.file.as_ref().is_none_or(|(open, _)| open != path) {
            self.file = None;
            let file = beneath(&self.root, path, libc::O_RDWR | libc::O_NONBLOCK)
                .map_err(|e| Error::io("opening", path, e))?;
            self.file = Some((path.to_owned(), File::from(file)));
        }
        match &self.file {
            Some((_, file)) => Ok(file),
            None => Err(leads_out(path)),
        }
    }

    /// Anything at `path` itself, for its name only.
    pub fn anything(&self, path: &Path) -> Result<OwnedFd, Error> {
        beneath(&self.root, path, libc::O_PATH | libc::O_NOFOLLOW)
            .map_err(|e| Error::io("opening", path, e))
    }
}

/// Opens `path` below `root` and nowhere else.
pub(super) fn beneath(root: &File, path: &Path, flags: libc::c_int) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { OsStr::new(".") } else { path.as_os_str() };
    let path = CString::new(path.as_bytes())?;
    // SAFETY: a structure of integers may be zero.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    // A symbolic link as the last part is refused too, but for O_NOFOLLOW with
    // O_PATH, which opens the link itself.
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
    // SAFETY: the path ends with zero and outlives the call, as `how` does,
    // whose size is told.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn leads_out(path: &Path) -> Error {
    StreamError::Path(path.display().to_string()).into()
}
