use super::folders::{Folders, beneath};
use super::{Command, Compressed, StreamError};
use crate::error::Error;
use crate::subvolume::ioctl;
use braid_pool::uuid::Uuid;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Carries out a stream's commands inside one writable subvolume.
pub struct Applier {
    folders: Folders,
    /// The UUID by which the stream names the subvolume itself.
    own: Uuid,
    lenders: Lenders,
    /// The next command may have been carried out already.
    again: bool,
}

/// The subvolumes whose data a stream may share, by the UUIDs it knows them by.
#[derive(Default)]
pub struct Lenders(pub Vec<(Uuid, File)>);

impl Applier {
    /// For the subvolume open as `root`, which the stream knows as `own`.
    pub fn new(root: File, own: Uuid, lenders: Lenders) -> Applier {
        Applier { folders: Folders::new(root), own, lenders, again: false }
    }

    /// The subvolume.
    pub fn root(&self) -> &File {
        self.folders.root()
    }

    /// The next command may have been begun or carried out before the program
    /// was killed; doing it once more must not fail.
    pub fn expect_repetition(&mut self) {
        self.again = true;
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// The system refuses it, or it can't be meant for this subvolume.
    pub fn apply(&mut self, command: &Command<'_>) -> Result<(), Error> {
        let again = std::mem::take(&mut self.again);
        match self.carry_out(command) {
            Err(error) if again && self.is_done(command, &error) => Ok(()),
            other => other,
        }
    }

    fn carry_out(&mut self, command: &Command<'_>) -> Result<(), Error> {
        match *command {
            Command::Subvolume { .. } | Command::Snapshot { .. } => Err(StreamError::Order.into()),
            Command::MakeFile { path } => self.make(path, libc::S_IFREG | 0o600, 0),
            Command::MakeFolder { path } => {
                let place = self.folders.place(path)?;
                // SAFETY: an open folder and a zero-terminated name.
                let done =
                    unsafe { libc::mkdirat(place.folder.as_raw_fd(), place.name.as_ptr(), 0o700) };
                check(done, "making the folder", path)
            }
            Command::MakeNode { path, mode, device } => self.make(path, mode, device),
            Command::Symlink { path, target } => {
                let target = c_path(target)?;
                let place = self.folders.place(path)?;
                let (folder, name) = (place.folder.as_raw_fd(), place.name.as_ptr());
                // SAFETY: an open folder and zero-terminated texts.
                let done = unsafe { libc::symlinkat(target.as_ptr(), folder, name) };
                check(done, "making the symbolic link", path)
            }
            Command::Rename { from, to } => self.rename(from, to),
            Command::Link { path, existing } => {
                let existing = self.folders.anything(existing)?;
                let from = CString::new(format!("/proc/self/fd/{}", existing.as_raw_fd()))
                    .unwrap_or_default();
                let place = self.folders.place(path)?;
                // SAFETY: open folders and zero-terminated texts.
                let done = unsafe {
                    libc::linkat(
                        libc::AT_FDCWD,
                        from.as_ptr(),
                        place.folder.as_raw_fd(),
                        place.name.as_ptr(),
                        libc::AT_SYMLINK_FOLLOW,
                    )
                };
                check(done, "making the hard link", path)
            }
            Command::Unlink { path } => self.unlink(path, 0),
            Command::RemoveFolder { path } => self.unlink(path, libc::AT_REMOVEDIR),
            Command::SetXattr { path, name, value } => {
                let name = c_path(Path::new(name))?;
                let target = self.xattr_target(path)?;
                // SAFETY: zero-terminated texts; `value` with its length.
                let done = unsafe {
                    libc::lsetxattr(
                        target.as_ptr(),
                        name.as_ptr(),
                        value.as_ptr().cast(),
                        value.len(),
                        0,
                    )
                };
                check(done, "setting an extended attribute of", path)
            }
            Command::RemoveXattr { path, name } => {
                let name = c_path(Path::new(name))?;
                let target = self.xattr_target(path)?;
                // SAFETY: zero-terminated texts.
                let done = unsafe { libc::lremovexattr(target.as_ptr(), name.as_ptr()) };
                check(done, "removing an extended attribute of", path)
            }
            Command::Write { path, offset, data } => {
                let file = self.folders.file(path)?;
                file.write_all_at(data, offset).map_err(|e| Error::io("writing", path, e))
            }
            Command::WriteCompressed { path, offset, compressed, data } => {
                let file = self.folders.file(path)?;
                write_compressed(file, offset, compressed, data)
                    .map_err(|e| Error::io("writing compressed data of", path, e))
            }
            Command::Clone { path, offset, length, lender, lender_path, lender_offset } => {
                let source = self.lender(lender, lender_path)?;
                let mut range = ioctl::CloneRange {
                    src_fd: i64::from(source.as_raw_fd()),
                    src_offset: lender_offset,
                    src_length: length,
                    dest_offset: offset,
                };
                let file = self.folders.file(path)?;
                // SAFETY: the request's own structure; `source` is open.
                unsafe { ioctl::call(file, ioctl::CLONE_RANGE, &mut range) }
                    .map_err(|e| Error::io("sharing data into", path, e))
            }
            Command::Truncate { path, size } => {
                let file = self.folders.file(path)?;
                file.set_len(size).map_err(|e| Error::io("setting the size of", path, e))
            }
            Command::Mode { path, mode } => {
                let file = self.folders.anything(path)?;
                let by =
                    CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
                // SAFETY: a zero-terminated text.
                check(unsafe { libc::chmod(by.as_ptr(), mode) }, "setting the mode of", path)
            }
            Command::Owner { path, user, group } => {
                let file = self.folders.anything(path)?;
                let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
                // SAFETY: an open file and an empty text.
                let done =
                    unsafe { libc::fchownat(file.as_raw_fd(), c"".as_ptr(), user, group, flags) };
                check(done, "setting the owner of", path)
            }
            Command::Times { path, accessed, modified } => {
                let file = self.folders.anything(path)?;
                let times = [timespec(accessed), timespec(modified)];
                // SAFETY: an open file, an empty text and two times.
                let done = unsafe {
                    libc::utimensat(
                        file.as_raw_fd(),
                        c"".as_ptr(),
                        times.as_ptr(),
                        libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW,
                    )
                };
                check(done, "setting the times of", path)
            }
            Command::Allocate { path, mode, offset, length } => {
                let file = self.folders.file(path)?;
                // SAFETY: no pointers.
                let done = unsafe {
                    libc::fallocate(
                        file.as_raw_fd(),
                        mode as libc::c_int,
                        offset as libc::off_t,
                        length as libc::off_t,
                    )
                };
                check(done, "allocating", path)
            }
            Command::Extent { .. } | Command::Nothing | Command::End => Ok(()),
        }
    }

    fn make(&mut self, path: &Path, mode: u32, device: u64) -> Result<(), Error> {
        let place = self.folders.place(path)?;
        // SAFETY: an open folder and a zero-terminated name.
        let done =
            unsafe { libc::mknodat(place.folder.as_raw_fd(), place.name.as_ptr(), mode, device) };
        check(done, "making", path)
    }

    fn unlink(&mut self, path: &Path, flags: libc::c_int) -> Result<(), Error> {
        self.folders.forget();
        let place = self.folders.place(path)?;
        // SAFETY: an open folder and a zero-terminated name.
        let done = unsafe { libc::unlinkat(place.folder.as_raw_fd(), place.name.as_ptr(), flags) };
        check(done, "removing", path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        self.folders.forget();
        let (Some(to_parent), Some(to_name)) = (to.parent(), to.file_name()) else {
            return Err(StreamError::Path(to.display().to_string()).into());
        };
        let to_folder = beneath(self.folders.root(), to_parent, libc::O_PATH | libc::O_DIRECTORY)
            .map_err(|e| Error::io("opening the folder", to_parent, e))?;
        let to_name = c_path(Path::new(to_name))?;
        let place = self.folders.place(from)?;
        // SAFETY: open folders and zero-terminated names.
        let done = unsafe {
            libc::renameat(
                place.folder.as_raw_fd(),
                place.name.as_ptr(),
                to_folder.as_raw_fd(),
                to_name.as_ptr(),
            )
        };
        self.folders.forget();
        check(done, "renaming", from)
    }

    /// The root has no name in a folder: it is named by its own `.`.
    fn xattr_target(&mut self, path: &Path) -> Result<CString, Error> {
        if path.as_os_str().is_empty() {
            let root = self.folders.root().as_raw_fd();
            return Ok(CString::new(format!("/proc/self/fd/{root}/.")).unwrap_or_default());
        }
        Ok(self.folders.place(path)?.by_descriptor())
    }

    fn lender(&self, uuid: Uuid, path: &Path) -> Result<File, Error> {
        let root = if uuid == self.own {
            self.folders.root()
        } else {
            let found = self.lenders.0.iter().find(|(known, _)| *known == uuid);
            &found.ok_or(StreamError::NoLender(uuid))?.1
        };
        beneath(root, path, libc::O_RDONLY | libc::O_NONBLOCK)
            .map(File::from)
            .map_err(|e| Error::io("opening", path, e))
    }

    /// Whether `error` only tells that the command was carried out before.
    fn is_done(&self, command: &Command<'_>, error: &Error) -> bool {
        let Error::Io { error, .. } = error else { return false };
        match (command, error.raw_os_error()) {
            (
                Command::MakeFile { .. }
                | Command::MakeFolder { .. }
                | Command::MakeNode { .. }
                | Command::Symlink { .. }
                | Command::Link { .. },
                Some(libc::EEXIST),
            )
            | (Command::Unlink { .. } | Command::RemoveFolder { .. }, Some(libc::ENOENT))
            | (Command::RemoveXattr { .. }, Some(libc::ENODATA)) => true,
            (Command::Rename { to, .. }, Some(libc::ENOENT)) => self.folders.anything(to).is_ok(),
            _ => false,
        }
    }
}

fn write_compressed(file: &File, offset: u64, how: Compressed, data: &[u8]) -> io::Result<()> {
    let piece = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let mut args: ioctl::EncodedArgs = ioctl::zeroed();
    args.iov = &raw const piece;
    args.iovcnt = 1;
    args.offset = offset as i64;
    args.len = how.file_length;
    args.unencoded_len = how.unpacked_length;
    args.unencoded_offset = how.unpacked_offset;
    args.compression = how.method;
    args.encryption = how.encryption;
    // SAFETY: the request's own structure, which points at one piece of memory
    // that the kernel only reads; both outlive the call.
    unsafe { ioctl::call(file, ioctl::ENCODED_WRITE, &mut args) }
}

fn timespec((seconds, nanos): (i64, u32)) -> libc::timespec {
    libc::timespec { tv_sec: seconds, tv_nsec: nanos.into() }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| StreamError::Path(path.display().to_string()).into())
}

fn check(result: libc::c_int, doing: &str, path: &Path) -> Result<(), Error> {
    if result < 0 { Err(Error::io(doing, path, io::Error::last_os_error())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn applier(root: &Path) -> Applier {
        let root = File::open(root).unwrap();
        Applier::new(root, Uuid::from_bytes([1; 16]), Lenders::default())
    }

    #[test]
    fn nothing_outside_the_subvolume_can_be_reached() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "mine").unwrap();
        symlink(&outside, inside.join("out")).unwrap();
        symlink(outside.join("file"), inside.join("link")).unwrap();
        fs::write(inside.join("own"), "").unwrap();
        let mut applier = applier(&inside);
        let absolute = outside.join("file");
        let own = Uuid::from_bytes([1; 16]);
        for path in ["../outside/file", "out/file", "link", "..", "/", absolute.to_str().unwrap()] {
            let path = Path::new(path);
            for command in [
                Command::Write { path, offset: 0, data: b"theirs" },
                Command::Truncate { path, size: 0 },
                Command::Unlink { path: &path.join("x") },
                Command::MakeFile { path: &path.join("x") },
                Command::MakeFolder { path: &path.join("x") },
                Command::Symlink { path: &path.join("x"), target: Path::new("y") },
                Command::Rename { from: Path::new("own"), to: &path.join("x") },
                Command::Link { path: &path.join("x"), existing: Path::new("own") },
                Command::Mode { path, mode: 0o777 },
                Command::Clone {
                    path: Path::new("own"),
                    offset: 0,
                    length: 0,
                    lender: own,
                    lender_path: path,
                    lender_offset: 0,
                },
            ] {
                assert!(applier.apply(&command).is_err(), "{command:?}");
            }
        }
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert!(inside.join("own").exists());
    }

    #[test]
    fn a_command_may_be_repeated_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let mut applier = applier(folder.path());
        let path = Path::new;
        for command in [
            Command::MakeFile { path: path("a") },
            Command::Write { path: path("a"), offset: 3, data: b"data" },
            Command::Rename { from: path("a"), to: path("b") },
            Command::MakeFolder { path: path("folder") },
            Command::Link { path: path("folder/c"), existing: path("b") },
            Command::Symlink { path: path("s"), target: path("nowhere") },
            Command::Unlink { path: path("b") },
            Command::Truncate { path: path("folder/c"), size: 5 },
            Command::Mode { path: path("folder/c"), mode: 0o640 },
            Command::Times { path: path("s"), accessed: (1, 2), modified: (3, 4) },
            Command::MakeFolder { path: path("gone") },
            Command::RemoveFolder { path: path("gone") },
        ] {
            applier.apply(&command).unwrap();
            applier.expect_repetition();
            applier.apply(&command).unwrap();
        }
        // Only the one behind the kill is let off.
        assert!(applier.apply(&Command::Unlink { path: path("b") }).is_err());
        assert_eq!(fs::read(folder.path().join("folder/c")).unwrap(), b"\0\0\0da");
    }
}
