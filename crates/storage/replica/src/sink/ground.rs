//! Checks the filesystem below a folder for replicas: that it is the one meant (if a disk isn't
//! mounted, the filesystem below its mount point takes everything and fills up), and that it has
//! room.

use crate::error::Error;
use crate::shown::shown;
use braid_pool::fstab::{self, decoded};
use braid_units::ByteSize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Creates the folder, if only its last part is lacking, on what is mounted there.
///
/// # Errors
/// What fstab mounts there isn't mounted, or the parent folder doesn't exist.
pub(crate) fn prepare(folder: &Path) -> Result<(), Error> {
    refuse_unmounted(folder)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let full = resolved(folder)?;
            let parent = full.parent().unwrap_or(&full).display();
            Err(Error::Refused(format!(
                "{parent} isn't there, and only the last folder of a path is made. Is what belongs there mounted? \
                 If it is: mkdir -p '{parent}'"
            )))
        }
        other => other.map_err(|error| Error::io("making the folder", folder, error)),
    }
}

/// # Errors
/// What fstab has on the way to `path` isn't mounted.
pub(crate) fn refuse_unmounted(path: &Path) -> Result<(), Error> {
    let full = resolved(path)?;
    let [fstab, mounted] = ["/etc/fstab", "/proc/self/mountinfo"]
        .map(|file| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned()));
    // Without these nothing is known to be missing.
    if let (Ok(fstab), Ok(mounted)) = (fstab, mounted)
        && let Some(why) = unmounted(&full, &fstab, &mounted)
    {
        return Err(Error::Refused(why));
    }
    Ok(())
}

/// The share of a filesystem that stays free: when nothing is left, even what would make room may
/// fail.
const SHARE: u64 = 100;
/// But no less and no more than this, in bytes.
const SPARE: (u64, u64) = (16 << 20, 256 << 20);

/// Bytes that may arrive between two checks.
const LOOK_EVERY: u64 = 4 << 20;

/// Watches that a filesystem isn't filled up.
pub(crate) struct Headroom<'a> {
    folder: &'a Path,
    unchecked: u64,
    /// Bytes since the last sync: the filesystem may not know yet how much space they will take.
    unwritten: u64,
}

impl Headroom<'_> {
    /// Checks whether there is room for anything.
    ///
    /// # Errors
    /// There is hardly any room left.
    pub fn look(folder: &Path) -> Result<Headroom<'_>, Error> {
        let mut headroom = Headroom { folder, unchecked: 0, unwritten: 0 };
        headroom.check()?;
        Ok(headroom)
    }

    /// Announces this many more bytes.
    ///
    /// # Errors
    /// As of [`Headroom::look`].
    pub fn use_up(&mut self, bytes: u64) -> Result<(), Error> {
        self.unchecked += bytes;
        self.unwritten += bytes;
        if self.unchecked >= LOOK_EVERY { self.check() } else { Ok(()) }
    }

    fn check(&mut self) -> Result<(), Error> {
        self.unchecked = 0;
        let io =
            |error: rustix::io::Errno| Error::io("looking for room in", self.folder, error.into());
        let (mut free, spare) = free_and_spare(self.folder).map_err(io)?;
        if free < spare + self.unwritten && self.unwritten > 0 {
            let folder = fs::File::open(self.folder);
            let folder = folder.map_err(|e| Error::io("opening the folder", self.folder, e))?;
            rustix::fs::syncfs(&folder).map_err(io)?;
            free = free_and_spare(self.folder).map_err(io)?.0;
            self.unwritten = 0;
        }
        match free < spare {
            true => Err(full(self.folder, Some(free))),
            false => Ok(()),
        }
    }
}

/// Bytes free in a filesystem, and bytes that must stay free.
fn free_and_spare(folder: &Path) -> Result<(u64, u64), rustix::io::Errno> {
    let about = rustix::fs::statvfs(folder)?;
    let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
    // Some filesystems don't say how large they are.
    let spare = match bytes(about.f_blocks) {
        0 => 0,
        all => (all / SHARE).clamp(SPARE.0, SPARE.1),
    };
    Ok((bytes(about.f_bavail), spare))
}

/// What to do when there is no room.
pub(crate) fn full(folder: &Path, free: Option<u64>) -> Error {
    let free = match free {
        Some(free) => format!("only {} are free", ByteSize::from_bytes(free >> 20 << 20)),
        None => "nothing is free".to_owned(),
    };
    let folder = shown(folder);
    let at = folder.display();
    Error::Refused(format!(
        "the filesystem of {at} is full: {free}. Delete old replicas there (braid pool retain '{at}' --policy …) and \
         replicate again, or give up what has come of this one: braid pool replicate --forget '{at}'"
    ))
}

/// The path without links, as far as it exists.
fn resolved(folder: &Path) -> Result<PathBuf, Error> {
    let io = |error| Error::io("finding", folder, error);
    let absolute = std::path::absolute(shown(folder)).map_err(io)?;
    for there in absolute.ancestors() {
        match fs::canonicalize(there) {
            Ok(found) => {
                let lacking = absolute.strip_prefix(there).unwrap_or(Path::new(""));
                return Ok(found.components().chain(lacking.components()).collect());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
    }
    Ok(absolute)
}

/// What fstab mounts on the way to `folder` but isn't mounted.
fn unmounted(folder: &Path, fstab: &str, mountinfo: &str) -> Option<String> {
    // Fields are separated by single blanks; the fifth is the mount point (proc(5)).
    let mounted: Vec<String> =
        mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(decoded).collect();
    let is_mounted = |at: &Path| mounted.iter().any(|mounted| Path::new(mounted) == at);
    let lacking = fstab::entries(fstab).find(|entry| {
        let at = Path::new(&entry.at);
        let at = fs::canonicalize(at).unwrap_or_else(|_| at.to_owned());
        at != Path::new("/") && at.is_absolute() && folder.starts_with(&at) && !is_mounted(&at)
    })?;
    Some(format!(
        "{} belongs on {}, which isn't mounted (/etc/fstab, line {}): mount '{}'",
        folder.display(),
        lacking.what,
        lacking.line,
        lacking.at
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fstab_has_on_the_way_must_be_mounted() {
        let fstab = "UUID=1 / ext4 defaults 0 1\nUUID=2 /srv/my\\040data btrfs noauto 0 0\n\
                     UUID=3 none swap sw 0 0\n/dev/x /srv/my\\040data/inner ext4 nofail 0 0";
        let lacks = |folder: &str, mounted: &str| {
            unmounted(
                Path::new(folder),
                fstab,
                &format!("1 1 8:1 / / rw - ext4 /dev/a rw{mounted}"),
            )
        };
        let outer = "\n2 1 0:2 / /srv/my\\040data rw - btrfs /dev/b rw";
        let said = lacks("/srv/my data/replicas", "").unwrap();
        assert!(said.contains("UUID=2") && said.contains("line 2"), "{said}");
        assert!(lacks("/srv/my data", "").is_some());
        assert_eq!(lacks("/srv/my data 2", ""), None);
        assert_eq!(lacks("/srv", ""), None);
        assert_eq!(lacks("/srv/my data/replicas", outer), None);
        assert!(lacks("/srv/my data/inner/x", outer).unwrap().contains("/dev/x"));
    }

    #[test]
    fn only_the_last_folder_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let refused = prepare(&folder.path().join("a/b")).unwrap_err().to_string();
        assert!(refused.contains("mkdir -p") && !folder.path().join("a").exists(), "{refused}");
        prepare(&folder.path().join("a")).unwrap();
        prepare(&folder.path().join("a")).unwrap();
        assert!(folder.path().join("a").is_dir());
    }
}
