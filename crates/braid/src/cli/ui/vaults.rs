//! Backups at the targets that this computer knows, for the page.

use super::names::{parsed, written};
use braid_backup::key::{self, Key};
use braid_backup::records::Records;
use braid_backup::secrets::Secrets;
use braid_backup::{Entry, Error, Present, Restoration, TargetOptions, Vault, short_id};
use braid_control::request::Refusal;
use braid_page::snapshots::{EntryLine, Folder, Listing, RestorePlan, SnapshotLine, SnapshotPath};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The known targets.
pub struct Vaults {
    records: Records,
    cache: PathBuf,
    /// Used instead of the key with which the target was last opened.
    key: Option<PathBuf>,
    credentials: Option<PathBuf>,
    /// Opened targets: opening one takes a third of a second and 128 MB.
    opened: Mutex<BTreeMap<String, Arc<Vault>>>,
}

/// A page's reader waits for one retry at most.
const RETRIES: u32 = 1;
/// Maximum number of entries on one page.
const MOST: usize = 2000;
/// Where a downloaded file is stored, without a name.
const MEANWHILE: &str = "/var/tmp";

impl Vaults {
    /// The targets recorded in this folder, opened with this key or the one each was last used
    /// with.
    pub fn new(folder: &Path, key: Option<PathBuf>, credentials: Option<PathBuf>) -> Vaults {
        let (records, cache) = (Records::new(folder), folder.join("cache"));
        Vaults { records, cache, key, credentials, opened: Mutex::default() }
    }

    /// The targets as text.
    pub fn targets(&self) -> Vec<String> {
        let (all, _) = self.records.all().unwrap_or_default();
        all.into_iter().map(|record| record.target).collect()
    }

    fn key_of(&self, target: &str) -> Option<PathBuf> {
        let (all, _) = self.records.all().ok()?;
        all.into_iter().find(|record| record.target == target)?.key
    }

    /// Whether the target is known; only those are contacted.
    pub fn knows(&self, target: &str) -> bool {
        self.targets().iter().any(|known| known == target)
    }

    /// The backups at a target.
    pub fn target(&self, target: &str) -> Result<Folder, Refusal> {
        let backups = self.with(target, Vault::backups)?;
        let path = target.to_owned();
        Ok(Folder { path, snapshots: backups.iter().map(line).collect(), trouble: None })
    }

    /// The contents of a folder in a backup.
    pub fn entries(&self, place: &SnapshotPath) -> Result<Listing, Refusal> {
        let inside = inside(place);
        // The root has an empty name there.
        let path = if place.path.is_empty() { Path::new("") } else { &inside };
        let mut entries =
            self.with(&place.folder, |vault| vault.entries(&place.snapshot, path, false))?;
        let cut_short = entries.len() > MOST;
        entries.truncate(MOST);
        entries.sort_by_key(|one| (one.kind != "dir", one.path.clone()));
        Ok(Listing { entries: entries.iter().map(entry).collect(), cut_short })
    }

    /// A file in a backup, fetched completely before this returns.
    pub fn file(&self, place: &SnapshotPath) -> Result<(File, u64), Refusal> {
        let failed = |doing: &str, error: std::io::Error| {
            Refusal::Failed(format!("{doing} in {MEANWHILE}: {error}"))
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(MEANWHILE, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed("making a file", error.into()))?;
        let mut file = File::from(file);
        let bytes = self
            .with(&place.folder, |vault| vault.fetch(&place.snapshot, &inside(place), &mut file))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| failed("reading a file", error))?;
        Ok((file, bytes))
    }

    /// Restores something, or checks whether that is possible.
    pub fn restore(
        &self,
        place: &SnapshotPath,
        to: &Path,
        dry_run: bool,
    ) -> Result<RestorePlan, Refusal> {
        if to.symlink_metadata().is_ok() {
            let text =
                format!("{} already exists: backups are restored to a new path", to.display());
            return Err(Refusal::Invalid(text));
        }
        let path = if place.path.is_empty() { None } else { Some(inside(place)) };
        let which = place.snapshot.clone();
        let restored = self.with(&place.folder, |vault| {
            Restoration { vault, which, path, to: to.to_owned(), dry_run, warn: &|_| {} }.run()
        })?;
        if let Some(first) = restored.lost.first() {
            return Err(Refusal::Failed(format!(
                "{} files couldn't be restored, such as {}: their data at the target is missing or \
                 damaged; the rest is at {}",
                restored.lost.len(),
                first.display(),
                to.display()
            )));
        }
        Ok(RestorePlan { to: to.display().to_string(), way: "a copy", moved_aside: None })
    }

    fn with<T>(
        &self,
        target: &str,
        what: impl FnOnce(&Vault) -> Result<T, Error>,
    ) -> Result<T, Refusal> {
        let vault = self.open(target)?;
        what(&vault).map_err(|error| {
            // A target that failed doesn't recover; it is reopened.
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(target);
            refusal(&error)
        })
    }

    fn open(&self, target: &str) -> Result<Arc<Vault>, Refusal> {
        if !self.knows(target) {
            return Err(Refusal::NotFound("this host doesn't know that target".into()));
        }
        let opened =
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(target).cloned();
        if let Some(opened) = opened {
            return Ok(opened);
        }
        let place =
            target.parse().map_err(|error| Refusal::Failed(format!("{target}: {error}")))?;
        let target_options = TargetOptions {
            retries: RETRIES,
            cache: Some(self.cache.clone()),
            ..TargetOptions::new(Secrets::at(self.credentials.as_deref()))
        };
        let file = self.key.clone().or_else(|| self.key_of(target));
        let file = file.unwrap_or_else(|| key::DEFAULT.into());
        let vault = Key::read(&file).and_then(|key| Vault::open(place, key, target_options));
        let vault = Arc::new(vault.map_err(|error| refusal(&error))?);
        let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(target.to_owned(), Arc::clone(&vault));
        Ok(vault)
    }
}

/// Paths in a backup are absolute.
fn inside(place: &SnapshotPath) -> PathBuf {
    let path = parsed(&place.path);
    Path::new("/").join(path.as_path())
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Refused(why) => Refusal::Invalid(why.clone()),
        other => Refusal::Failed(other.to_string()),
    }
}

fn line(one: &Present) -> SnapshotLine {
    let paths: Vec<String> = one.paths.iter().map(|path| path.display().to_string()).collect();
    let id = short_id(&one.id);
    SnapshotLine {
        name: one.id.clone(),
        shown: if one.incomplete { format!("{id}, incomplete") } else { id.to_owned() },
        series: format!("{}:{}", one.host, paths.join(", ")),
        taken_unix: i64::try_from(one.taken.as_secs()).unwrap_or(i64::MAX),
    }
}

fn entry(one: &Entry) -> EntryLine {
    let name = one.path.file_name().unwrap_or(one.path.as_os_str()).to_owned();
    let exact = braid_replica::exact_path::ExactPath::from(name);
    EntryLine {
        name: written(&exact),
        shown: exact.to_string(),
        kind: match one.kind.as_str() {
            "dir" => "folder",
            "file" => "file",
            "symlink" => "link",
            _ => "other",
        },
        bytes: (one.kind == "file").then_some(one.bytes),
        modified_unix: one.changed_s.unwrap_or(0),
    }
}
