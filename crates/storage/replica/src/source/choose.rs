use crate::archive;
use crate::error::Error;
use crate::folder::{Snapshot, snapshots_in};
use crate::shown::shown;
use crate::subvolume::{self, Subvolume};
use crate::wire::Entry;
use crate::wire::Selection;
use braid_pool::uuid::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a selection means.
pub struct Choice {
    /// The folder that holds the snapshots.
    pub folder: PathBuf,
    /// Those that are meant, oldest first.
    pub wanted: Vec<Snapshot>,
    /// All in the folder: among them are the parents.
    pub nearby: Vec<Snapshot>,
}

/// Resolves the selection.
///
/// # Errors
/// There is no snapshot, or a subvolume that isn't read-only.
pub fn chosen(selection: &Selection) -> Result<Choice, Error> {
    let path = selection.path.as_path();
    // A stored stream may be named without its suffix: then nothing has that name.
    let Ok(found) = std::fs::canonicalize(path) else {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(none(path));
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        return named(folder, name);
    };
    match (found.parent(), found.file_name()) {
        (Some(folder), Some(name)) if is_snapshot(&found) || !found.is_dir() => named(folder, name),
        _ => all(&found, selection.newest),
    }
}

/// The snapshot or stored stream of this name in a folder. A snapshot counts as one, whatever is in
/// it.
pub(crate) fn named(folder: &Path, name: &OsStr) -> Result<Choice, Error> {
    let path = folder.join(name);
    if is_snapshot(&path) {
        let (_, about) = subvolume::open(&path)?;
        let wanted = vec![Snapshot { name: name.to_owned(), path, about, stored: None }];
        return Ok(Choice { folder: folder.to_owned(), wanted, nearby: all_in(folder)? });
    }
    match archive::entry_named(folder, name) {
        Some(entry) => stored(folder.to_owned(), Some(&[entry.uuid()])),
        None => {
            std::fs::symlink_metadata(&path).map_err(|e| Error::io("looking at", &path, e))?;
            Err(none(&path))
        }
    }
}

/// All snapshots or stored streams in a folder, or of each series the newest.
pub(crate) fn all(folder: &Path, newest: bool) -> Result<Choice, Error> {
    if archive::is_archive(folder) {
        return newest_stored(folder.to_owned(), newest);
    }
    let nearby = all_in(folder)?;
    if nearby.is_empty() {
        return Err(none(folder));
    }
    let wanted = if newest { newest_of_each(&nearby) } else { nearby.clone() };
    Ok(Choice { folder: folder.to_owned(), wanted, nearby })
}

fn is_snapshot(path: &Path) -> bool {
    subvolume::open(path).is_ok_and(|(_, about)| about.read_only)
}

/// Stored streams, with all that they build on; all of the folder if none are named.
pub(crate) fn stored(folder: PathBuf, named: Option<&[Uuid]>) -> Result<Choice, Error> {
    let entries = archive::entries(&folder)?;
    let mut needed = BTreeSet::new();
    for uuid in named.unwrap_or(&entries.iter().map(Entry::uuid).collect::<Vec<_>>()) {
        needed.extend(archive::with_bases(&entries, *uuid)?.iter().map(Entry::uuid));
    }
    let nearby: Vec<Snapshot> = entries.iter().map(|entry| entry.as_snapshot(&folder)).collect();
    let is_needed = |snapshot: &&Snapshot| needed.contains(&snapshot.uuid());
    let wanted = nearby.iter().filter(is_needed).cloned().collect();
    Ok(Choice { folder, wanted, nearby })
}

fn newest_stored(folder: PathBuf, newest: bool) -> Result<Choice, Error> {
    if !newest {
        return stored(folder, None);
    }
    let mut all = stored(folder.clone(), None)?.nearby;
    all.sort_by_key(|snapshot| snapshot.about.made_in);
    let named: Vec<Uuid> = newest_of_each(&all).iter().map(Snapshot::uuid).collect();
    stored(folder, Some(&named))
}

fn none(path: &Path) -> Error {
    Error::Refused(format!(
        "{} is no read-only snapshot and holds none; make one: braid pool snapshot",
        shown(path).display()
    ))
}

fn all_in(folder: &Path) -> Result<Vec<Snapshot>, Error> {
    let found = snapshots_in(folder)?;
    let with_path = |(name, about): (OsString, Subvolume)| {
        let path = folder.join(&name);
        Snapshot { name, path, about, stored: None }
    };
    Ok(found.into_iter().map(with_path).collect())
}

/// The snapshots of one subvolume share their name up to the last dot: what
/// follows is when they were made.
pub fn series_of(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    let dot = bytes.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
    OsStr::from_bytes(dot.and_then(|at| bytes.get(..at)).unwrap_or(bytes))
}

fn newest_of_each(oldest_first: &[Snapshot]) -> Vec<Snapshot> {
    let mut newest = BTreeMap::new();
    for snapshot in oldest_first {
        newest.insert(series_of(&snapshot.name), snapshot);
    }
    let mut newest: Vec<Snapshot> = newest.into_values().cloned().collect();
    newest.sort_by_key(|snapshot| snapshot.about.made_in);
    newest
}

/// The snapshot of the same subvolume, which the sink has too, that differs
/// least: the newest before it, or else the oldest after it.
pub(super) fn parent_for<'a>(
    snapshot: &Snapshot,
    nearby: &'a [Snapshot],
    is_there: impl Fn(&Snapshot) -> bool,
) -> Option<&'a Snapshot> {
    let related = nearby.iter().filter(|other| {
        other.about.uuid != snapshot.about.uuid && are_related(snapshot, other) && is_there(other)
    });
    let (before, after): (Vec<_>, Vec<_>) =
        related.partition(|other| other.about.made_in <= snapshot.about.made_in);
    before
        .into_iter()
        .max_by_key(|other| other.about.made_in)
        .or_else(|| after.into_iter().min_by_key(|other| other.about.made_in))
}

fn are_related(one: &Snapshot, other: &Snapshot) -> bool {
    let (a, b) = (&one.about, &other.about);
    (a.parent_uuid.is_some() && a.parent_uuid == b.parent_uuid)
        || a.parent_uuid == Some(b.uuid)
        || b.parent_uuid == Some(a.uuid)
        || series_of(&one.name) == series_of(&other.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn snapshot(name: &str, number: u8, of: u8, made_in: u64) -> Snapshot {
        let about = Subvolume {
            id: u64::from(number) + 256,
            parent_id: 5,
            name: name.into(),
            read_only: true,
            uuid: Uuid::from_bytes([number; 16]),
            parent_uuid: Some(Uuid::from_bytes([of; 16])),
            received_uuid: None,
            changed_in: made_in,
            made_in,
            sent_in: 0,
            made_at: SystemTime::UNIX_EPOCH,
        };
        Snapshot { name: name.into(), path: name.into(), about, stored: None }
    }

    #[test]
    fn the_parent_is_the_nearest_of_the_same_subvolume_that_both_have() {
        let all = [
            snapshot("home.1", 1, 100, 10),
            snapshot("home.2", 2, 100, 20),
            snapshot("root.3", 3, 101, 25),
            snapshot("home.4", 4, 100, 40),
        ];
        let new = snapshot("home.5", 5, 100, 30);
        let name = |found: Option<&Snapshot>| found.map(|s| s.name.clone().into_string().unwrap());
        assert_eq!(name(parent_for(&new, &all, |_| true)).as_deref(), Some("home.2"));
        let has_only =
            |names: &'static [&str]| move |s: &Snapshot| names.iter().any(|name| s.name == *name);
        assert_eq!(
            name(parent_for(&new, &all, has_only(&["home.4", "root.3"]))).as_deref(),
            Some("home.4")
        );
        assert_eq!(name(parent_for(&new, &all, has_only(&["root.3"]))), None);
    }

    #[test]
    fn a_series_is_the_name_without_its_time() {
        assert_eq!(series_of(OsStr::new("@home.20261121T235646Z")), "@home");
        assert_eq!(series_of(OsStr::new("my data.20261121T235646Z")), "my data");
        assert_eq!(series_of(OsStr::new("plain")), "plain");
        assert_eq!(series_of(OsStr::new(".hidden")), ".hidden");
    }
}
