//! Whole files and folders: copying them, and renaming without replacing.

use crate::error::Error;
use braid_durable::state_file;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Copies a file or folder; `to` becomes what `from` is. cp(1) preserves everything: owners, times,
/// attributes, holes and hard links, and shares data where it can. Only its error output is read.
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
    Err(Error::Refused(match to.symlink_metadata() {
        Ok(_) => format!("{why}; what was copied is in {}", to.display()),
        Err(_) => format!("{why}; nothing was copied"),
    }))
}

/// Yields a folder's contents piece by piece, as packed by tar(1), without anything mounted inside.
pub(crate) fn pack(
    folder: &Path,
    mut take: impl FnMut(Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let options = ["--create", "--file=-", "--one-file-system", "--xattrs", "--acls", "--sparse"];
    let mut tar = tar(&options, folder).arg(".").stdout(Stdio::piped()).spawn().map_err(started)?;
    let io = |error| Error::io("packing", folder, error);
    let mut packed = match tar.stdout.take() {
        Some(out) => out,
        None => return Err(io(io::ErrorKind::BrokenPipe.into())),
    };
    let mut all = || loop {
        let mut piece = vec![0; PIECE];
        match packed.read(&mut piece).map_err(io)? {
            0 => return Ok(()),
            length => piece.truncate(length),
        }
        take(piece)?;
    };
    let taken = all();
    drop(packed);
    ended(tar, taken, folder)
}

/// The opposite: `fill` gives the pieces. A filesystem without owners (FAT) gets none.
pub(crate) fn unpack(
    folder: &Path,
    has_owners: bool,
    fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let kept =
        ["--preserve-permissions", "--same-owner", "--xattrs", "--xattrs-include=*", "--acls"];
    let dropped = ["--no-same-permissions", "--no-same-owner", "--no-xattrs", "--no-acls"];
    let options = if has_owners { &kept[..] } else { &dropped };
    let options = [&["--extract", "--file=-"], options].concat();
    let mut tar = tar(&options, folder).stdin(Stdio::piped()).spawn().map_err(started)?;
    let io = |error| Error::io("unpacking into", folder, error);
    let mut into = tar.stdin.take();
    let filled = fill(&mut |piece| match &mut into {
        Some(into) => into.write_all(piece).map_err(io),
        None => Err(io(io::ErrorKind::BrokenPipe.into())),
    });
    if filled.is_err() {
        // Otherwise it would complain about missing input.
        let _ = tar.kill();
    }
    drop(into);
    ended(tar, filled, folder)
}

/// A pipe's size.
const PIECE: usize = 64 << 10;

fn tar(options: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("tar");
    command.env("LC_ALL", "C").args(options).arg("--numeric-owner").arg("--directory").arg(folder);
    command.stdin(Stdio::null());
    command
}

fn started(error: io::Error) -> Error {
    Error::Io { doing: "starting tar".to_owned(), error }
}

/// Waits for it; an error in the exchange with it says more than its exit status.
fn ended(mut tar: Child, talk: Result<(), Error>, folder: &Path) -> Result<(), Error> {
    let status = tar.wait().map_err(|e| Error::io("waiting for tar in", folder, e))?;
    talk?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::Refused(format!("tar failed in {} ({status})", folder.display()))),
    }
}

/// Opens a file that only Braid makes; a link under its name isn't followed.
pub(crate) fn open_own(path: &Path, options: &mut fs::OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Reads a file that only Braid makes.
pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open_own(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// rename(2) that replaces nothing.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<(), Error> {
    let renamed = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
    renamed.map_err(|error| Error::io("renaming to", to, error.into()))
}

/// What a state file has.
#[derive(Debug)]
pub(crate) enum Stored<T> {
    /// There is no such file.
    Absent,
    /// It can't be understood, for this reason.
    Damaged(io::Error),
    /// This.
    Whole(T),
}

impl<T> Stored<T> {
    /// What the file at `path` has, if it is there.
    ///
    /// # Errors
    /// It can't be understood.
    pub fn intact(self, path: &Path) -> Result<Option<T>, Error> {
        match self {
            Stored::Whole(content) => Ok(Some(content)),
            Stored::Absent => Ok(None),
            Stored::Damaged(error) => Err(Error::io("reading", path, error)),
        }
    }
}

/// Reads a [state file](state_file) of ours in a folder that others write in, too.
///
/// # Errors
/// It can't be read, or is a newer Braid's.
pub(crate) fn read_state<T: DeserializeOwned>(
    path: &Path,
    version: u32,
) -> Result<Stored<T>, Error> {
    match read_own(path).and_then(|text| state_file::from_json_or_bare(version, &text)) {
        Ok(content) => Ok(Stored::Whole(content)),
        Err(error) if state_file::is_newer(&error) => Err(Error::io("reading", path, error)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(Stored::Absent),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Ok(Stored::Damaged(error)),
            _ => Err(Error::io("reading", path, error)),
        },
    }
}

/// Writes one atomically, but not over that of a newer Braid.
pub(crate) fn write_state(path: &Path, version: u32, content: impl Serialize) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let text = state_file::to_json(version, content)?;
        read_own(path)
            .map_or(Ok(()), |present| state_file::refuse_newer_than(version, &present))?;
        braid_durable::replace_unfollowed(path, &text)
    };
    write().map_err(|error| Error::io("writing", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_is_read_as_it_was_and_a_newer_one_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.json");
        write_state(&file, 1, ["a"]).unwrap();
        let read = |version| match read_state::<Vec<String>>(&file, version).unwrap() {
            Stored::Whole(content) => content,
            other => panic!("{other:?}"),
        };
        assert!(matches!(read_state::<()>(&folder.path().join("other"), 1), Ok(Stored::Absent)));
        assert_eq!(read(1), ["a"]);
        // As it was written before it said its version.
        fs::write(&file, r#"["b"]"#).unwrap();
        assert_eq!(read(1), ["b"]);
        write_state(&file, 2, ["c"]).unwrap();
        let why = read_state::<Vec<String>>(&file, 1).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        let why = write_state(&file, 1, ["d"]).unwrap_err().to_string();
        assert!(why.contains("f.json: a newer braid wrote it"), "{why}");
        assert_eq!(read(2), ["c"]);
        fs::write(&file, "{").unwrap();
        assert!(matches!(read_state::<Vec<String>>(&file, 2), Ok(Stored::Damaged(_))));
    }
}
