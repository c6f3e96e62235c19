//! The backups at a target, and which of them a word means.

use super::Vault;
use crate::Error;
use crate::chosen::{self, Series};
use crate::error::one_line;
use braid_pool::step::quoted;
use rustic_core::repofile::SnapshotFile;
use rustic_core::{IndexedFull, Open, Repository};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A snapshot's tag that says that something could not be read.
pub(crate) const INCOMPLETE: &str = "incomplete";

/// The newest backup of one computer and path.
const LATEST: &str = "latest";

/// A backup that is there.
#[derive(Clone, Debug, Serialize)]
pub struct Present {
    /// Its id.
    pub id: String,
    /// When it was made, since the Unix epoch.
    #[serde(rename = "taken_s", serialize_with = "as_seconds")]
    pub taken: Duration,
    /// The computer.
    pub host: String,
    /// What was backed up.
    pub paths: Vec<PathBuf>,
    /// Total size of its files in bytes, if recorded.
    pub bytes: Option<u64>,
    /// How many files it has, if recorded.
    pub files: Option<u64>,
    /// Something could not be read when it was made.
    pub incomplete: bool,
}

impl Vault {
    /// The backups in it, oldest first.
    ///
    /// # Errors
    /// They can't be read.
    pub fn backups(&self) -> Result<Vec<Present>, Error> {
        self.backups_in(&self.repository(true)?)
    }

    fn backups_in<S: Open>(&self, repository: &Repository<S>) -> Result<Vec<Present>, Error> {
        let snapshots = self.told(repository.get_all_snapshots())?;
        let mut all: Vec<Present> = snapshots.iter().map(present).collect();
        all.sort_by(|a, b| (a.taken, &a.id).cmp(&(b.taken, &b.id)));
        Ok(all)
    }

    /// The backups with this id or id prefix; for `latest` the newest of each computer and path.
    pub(crate) fn snapshots<S: IndexedFull>(
        &self,
        repository: &Repository<S>,
        which: &str,
    ) -> Result<Vec<SnapshotFile>, Error> {
        if which != LATEST {
            return Ok(vec![self.snapshot(repository, which, None)?]);
        }
        let all = self.series(repository)?;
        if all.is_empty() {
            return Err(self.no_backup(which, "it has none yet"));
        }
        all.iter().map(|one| self.snapshot(repository, &one.newest, None)).collect()
    }

    /// The backup of this id, its beginning, or `latest`: the newest that holds the path.
    pub(crate) fn snapshot<S: IndexedFull>(
        &self,
        repository: &Repository<S>,
        which: &str,
        path: Option<&Path>,
    ) -> Result<SnapshotFile, Error> {
        let series = match which.starts_with(LATEST) {
            true => Some(self.one_series(repository, which, path)?),
            false => None,
        };
        let found = repository.get_snapshot_from_str(which, |snapshot| {
            series.as_ref().is_none_or(|one| one.has(&snapshot.hostname, &paths_of(snapshot)))
        });
        found.map_err(|error| {
            self.courier.failure().unwrap_or_else(|| self.no_backup(which, &one_line(&error)))
        })
    }

    fn series<S: Open>(&self, repository: &Repository<S>) -> Result<Vec<Series>, Error> {
        let backups = self.backups_in(repository)?.into_iter();
        Ok(chosen::series(backups.map(|one| Series {
            host: one.host,
            paths: one.paths,
            newest: one.id,
        })))
    }

    /// Of what `latest` is.
    fn one_series<S: Open>(
        &self,
        repository: &Repository<S>,
        which: &str,
        path: Option<&Path>,
    ) -> Result<Series, Error> {
        let mut series = chosen::holding(self.series(repository)?, path);
        match (series.pop(), path) {
            (Some(one), _) if series.is_empty() => Ok(one),
            (Some(one), _) => {
                series.push(one);
                Err(Error::Several { target: self.target.shown(), series })
            }
            (None, Some(path)) if path.components().count() > 1 => {
                let list = format!("braid pool backup list {}", quoted(&self.target.shown()));
                let path = path.display();
                Err(Error::Refused(format!("{path} isn't in any backup: `{list}` has the paths")))
            }
            (None, _) => Err(self.no_backup(which, "it has none yet")),
        }
    }

    fn no_backup(&self, which: &str, said: &str) -> Error {
        let target = self.target.shown();
        let list = format!("braid pool backup list {}", quoted(&target));
        Error::Refused(format!("no backup {which} at {target}: `{list}`; {said}"))
    }
}

/// As it is told and asked for.
pub(crate) fn snapshot_id(snapshot: &SnapshotFile) -> String {
    snapshot.id.to_hex().as_str().to_owned()
}

pub(crate) fn paths_of(snapshot: &SnapshotFile) -> Vec<PathBuf> {
    snapshot.paths.iter().map(PathBuf::from).collect()
}

/// The path that was backed up; the root where restic backed up several at once.
pub(crate) fn root_of(snapshot: &SnapshotFile) -> PathBuf {
    match paths_of(snapshot).as_slice() {
        [one] => one.clone(),
        _ => PathBuf::from("/"),
    }
}

pub(crate) fn present(snapshot: &SnapshotFile) -> Present {
    let since = snapshot.time.timestamp().as_duration();
    Present {
        id: snapshot_id(snapshot),
        taken: Duration::try_from(since).unwrap_or_default(),
        host: snapshot.hostname.clone(),
        paths: paths_of(snapshot),
        bytes: snapshot.summary.as_ref().map(|summary| summary.total_bytes_processed),
        files: snapshot.summary.as_ref().map(|summary| summary.total_files_processed),
        incomplete: is_incomplete(snapshot),
    }
}

pub(crate) fn is_incomplete(snapshot: &SnapshotFile) -> bool {
    snapshot.tags.contains(INCOMPLETE)
}

fn as_seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_secs())
}
