//! Small files, written atomically (either old or completely new, even after a power cut or on a
//! full disk) and read with a size limit.

#![forbid(unsafe_code)]

mod read;
pub mod state_file;

pub use read::{ALL_BUT_OWNER, OTHERS, SecretError, open_secret, read_secret, read_text};

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Mode of a new file, if none is given.
const NEW_MODE: u32 = 0o644;
/// How long another program may take to write the same file.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Replaces the file by one with these contents, or creates it, with its folder. The owner stays,
/// and the mode if none is given; a symbolic link stays and its target is replaced. It is on disk
/// when this returns.
///
/// # Errors
/// The system's error; `TimedOut` when another program keeps writing it. The file is then
/// unchanged.
pub fn replace(path: &Path, contents: &[u8], mode: Option<u32>) -> io::Result<()> {
    replace_with(path, mode, |file| file.write_all(contents)).map(drop)
}

/// Like [`replace`], but `write` writes the contents, or does whatever else must be done before the
/// file gets its name. Returns the file.
///
/// # Errors
/// As [`replace`], and those of `write`.
pub fn replace_with(
    path: &Path,
    mode: Option<u32>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace_name(&path, mode, write)
}

/// Like [`replace`], for folders that others may write in: whatever has the file's name is
/// replaced, and a symbolic link isn't followed.
///
/// # Errors
/// As [`replace`].
pub fn replace_unfollowed(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_name(path, None, |file| file.write_all(contents)).map(drop)
}

fn replace_name(
    path: &Path,
    mode: Option<u32>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    let old = match fs::symlink_metadata(path) {
        Ok(old) => Some(old).filter(fs::Metadata::is_file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let beside = beside(path)?;
    let mut file = open_alone(&beside)?;
    let complete = |file: &mut File| {
        write(file)?;
        if let Some(old) = &old {
            let new = file.metadata()?;
            // A confined program may not even set the owner that it already has.
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&*file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        let mode = mode.unwrap_or_else(|| old.map_or(NEW_MODE, |old| old.mode() & 0o7777));
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    if let Err(error) = complete(&mut file) {
        // Report the first error.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder(folder)?;
    Ok(file)
}

/// Creates a new file with exactly this mode.
///
/// # Errors
/// `AlreadyExists` when something has its name; what the system says: there is
/// no such file then.
pub fn create(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let complete = |file: &mut File| {
        file.write_all(contents)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    };
    if let Err(error) = complete(&mut file) {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    sync_folder(folder_of(path))
}

/// Removes the file; it is no error if it doesn't exist.
///
/// # Errors
/// The system's error.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(folder_of(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes additions to and removals from a folder durable.
///
/// # Errors
/// The system's error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".braid-new");
    Ok(path.with_file_name(hidden))
}

/// Opens an empty file exclusively: another program that writes the same one waits. A file left by
/// a crash is taken over.
fn open_alone(path: &Path) -> io::Result<File> {
    // Something else with this name isn't a file of ours, and must not block us.
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(false).mode(0o600);
    how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = locked(path, &how, "another program keeps writing it")?;
    file.set_len(0)?;
    Ok(file)
}

/// Locks a file for the caller as long as the returned value lives: others that lock it wait. If it
/// is replaced meanwhile by [`replace_with`], the file returned there holds the lock.
///
/// # Errors
/// The system's error; `TimedOut` when another program keeps holding it.
pub fn keep(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    locked(path, how.read(true), "another program keeps changing it")
}

/// Opens and locks the file of this name; `busy` is the error if that takes too long.
fn locked(path: &Path, how: &OpenOptions, busy: &'static str) -> io::Result<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        let file = how.open(path)?;
        match file.try_lock() {
            // The previous holder may have renamed, replaced or removed it.
            Ok(()) if is_named(&file, path)? => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, busy));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(there) => Ok(there.ino() == file.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
