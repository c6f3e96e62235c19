//! Kernel settings, below `/proc/sys`.

use super::absence::found;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Reads it.
pub(super) fn read(key: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path(key))?.trim().to_owned())
}

/// Sets it.
pub(super) fn write(key: &str, value: &str) -> io::Result<()> {
    fs::write(path(key), value)
}

/// Restores the previous value, unless somebody has changed it from `ours` since.
pub(super) fn restore(key: &str, ours: &str, prior: Option<&str>) -> io::Result<()> {
    match found(read(key))? {
        Some(now) if now == ours => prior.map_or(Ok(()), |prior| write(key, prior)),
        _ => Ok(()),
    }
}

fn path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key)
}
