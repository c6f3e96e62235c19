//! Filesystems of other kinds that take part in booting a system: the ESP, `/boot`.

use super::boot::Identity;
use super::fstab::{Entry, stays_behind};
use super::mount::Beside;
use crate::error::Error;
pub use crate::old_system::OldBeside;
use braid_pool::uuid::Uuid;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

fn takes_part(entry: &Entry<'_>) -> bool {
    let at = Path::new(entry.at);
    entry.kind != "btrfs" && (at.starts_with("/boot") || at.starts_with("/efi"))
}

/// Warnings about everything in the fstab of the system in `root` that is neither on the btrfs nor
/// takes part in booting.
pub fn left_behind(root: &Path, filesystem: Uuid) -> Result<Vec<String>, Error> {
    let stays = |entry: &Entry<'_>| {
        !entry.names(&filesystem.to_string()) && !takes_part(entry) && entry.is_waited_for()
    };
    let text = read_fstab(root)?;
    let entries = text.lines().filter_map(Entry::of).filter(stays);
    Ok(entries.map(|entry| stays_behind(&entry)).collect())
}

/// What the fstab of the system in `root` mounts at `/boot`, `/efi` or below.
pub fn of_system(root: &Path) -> Result<Vec<OldBeside>, Error> {
    let text = read_fstab(root)?;
    let mut found = vec![];
    for entry in text.lines().filter_map(Entry::of).filter(takes_part) {
        let Some(device) = device_of(entry.what)? else {
            return Err(Error::Refused(format!(
                "etc/fstab mounts {} at {}, and there is no such device here: without it the new \
                 system would not boot",
                entry.what, entry.at
            )));
        };
        let io = |error| Error::io("asking for the size of", &device, error);
        let size_bytes =
            File::open(&device).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(io)?;
        found.push(OldBeside {
            at: entry.at.to_owned(),
            kind: entry.kind.to_owned(),
            device,
            size_bytes,
        });
    }
    Ok(found)
}

/// Where the system in `root`, whose fstab is still the old one's, mounts each of these.
pub fn places(root: &Path, old: &[Identity], new: &[Beside]) -> Result<Vec<PathBuf>, Error> {
    let text = read_fstab(root)?;
    let mut places = vec![];
    for (id, new) in old.iter().zip(new) {
        let is_it = |entry: &Entry<'_>| {
            [&id.filesystem, &id.partition].into_iter().flatten().any(|id| entry.names(id))
        };
        let at = text.lines().filter_map(Entry::of).find(is_it).map(|entry| entry.at.to_owned());
        let usual = if new.has_owners() { "/boot" } else { "/boot/efi" };
        places.push(PathBuf::from(at.unwrap_or_else(|| usual.to_owned())));
    }
    Ok(places)
}

/// Bytes that are in use in the filesystem mounted at `path`.
pub fn used_bytes(path: &Path) -> Result<u64, Error> {
    let about = rustix::fs::statvfs(path);
    let about = about.map_err(|e| Error::io("asking how full it is:", path, e.into()))?;
    Ok(about.f_blocks.saturating_sub(about.f_bfree) * about.f_frsize)
}

fn read_fstab(root: &Path) -> Result<String, Error> {
    let path = root.join("etc/fstab");
    fs::read_to_string(&path).map_err(|e| Error::io("reading", &path, e))
}

/// The device that fstab means; findfs(8) knows UUIDs and labels.
fn device_of(what: &str) -> Result<Option<PathBuf>, Error> {
    if what.starts_with('/') {
        return Ok(fs::canonicalize(what).ok());
    }
    let output = Command::new("findfs")
        .env("LC_ALL", "C")
        .arg(what.replace('"', ""))
        .output()
        .map_err(|error| Error::Io { doing: "starting findfs".to_owned(), error })?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((output.status.success() && !text.is_empty()).then(|| text.into()))
}
