#![allow(unsafe_code)]

use super::folders::{Folders, beneath};
use super::{Command, Compressed, StreamError};
use crate::error::Error;
use crate::subvolume::ioctl;
use braid_pool::uuid::Uuid;
use rustix::fs::{
    self, AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Applies a stream's commands inside one writable subvolume.
pub struct Applier {
    folders: Folders,
    /// The UUID by which the stream names the subvolume itself.
    own: Uuid,
    clone_sources: CloneSources,
    /// The next command may already have been applied.
    again: bool,
}

/// The subvolumes whose data a stream may share, by the UUIDs it knows them by.
#[derive(Default)]
pub struct CloneSources(pub Vec<(Uuid, File)>);

impl Applier {
    /// For the subvolume open as `root`, which the stream knows as `own`.
    pub fn new(root: File, own: Uuid, clone_sources: CloneSources) -> Applier {
        Applier { folders: Folders::new(root), own, clone_sources, again: false }
    }

    /// The subvolume.
    pub fn root(&self) -> &File {
        self.folders.root()
    }

    /// The next command may have been begun or applied before the program was killed; repeating it
    /// must not fail.
    pub fn expect_repetition(&mut self) {
        self.again = true;
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// The system refuses it, or it isn't valid for this subvolume.
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
                let made = fs::mkdirat(place.folder, &place.name, Mode::RWXU);
                made.map_err(told("making the folder", path))
            }
            Command::MakeNode { path, mode, device } => self.make(path, mode, device),
            Command::Symlink { path, target } => {
                let place = self.folders.place(path)?;
                let made = fs::symlinkat(target, place.folder, &place.name);
                made.map_err(told("making the symbolic link", path))
            }
            Command::Rename { from, to } => self.rename(from, to),
            Command::Link { path, existing } => self.link(path, existing),
            Command::Unlink { path } => self.unlink(path, AtFlags::empty()),
            Command::RemoveFolder { path } => self.unlink(path, AtFlags::REMOVEDIR),
            Command::SetXattr { path, name, value } => {
                let target = self.xattr_target(path)?;
                let set = fs::lsetxattr(target, name, value, XattrFlags::empty());
                set.map_err(told("setting an extended attribute of", path))
            }
            Command::RemoveXattr { path, name } => {
                let removed = fs::lremovexattr(self.xattr_target(path)?, name);
                removed.map_err(told("removing an extended attribute of", path))
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
                self.share(path, offset, length, &source, lender_offset)
            }
            Command::Truncate { path, size } => {
                let file = self.folders.file(path)?;
                file.set_len(size).map_err(|e| Error::io("setting the size of", path, e))
            }
            Command::Mode { path, mode } => {
                let file = self.folders.anything(path)?;
                let (by, mode) = (by_descriptor(&file), Mode::from_raw_mode(mode));
                let set = fs::chmodat(fs::CWD, by, mode, AtFlags::empty());
                set.map_err(told("setting the mode of", path))
            }
            Command::Owner { path, user, group } => {
                let file = self.folders.anything(path)?;
                let known = |id: u32| (id != u32::MAX).then_some(id);
                let (user, group) =
                    (known(user).map(Uid::from_raw), known(group).map(Gid::from_raw));
                let set = fs::chownat(file, "", user, group, ITSELF);
                set.map_err(told("setting the owner of", path))
            }
            Command::Times { path, accessed, modified } => {
                let file = self.folders.anything(path)?;
                let times = Timestamps {
                    last_access: timespec(accessed),
                    last_modification: timespec(modified),
                };
                let set = fs::utimensat(file, "", &times, ITSELF);
                set.map_err(told("setting the times of", path))
            }
            Command::Allocate { path, mode, offset, length } => {
                let file = self.folders.file(path)?;
                let mode = FallocateFlags::from_bits_retain(mode);
                fs::fallocate(file, mode, offset, length).map_err(told("allocating", path))
            }
            Command::Extent { .. } | Command::Nothing | Command::End => Ok(()),
        }
    }

    fn make(&mut self, path: &Path, mode: u32, device: u64) -> Result<(), Error> {
        let place = self.folders.place(path)?;
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode));
        let made = fs::mknodat(place.folder, &place.name, kind, mode, device);
        made.map_err(told("making", path))
    }

    fn link(&mut self, path: &Path, existing: &Path) -> Result<(), Error> {
        let existing = self.folders.anything(existing)?;
        let from = by_descriptor(&existing);
        let place = self.folders.place(path)?;
        let flags = AtFlags::SYMLINK_FOLLOW;
        let made = fs::linkat(fs::CWD, from, place.folder, &place.name, flags);
        made.map_err(told("making the hard link", path))
    }

    fn share(
        &mut self,
        path: &Path,
        offset: u64,
        length: u64,
        source: &File,
        source_offset: u64,
    ) -> Result<(), Error> {
        let mut range = ioctl::CloneRange {
            src_fd: i64::from(source.as_raw_fd()),
            src_offset: source_offset,
            src_length: length,
            dest_offset: offset,
        };
        let file = self.folders.file(path)?;
        // SAFETY: the request's own structure; `source` is open.
        unsafe { ioctl::call(file, ioctl::CLONE_RANGE, &mut range) }
            .map_err(|e| Error::io("sharing data into", path, e))
    }

    fn unlink(&mut self, path: &Path, flags: AtFlags) -> Result<(), Error> {
        self.folders.forget();
        let place = self.folders.place(path)?;
        fs::unlinkat(place.folder, &place.name, flags).map_err(told("removing", path))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        self.folders.forget();
        let (Some(to_parent), Some(to_name)) = (to.parent(), to.file_name()) else {
            return Err(StreamError::Path(to.display().to_string()).into());
        };
        let to_folder = beneath(self.folders.root(), to_parent, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|e| Error::io("opening the folder", to_parent, e))?;
        let place = self.folders.place(from)?;
        let renamed = fs::renameat(place.folder, &place.name, to_folder, to_name);
        self.folders.forget();
        renamed.map_err(told("renaming", from))
    }

    /// The root has no name in a folder: it is addressed by its own `.`.
    fn xattr_target(&mut self, path: &Path) -> Result<PathBuf, Error> {
        if path.as_os_str().is_empty() {
            return Ok(by_descriptor(self.folders.root()).join("."));
        }
        Ok(self.folders.place(path)?.by_descriptor())
    }

    fn lender(&self, uuid: Uuid, path: &Path) -> Result<File, Error> {
        let root = if uuid == self.own {
            self.folders.root()
        } else {
            let found = self.clone_sources.0.iter().find(|(known, _)| *known == uuid);
            &found.ok_or(StreamError::NoLender(uuid))?.1
        };
        beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK)
            .map_err(|e| Error::io("opening", path, e))
    }

    /// Whether `error` only means that the command was applied before.
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

fn timespec((seconds, nanos): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanos.into() }
}

/// Calls with this change the object of the descriptor itself, not what a link leads to.
const ITSELF: AtFlags = AtFlags::EMPTY_PATH.union(AtFlags::SYMLINK_NOFOLLOW);

/// For calls that take no descriptor.
fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn told<'a>(doing: &'a str, path: &'a Path) -> impl FnOnce(Errno) -> Error + 'a {
    move |error| Error::io(doing, path, error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn applier(root: &Path) -> Applier {
        let root = File::open(root).unwrap();
        Applier::new(root, Uuid::from_bytes([1; 16]), CloneSources::default())
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
