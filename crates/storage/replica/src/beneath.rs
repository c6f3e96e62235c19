//! Paths named by another computer, below an open folder. None leads out of it: not by `..`, not
//! through a symbolic link, and not into what that computer sent before, whose contents it
//! controls.

use crate::error::Error;
use crate::shown::{DESCRIPTORS, shown};
use crate::subvolume::{self, Subvolume};
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat2};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Opens `path` below `root` and nowhere else. A symbolic link as the last part is refused too, but
/// for `NOFOLLOW` with `PATH`, which opens the link itself.
pub(crate) fn open(
    root: impl AsFd,
    path: &Path,
    flags: OFlags,
    refused: ResolveFlags,
) -> io::Result<File> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let refused = refused | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), refused)?;
    Ok(File::from(opened))
}

/// A folder held open: whatever happens to its name, it stays the one that was checked.
#[derive(Debug)]
pub(crate) struct Held {
    folder: File,
    /// It is in a snapshot, or is one.
    pub in_snapshot: bool,
}

/// What a path means.
pub(crate) enum Meant {
    /// The folder below which it was looked for.
    Top,
    /// Another folder.
    Folder(Held),
    /// Something of this name in a folder: a snapshot, a file, or nothing yet.
    Inside(Held, OsString),
}

/// Names with this prefix in a folder of replicas are Braid's own.
pub(crate) const OWN: &[u8] = b".braid-";

impl Held {
    /// A path that leads to exactly this folder, as long as this lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("{DESCRIPTORS}/{}/.", self.folder.as_raw_fd()))
    }

    /// Makes a folder in it, unless it is there.
    pub fn make(&self, name: &OsStr) -> Result<Held, Error> {
        let shown = shown(&self.path()).join(name);
        match mkdirat(&self.folder, name, Mode::from_raw_mode(0o755)) {
            Err(rustix::io::Errno::EXIST) | Ok(()) => {}
            Err(error) => return Err(Error::io("making the folder", &shown, error.into())),
        }
        self.enter(name).map_err(|error| Error::io("opening the folder", &shown, error))
    }

    /// Opens a folder in it.
    pub fn enter(&self, name: &OsStr) -> io::Result<Held> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = open(&self.folder, Path::new(name), flags, ResolveFlags::empty())?;
        let in_snapshot = self.in_snapshot || is_snapshot(&folder);
        Ok(Held { folder, in_snapshot })
    }
}

/// Finds what `asked` means below the folder `top`, which was chosen locally and is opened as it
/// is.
///
/// # Errors
/// A part of the path is `..`, a symbolic link, one of Braid's own names, or (but for the last one)
/// isn't there.
pub(crate) fn find(top: &Path, asked: &Path) -> Result<Meant, Error> {
    let mut names = vec![];
    for part in asked.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) if !name.as_bytes().starts_with(OWN) => names.push(name),
            _ => return Err(refused(asked, "leads out of it or to what is Braid's own")),
        }
    }
    let Some((last, way)) = names.split_last() else { return Ok(Meant::Top) };
    let folder = File::open(top).map_err(|e| Error::io("opening the folder", top, e))?;
    let mut held = Held { folder, in_snapshot: false };
    for name in way {
        held = held.enter(name).map_err(|error| no_way(asked, &error))?;
    }
    match held.enter(last) {
        Ok(inside) if inside.in_snapshot && !held.in_snapshot => {
            Ok(Meant::Inside(held, (*last).to_owned()))
        }
        Ok(inside) => Ok(Meant::Folder(inside)),
        Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                Ok(Meant::Inside(held, (*last).to_owned()))
            }
            _ => Err(no_way(asked, &error)),
        },
    }
}

/// Whether the folder's contents may have been made by another computer.
fn is_snapshot(folder: &File) -> bool {
    let is_one = |about: Subvolume| about.read_only || about.received_uuid.is_some();
    subvolume::is_btrfs(folder) && Subvolume::of(folder).is_ok_and(is_one)
}

fn no_way(asked: &Path, error: &io::Error) -> Error {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::LOOP) => refused(asked, "leads over a symbolic link"),
        Some(rustix::io::Errno::NOENT) => {
            refused(asked, "isn't there; only the last folder of a path is made")
        }
        _ => refused(asked, &error.to_string()),
    }
}

fn refused(asked: &Path, why: &str) -> Error {
    Error::Refused(format!("{} in the listener's folder {why}", asked.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_path_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir(top.join(".braid-replica")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        symlink(folder.path().join("outside"), top.join("a/out")).unwrap();
        symlink("b", top.join("a/inside")).unwrap();
        let find = |path: &str| find(&top, Path::new(path));
        let leading_out = ["..", "a/..", "/a/../../outside", ".braid-replica", "a/.braid-x/y"];
        for path in leading_out.iter().chain(&["a/out", "a/out/x", "a/inside", "a/no/x"]) {
            assert!(matches!(find(path), Err(Error::Refused(_))), "{path}");
        }
        for path in ["", "/", ".", "//./"] {
            assert!(matches!(find(path), Ok(Meant::Top)), "{path}");
        }
        let Ok(Meant::Folder(held)) = find("/a/./b") else { panic!("it is there") };
        assert_eq!(shown(&held.path()), top.join("a/b"));
        assert_eq!(shown(&held.path().join("x")), top.join("a/b/x"));
        let Ok(Meant::Inside(held, name)) = find("a/new") else { panic!("a can hold it") };
        // What becomes of the name doesn't matter any more.
        fs::rename(top.join("a"), top.join("moved")).unwrap();
        symlink(folder.path().join("outside"), top.join("a")).unwrap();
        held.make(&name).unwrap();
        assert!(top.join("moved/new").is_dir());
    }
}
