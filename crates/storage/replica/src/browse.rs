//! The contents of a snapshot, and the differences between two, for people who look for a file.
//!
//! Paths come from outside: none leads out of its snapshot, and what is opened is only read.

use crate::beneath;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::subvolume::{self, Subvolume};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, ResolveFlags, Stat, statat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

/// A snapshot that is held open.
pub struct Opened {
    root: File,
    shown: PathBuf,
}

/// Something in a folder of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: ExactPath,
    /// What it is.
    pub kind: Kind,
    /// Of a file.
    pub bytes: u64,
    /// When its content changed last, Unix seconds.
    pub modified_unix: i64,
}

/// What an entry is; folders come first where entries are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, a socket, a pipe.
    Other,
}

/// How much of a snapshot is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of a folder's entries, or of changes, returned.
    pub most: usize,
    /// Maximum number of entries examined for that.
    pub looked_at: usize,
    /// Until when.
    pub until: Instant,
}

/// What was found, and whether that is everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// What was found until then.
    pub items: Vec<T>,
    /// A bound was reached before the end.
    pub cut_short: bool,
}

/// What differs at a path of two snapshots. For a folder that is only in one of them, nothing below
/// it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where, in both.
    pub path: ExactPath,
    /// How.
    pub what: What,
    /// Its kind in the newer one; if it is gone, in the older one.
    pub kind: Kind,
    /// Its size there, of a file.
    pub bytes: u64,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Only the newer one has it.
    Added,
    /// Only the older one has it.
    Removed,
    /// Its content or its kind.
    Content,
    /// Its owner or permissions.
    Permissions,
}

impl Opened {
    /// Opens the snapshot of this name in a folder.
    ///
    /// # Errors
    /// There is none, or it isn't read-only.
    pub fn open(folder: &Path, name: &OsStr) -> Result<Opened, Error> {
        let shown = folder.join(name);
        let none = || Error::Refused(format!("there is no snapshot {}", shown.display()));
        let mut parts = Path::new(name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            return Err(none());
        }
        let (root, about) = subvolume::open(&shown).map_err(|_| none())?;
        if !about.read_only {
            return Err(none());
        }
        Ok(Opened { root, shown })
    }

    /// What is in a folder of it, folders first.
    ///
    /// # Errors
    /// The path is no folder of the snapshot, or can't be read.
    pub fn entries(&self, path: &Path, bounds: &Bounds) -> Result<Found<Entry>, Error> {
        let (found, cut_short) = self.folder(path, bounds.looked_at)?;
        let mut items: Vec<Entry> = found
            .into_iter()
            .map(|(name, stat)| Entry {
                name: name.into(),
                kind: kind(&stat),
                bytes: bytes(&stat),
                modified_unix: stat.st_mtime,
            })
            .collect();
        items.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        let cut_short = cut_short || items.len() > bounds.most;
        items.truncate(bounds.most);
        Ok(Found { items, cut_short })
    }

    /// Checks that this path exists in it.
    ///
    /// # Errors
    /// It doesn't, or it leads out of the snapshot.
    pub fn is_there(&self, path: &Path) -> Result<(), Error> {
        let Some(name) = path.file_name() else {
            let shown = self.shown.join(relative(path));
            return Err(Error::Refused(format!("{} names nothing", shown.display())));
        };
        let missing = |error| self.error("looking at", path, error);
        let above = relative(path).parent().unwrap_or(Path::new(""));
        let folder = self.open_beneath(above, OFlags::PATH | OFlags::DIRECTORY).map_err(missing)?;
        statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|_| ())
            .map_err(|error| missing(error.into()))
    }

    /// A regular file of it, to be read, and its size.
    ///
    /// # Errors
    /// It is none, or isn't there.
    pub fn file(&self, path: &Path) -> Result<(File, u64), Error> {
        let refused = |error| self.error("opening", path, error);
        // Neither a pipe nor a device does anything by being opened so.
        let seen = self.open_beneath(path, OFlags::PATH).map_err(refused)?;
        let about = seen.metadata().map_err(refused)?;
        if !about.is_file() {
            let shown = self.shown.join(relative(path));
            return Err(Error::Refused(format!("{} is no file", shown.display())));
        }
        let file = self.open_beneath(path, OFlags::RDONLY).map_err(refused)?;
        Ok((file, about.len()))
    }

    /// What differs from an older snapshot. Files are the same if they are one file with one time
    /// of change, or have the same size and time; contents are not read.
    ///
    /// # Errors
    /// A folder can't be read.
    pub fn changes_since(&self, older: &Opened, bounds: &Bounds) -> Result<Found<Change>, Error> {
        let same_filesystem = self.is_beside(older);
        let mut found = Found { items: Vec::new(), cut_short: false };
        let mut left = bounds.looked_at;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let mut pairs: BTreeMap<OsString, [Option<Stat>; 2]> = BTreeMap::new();
            for (at, side) in [older, self].into_iter().enumerate() {
                let (entries, cut_short) = side.folder(&folder, left)?;
                left = left.saturating_sub(entries.len());
                found.cut_short |= cut_short;
                for (name, stat) in entries {
                    pairs.entry(name).or_default()[at] = Some(stat);
                }
            }
            // If a folder was read only in part, what seems lacking may be there.
            if found.cut_short {
                return Ok(found);
            }
            let mut below = Vec::new();
            for (name, [old, new]) in pairs {
                let path = folder.join(name);
                let what = match (&old, &new) {
                    (Some(old), Some(new)) => {
                        if kind(old) == Kind::Folder && kind(new) == Kind::Folder {
                            below.push(path.clone());
                        }
                        difference(old, new, same_filesystem)
                    }
                    (Some(_), None) => Some(What::Removed),
                    (None, _) => Some(What::Added),
                };
                let (Some(what), Some(stat)) = (what, new.or(old)) else { continue };
                let (kind, bytes) = (kind(&stat), bytes(&stat));
                found.items.push(Change { path: path.into(), what, kind, bytes });
            }
            folders.extend(below.into_iter().rev());
            if found.items.len() > bounds.most || Instant::now() > bounds.until {
                found.items.truncate(bounds.most);
                found.cut_short = true;
                return Ok(found);
            }
        }
        Ok(found)
    }

    /// Whether inode numbers of both mean the same files: snapshots of one subvolume.
    fn is_beside(&self, other: &Opened) -> bool {
        let series = |one: &Opened| {
            let about = Subvolume::of(&one.root).ok()?;
            let here = about.received_uuid.is_none();
            here.then(|| Some((subvolume::filesystem(&one.root).ok()?, about.series_uuid())))?
        };
        series(self).is_some_and(|ours| series(other) == Some(ours))
    }

    /// Names in a folder, `most` of them, and whether there are more.
    fn folder(&self, path: &Path, most: usize) -> Result<(Vec<(OsString, Stat)>, bool), Error> {
        let refused = |error| self.error("reading the folder", path, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = self.open_beneath(path, flags).map_err(refused)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder).map_err(|error| refused(error.into()))? {
            let entry = entry.map_err(|error| refused(error.into()))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if found.len() >= most {
                return Ok((found, true));
            }
            let stat = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| refused(error.into()))?;
            found.push((OsString::from_vec(name.to_vec()), stat));
        }
        Ok((found, false))
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        // What is mounted or created in it later isn't part of it.
        beneath::open(&self.root, relative(path), flags | OFlags::NOFOLLOW, ResolveFlags::NO_XDEV)
    }

    fn error(&self, doing: &str, path: &Path, error: io::Error) -> Error {
        Error::io(doing, &self.shown.join(relative(path)), error)
    }
}

/// Below the snapshot's root, however it was written.
fn relative(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let slashes = bytes.iter().take_while(|byte| **byte == b'/').count();
    Path::new(OsStr::from_bytes(&bytes[slashes..]))
}

fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

fn bytes(stat: &Stat) -> u64 {
    match kind(stat) {
        Kind::File => u64::try_from(stat.st_size).unwrap_or_default(),
        _ => 0,
    }
}

fn difference(old: &Stat, new: &Stat, same_filesystem: bool) -> Option<What> {
    let ctime = |stat: &Stat| (stat.st_ino, stat.st_ctime, stat.st_ctime_nsec);
    if same_filesystem && ctime(old) == ctime(new) {
        return None;
    }
    if kind(old) != kind(new) || (same_filesystem && old.st_ino != new.st_ino) {
        return Some(What::Content);
    }
    let content = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_rdev);
    // A folder's own time and size change with its contents, which are reported themselves.
    if kind(old) != Kind::Folder && content(old) != content(new) {
        return Some(What::Content);
    }
    let permissions = |stat: &Stat| (stat.st_mode, stat.st_uid, stat.st_gid);
    (permissions(old) != permissions(new)).then_some(What::Permissions)
}
