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

/// Mode of a file that wasn't there, where none is asked for.
const NEW_MODE: u32 = 0o644;
/// How long another program may take to write the same file.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Replaces the file by one with these contents, or makes it, with its folder.
/// The owner stays, and the mode if none is given; a symbolic link stays and its
/// target is replaced. It is on disk when this returns.
///
/// # Errors
/// What the system says; `TimedOut` when another program keeps writing it. Then the file is as it
/// was.
pub fn replace(path: &Path, contents: &[u8], mode: Option<u32>) -> io::Result<()> {
    replace_with(path, mode, |file| file.write_all(contents)).map(drop)
}

/// As [`replace`]; `write` writes the contents, or does what else must be done
/// to the file before it has its name. Gives the file.
///
/// # Errors
/// As of [`replace`], and those of `write`.
pub fn replace_with(
    path: &Path,
    mode: Option<u32>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace_name(&path, mode, write)
}

/// As [`replace`], for folders that others write in too: what has the file's name goes, and
/// a symbolic link isn't followed.
///
/// # Errors
/// As of [`replace`].
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
        // The error that is told is the first one.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder(folder)?;
    Ok(file)
}

/// Makes a file that isn't there yet, with just this mode.
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

/// Removes the file; that it is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(folder_of(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes what has come into a folder, or left it, durable.
///
/// # Errors
/// What the system says.
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

/// Opens a file for this caller alone, empty: another program that writes the
/// same one waits. One that was left by a crash is taken over.
fn open_alone(path: &Path) -> io::Result<File> {
    // Something else under the name is no file of ours, and waits for nobody.
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(false).mode(0o600);
    how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = locked(path, &how, "another program is writing it all the time")?;
    file.set_len(0)?;
    Ok(file)
}

/// Locks a file for the caller as long as the returned value lives: others that ask for it wait. If
/// it is replaced meanwhile by [`replace_with`], the file returned there holds the lock.
///
/// # Errors
/// What the system says; `TimedOut` when another program keeps it all the time.
pub fn keep(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    locked(path, how.read(true), "another program is changing it all the time")
}

/// The file of this name, locked; `busy` says who has it for too long.
fn locked(path: &Path, how: &OpenOptions, busy: &'static str) -> io::Result<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        let file = how.open(path)?;
        match file.try_lock() {
            // Who had it may have given it its name, replaced or removed it meanwhile.
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
