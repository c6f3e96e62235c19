//! Files that are either as they were or wholly new, also after a power cut.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Mode of a file that wasn't there.
const NEW_MODE: u32 = 0o644;

/// Writes the whole file by a new one beside it and a renaming. Owner stays, and the mode if none
/// is given; a symbolic link stays and its target is written.
pub fn replace(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let old = match fs::metadata(&path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let beside = beside(&path)?;
    let written =
        write_new(&beside, text, old.as_ref(), mode).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The error that is told is the first one.
        let _ = fs::remove_file(&beside);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Removes the file; that it is gone already is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match path.parent().map(File::open) {
        Some(Ok(folder)) => folder.sync_all(),
        _ => Ok(()),
    }
}

/// The file's text; nothing when there is none.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_new(
    path: &Path,
    text: &[u8],
    old: Option<&fs::Metadata>,
    mode: Option<u32>,
) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    if let Some(old) = old {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
    }
    let mode = mode.unwrap_or_else(|| old.map_or(NEW_MODE, |old| old.mode() & 0o7777));
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(path.with_file_name(format!(".{}.braid-new", name.to_string_lossy())))
}
