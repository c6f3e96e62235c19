//! Snapshots of the mounted pools, for the page.

use super::looker::Looker;
use super::names::{parsed, written};
#[cfg(feature = "backup")]
use super::vaults::Vaults;
use braid_control::request::Refusal;
use braid_page::snapshots::{
    ChangeLine, Changes, EntryLine, Folder, Listing, RestorePlan, RestoreWish, SnapshotLine,
    SnapshotPath, Snapshots,
};
use braid_pool::upkeep::SNAPSHOTS;
use braid_replica::Error;
use braid_replica::browse::{Bounds, Kind, Opened, What};
use braid_replica::restore::{Method, Restoration, Restored};
use braid_replica::snapshot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The folders with snapshots.
pub struct Shelves {
    looker: Looker,
    named: Vec<PathBuf>,
    /// Backups, if they are shown.
    #[cfg(feature = "backup")]
    vaults: Option<Vaults>,
}

/// Maximum number of entries on one page.
const MOST: usize = 2000;
/// Maximum number of entries read for it, and the time limit.
const LOOKED_AT: usize = 500_000;
const WITHIN: Duration = Duration::from_secs(20);

impl Shelves {
    /// The snapshot folders of the visible pools, and these.
    pub fn new(looker: Looker, named: Vec<PathBuf>) -> Shelves {
        Shelves {
            looker,
            named,
            #[cfg(feature = "backup")]
            vaults: None,
        }
    }

    /// Adds these backups.
    #[cfg(feature = "backup")]
    pub fn beside(self, vaults: Option<Vaults>) -> Shelves {
        Shelves { vaults, ..self }
    }

    /// The backups, if this is the target of some.
    #[cfg(feature = "backup")]
    fn vaults_with(&self, folder: &str) -> Option<&Vaults> {
        self.vaults.as_ref().filter(|vaults| vaults.knows(folder))
    }

    #[cfg(feature = "backup")]
    fn restore_backup(
        &self,
        vaults: &Vaults,
        wish: &RestoreWish,
        dry_run: bool,
    ) -> Result<RestorePlan, Refusal> {
        let to = PathBuf::from(&wish.to);
        self.must_be_on_a_pool(&to)?;
        vaults.restore(&wish.place, &to, dry_run)
    }

    fn paths(&self) -> Vec<PathBuf> {
        let usual = self.mounts().into_iter().map(|at| at.join(SNAPSHOTS));
        let there = usual.filter(|folder| folder.is_dir());
        let mut paths: Vec<PathBuf> = self.named.iter().cloned().chain(there).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Where pools are mounted.
    fn mounts(&self) -> Vec<PathBuf> {
        let pools = self.looker.look().unwrap_or_default().pools;
        pools.into_iter().filter_map(|pool| pool.mounted_at.map(PathBuf::from)).collect()
    }

    /// Only known folders are read.
    fn folder(&self, asked: &str) -> Result<PathBuf, Refusal> {
        let known = self.paths().into_iter().find(|path| path.to_str() == Some(asked));
        known.ok_or_else(|| {
            Refusal::NotFound("this host doesn't know that folder of snapshots".into())
        })
    }

    fn open(&self, folder: &str, snapshot: &str) -> Result<Opened, Refusal> {
        let name = parsed(snapshot);
        Opened::open(&self.folder(folder)?, name.as_name()).map_err(refusal)
    }

    fn restoration(&self, wish: &RestoreWish) -> Result<Restoration, Refusal> {
        let place = &wish.place;
        let snapshot = self.folder(&place.folder)?.join(parsed(&place.snapshot).as_path());
        let opened = self.open(&place.folder, &place.snapshot)?;
        let path = parsed(&place.path);
        if !place.path.is_empty() {
            opened.is_there(path.as_path()).map_err(refusal)?;
        }
        let from = if place.path.is_empty() { snapshot } else { snapshot.join(path.as_path()) };
        let to = PathBuf::from(&wish.to);
        self.must_be_on_a_pool(&to)?;
        if !wish.replace && to.symlink_metadata().is_ok() {
            let text = format!("{} already exists: choose to move it aside, or name", to.display());
            return Err(Refusal::Invalid(format!("{text} another path")));
        }
        Ok(Restoration { from, to, replace: wish.replace })
    }

    /// An admin of the page isn't root on the host.
    fn must_be_on_a_pool(&self, to: &Path) -> Result<(), Refusal> {
        let parent = to.parent().filter(|_| to.is_absolute() && to.file_name().is_some());
        let invalid = |why: String| Refusal::Invalid(why);
        let parent = parent
            .ok_or_else(|| invalid("give an absolute path, such as /srv/data/letter.txt".into()))?;
        let real = std::fs::canonicalize(parent)
            .map_err(|error| invalid(format!("{}: {error}", parent.display())))?;
        let on_pool = self.mounts().iter().any(|at| real.starts_with(at));
        let snapshots = self.paths();
        match on_pool && !snapshots.iter().any(|folder| real.starts_with(folder)) {
            true => Ok(()),
            false => Err(invalid(format!(
                "{} is not on a mounted pool, or is inside its snapshots; use `braid pool restore` \
                 for other places",
                real.display()
            ))),
        }
    }
}

impl Snapshots for Shelves {
    fn folders(&self) -> Vec<Folder> {
        let folder = |path: PathBuf| {
            let (snapshots, trouble) = match snapshot::list(&path) {
                Ok(found) => (found.iter().map(line).collect(), None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            Folder { path: path.display().to_string(), snapshots, trouble }
        };
        self.paths().into_iter().map(folder).collect()
    }

    #[cfg(feature = "backup")]
    fn targets(&self) -> Vec<String> {
        self.vaults.as_ref().map_or_else(Vec::new, Vaults::targets)
    }

    #[cfg(feature = "backup")]
    fn target(&self, target: &str) -> Result<Folder, Refusal> {
        let vaults = self.vaults_with(target);
        let unknown = || Refusal::NotFound("this host doesn't know that target".into());
        vaults.ok_or_else(unknown)?.target(target)
    }

    fn entries(&self, place: &SnapshotPath) -> Result<Listing, Refusal> {
        #[cfg(feature = "backup")]
        if let Some(vaults) = self.vaults_with(&place.folder) {
            return vaults.entries(place);
        }
        let opened = self.open(&place.folder, &place.snapshot)?;
        let found = opened.entries(parsed(&place.path).as_path(), &bounds()).map_err(refusal)?;
        let entry = |one: &braid_replica::browse::Entry| EntryLine {
            name: written(&one.name),
            shown: one.name.to_string(),
            kind: word(one.kind),
            bytes: (one.kind == Kind::File).then_some(one.bytes),
            modified_unix: one.modified_unix,
        };
        Ok(Listing { entries: found.items.iter().map(entry).collect(), cut_short: found.cut_short })
    }

    fn file(&self, place: &SnapshotPath) -> Result<(File, u64), Refusal> {
        #[cfg(feature = "backup")]
        if let Some(vaults) = self.vaults_with(&place.folder) {
            return vaults.file(place);
        }
        let opened = self.open(&place.folder, &place.snapshot)?;
        opened.file(parsed(&place.path).as_path()).map_err(refusal)
    }

    fn changes(&self, folder: &str, older: &str, newer: &str) -> Result<Changes, Refusal> {
        let (older, newer) = (self.open(folder, older)?, self.open(folder, newer)?);
        let found = newer.changes_since(&older, &bounds()).map_err(refusal)?;
        let change = |one: &braid_replica::browse::Change| ChangeLine {
            path: written(&one.path),
            shown: one.path.to_string(),
            what: match one.what {
                What::Added => "added",
                What::Removed => "removed",
                What::Content => "changed",
                What::Permissions => "permissions",
            },
            kind: word(one.kind),
            bytes: (one.kind == Kind::File).then_some(one.bytes),
        };
        Ok(Changes {
            changes: found.items.iter().map(change).collect(),
            cut_short: found.cut_short,
        })
    }

    fn plan_restore(&self, wish: &RestoreWish) -> Result<RestorePlan, Refusal> {
        #[cfg(feature = "backup")]
        if let Some(vaults) = self.vaults_with(&wish.place.folder) {
            return self.restore_backup(vaults, wish, true);
        }
        let restoration = self.restoration(wish)?;
        restoration.plan(SystemTime::now()).map(plan).map_err(refusal)
    }

    fn restore(&self, wish: &RestoreWish) -> Result<RestorePlan, Refusal> {
        #[cfg(feature = "backup")]
        if let Some(vaults) = self.vaults_with(&wish.place.folder) {
            let done = self.restore_backup(vaults, wish, false)?;
            tracing::info!(from = %wish.place.folder, to = %done.to, "restored by the page");
            return Ok(done);
        }
        let restoration = self.restoration(wish)?;
        let done = restoration.carry_out(SystemTime::now()).map_err(refusal)?;
        tracing::info!(from = %restoration.from.display(), to = %done.to, "restored by the page");
        Ok(plan(done))
    }
}

fn bounds() -> Bounds {
    Bounds { most: MOST, looked_at: LOOKED_AT, until: Instant::now() + WITHIN }
}

fn plan(restored: Restored) -> RestorePlan {
    RestorePlan {
        to: restored.to.to_string(),
        way: match restored.method {
            Method::Subvolume => "a writable subvolume",
            Method::Streams => "a writable subvolume, made of stored streams,",
            Method::CopiedSubvolume => "a writable subvolume, with a copy in it",
            Method::Copy => "a copy",
        },
        moved_aside: restored.moved_aside.map(|aside| aside.to_string()),
    }
}

fn line(one: &snapshot::Present) -> SnapshotLine {
    SnapshotLine {
        name: written(&one.name),
        shown: one.name.to_string(),
        series: one.series.to_string(),
        taken_unix: i64::try_from(one.taken.as_secs()).unwrap_or(i64::MAX),
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Folder => "folder",
        Kind::File => "file",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Refused(why) => Refusal::Invalid(why),
        error => Refusal::Failed(error.to_string()),
    }
}
