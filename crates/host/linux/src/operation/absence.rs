//! Treats absence as no error, when observing or undoing.

use std::io;

/// `None` instead of an error if it doesn't exist.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Success also if it doesn't exist.
pub(crate) fn gone(result: io::Result<()>) -> io::Result<()> {
    found(result).map(drop)
}

fn is_absence(error: &io::Error) -> bool {
    let absent = [libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::EADDRNOTAVAIL];
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error().is_some_and(|code| absent.contains(&code))
}
