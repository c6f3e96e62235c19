//! Files for the programs that engines need.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes it, replacing an existing file.
pub(super) fn write(path: &Path, contents: &str, mode: u32) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(contents.as_bytes())
}

/// Whether it has exactly these contents.
pub(super) fn is(path: &Path, contents: &str) -> io::Result<bool> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text == contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes it, if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
