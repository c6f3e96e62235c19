//! Files and folders as wholes: copied, and given names that nobody has.

use crate::error::Error;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Copies a file or folder; `to` becomes what `from` is. cp(1) keeps all that
/// a file has: owners, times, attributes, holes and hard links, and shares data
/// where it can. None of its output is read but its complaint.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    cp(&["--archive", "--reflink=auto", "--sparse=auto"], from, to)
}

/// Copies a folder of a filesystem that knows neither owners nor modes (FAT).
pub(crate) fn copy_plain(from: &Path, to: &Path) -> Result<(), Error> {
    cp(&["--recursive", "--preserve=timestamps"], from, to)
}

fn cp(options: &[&str], from: &Path, to: &Path) -> Result<(), Error> {
    let output = Command::new("cp")
        .env("LC_ALL", "C")
        .args(options)
        .args(["--no-target-directory", "--"])
        .args([from, to])
        .output()
        .map_err(|error| Error::Io { doing: "starting cp".to_owned(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Refused(format!("{why}; what was copied is in {}", to.display())))
}

/// rename(2) that replaces nothing.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<(), Error> {
    let c_path = |path: &Path| {
        CString::new(path.as_os_str().as_bytes()).map_err(|e| Error::io("naming", path, e.into()))
    };
    let (c_from, c_to) = (c_path(from)?, c_path(to)?);
    // SAFETY: zero-terminated paths.
    let done = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            c_from.as_ptr(),
            libc::AT_FDCWD,
            c_to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if done < 0 { Err(Error::io("renaming to", to, io::Error::last_os_error())) } else { Ok(()) }
}
