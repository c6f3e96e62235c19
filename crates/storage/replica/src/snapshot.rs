//! Read-only snapshots in a folder, whose names say of what and when they are.

use crate::error::Error;
use crate::exact_path::{ExactPath, escape};
use crate::folder::snapshots_in;
use crate::source::{Replicas, series_of};
use crate::subvolume::{self, Subvolume};
use crate::timestamp;
use braid_pool::uuid::Uuid;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A snapshot that is to be taken.
pub struct Intended {
    /// Of what.
    pub subvolume: PathBuf,
    /// As what.
    pub snapshot: PathBuf,
    source: File,
    name: OsString,
}

/// Checks that snapshots of all these subvolumes can be taken into `folder`, and names them: the
/// subvolume's path in its filesystem, a dot, the time. A `/` in the path becomes `%2F`, so no two
/// subvolumes share a name.
///
/// # Errors
/// One isn't a subvolume, or is on another filesystem than the folder.
pub fn intend(
    subvolumes: &[PathBuf],
    folder: &Path,
    now: SystemTime,
) -> Result<Vec<Intended>, Error> {
    let holder = nearest_folder(folder)?;
    if !subvolume::is_btrfs(&holder) {
        return Err(Error::Refused(format!("{} is not on btrfs", folder.display())));
    }
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::io("asking about", &path, error)
    };
    let filesystem = subvolume::filesystem(&holder).map_err(io(folder))?;
    let time = timestamp::format(now);
    let mut intended: Vec<Intended> = vec![];
    for path in subvolumes {
        let (source, about) = subvolume::open(path)?;
        if subvolume::filesystem(&source).map_err(io(path))? != filesystem {
            return Err(Error::Refused(format!(
                "{} and {} are on different filesystems; a snapshot stays on its own",
                path.display(),
                folder.display()
            )));
        }
        let inside = subvolume::path_of(&source, about.id).map_err(io(path))?;
        let stem = format!("{}.{time}", series_name(&inside));
        let taken = |name: &OsStr| {
            folder.join(name).symlink_metadata().is_ok()
                || intended.iter().any(|other| other.name == name)
        };
        let numbered = (2..).map(|number| OsString::from(format!("{stem}-{number}")));
        let mut names = std::iter::once(OsString::from(&stem)).chain(numbered);
        let name = names.find(|name| !taken(name)).unwrap_or_default();
        let snapshot = folder.join(&name);
        intended.push(Intended { subvolume: path.clone(), snapshot, source, name });
    }
    Ok(intended)
}

/// Takes them one after the other: each is of one instant, but not all of the same one.
///
/// # Errors
/// The folder can't be made, or the kernel refuses.
pub fn take(intended: &[Intended], folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| Error::io("making the folder", folder, e))?;
    let into = subvolume::open_folder(folder)?;
    for one in intended {
        subvolume::snapshot(&one.source, &into, &one.name, true)
            .map_err(|e| Error::io("taking the snapshot", &one.snapshot, e))?;
    }
    Ok(())
}

/// An existing snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Present {
    /// Its name.
    pub name: ExactPath,
    /// The part of it that all snapshots of one subvolume share.
    pub series: ExactPath,
    /// When it was taken, since the Unix epoch: by its name, or else from the filesystem (for a
    /// replica, when it arrived).
    #[serde(rename = "taken_s", serialize_with = "as_seconds")]
    pub taken: Duration,
    /// Its UUID.
    pub uuid: Uuid,
    /// Of what it is a replica.
    pub received_uuid: Option<Uuid>,
    /// The places whose newest replica is of this snapshot, by the folder's records.
    pub replicas: Vec<String>,
}

/// The snapshots in a folder, oldest first.
///
/// # Errors
/// The folder can't be read.
pub fn list(folder: &Path) -> Result<Vec<Present>, Error> {
    let common = Replicas::load(folder)?.common_parents();
    let replicas = |name: &OsStr| {
        let of_it = common.iter().filter(|(_, common)| common.as_name() == name);
        of_it.map(|(place, _)| place.clone()).collect()
    };
    let mut found: Vec<Present> = snapshots_in(folder)?
        .into_iter()
        .map(|(name, about)| Present {
            series: series_of(&name).to_owned().into(),
            taken: taken(&name, &about),
            replicas: replicas(&name),
            name: name.into(),
            uuid: about.uuid,
            received_uuid: about.received_uuid,
        })
        .collect();
    found.sort_by(|a, b| (a.taken, &a.name).cmp(&(b.taken, &b.name)));
    Ok(found)
}

fn taken(name: &OsStr, about: &Subvolume) -> Duration {
    let made = || about.made_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    time_in(name).unwrap_or_else(made)
}

/// The time in a snapshot's name, since the Unix epoch.
pub(crate) fn time_in(name: &OsStr) -> Option<Duration> {
    let (_, time) = name.to_str()?.rsplit_once('.')?;
    timestamp::parse(time)?.duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// A subvolume's path as a name. No snapshot's name begins with a dot.
fn series_name(path: &Path) -> String {
    let text = escape(path.as_os_str(), |c| matches!(c, '/' | '%') || c.is_ascii_control());
    match text.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None if text.is_empty() => "%2F".to_owned(),
        None => text,
    }
}

/// The folder, or where it would be made.
fn nearest_folder(folder: &Path) -> Result<File, Error> {
    let absolute = std::path::absolute(folder).map_err(|e| Error::io("finding", folder, e))?;
    for ancestor in absolute.ancestors() {
        match fs::canonicalize(ancestor) {
            Ok(found) => return subvolume::open_folder(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("looking at", ancestor, error)),
        }
    }
    subvolume::open_folder(Path::new("/"))
}

fn as_seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_subvolumes_share_a_name() {
        let paths = ["", "a/b", "a-b", "a_b", "a%2Fb", ".snapshots", "%2Esnapshots", "@", "@/x"];
        let names: std::collections::BTreeSet<String> =
            paths.iter().map(|path| series_name(Path::new(path))).collect();
        assert_eq!(names.len(), paths.len());
        assert!(names.iter().all(|name| !name.contains('/') && !name.starts_with('.')));
    }
}
