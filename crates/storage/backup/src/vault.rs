//! An open target: lists its backups, checks them, and removes old ones.

use crate::Error;
use crate::chosen::{self, Series};
use crate::courier::Courier;
use crate::error::one_line;
use crate::heard;
use crate::key::Key;
use crate::quiet::caught;
use crate::short_id::short_id;
use crate::store::Name;
use crate::target::{LONGEST_BEHIND, Target};
use crate::target_options::TargetOptions;
use braid_pool::retention::{self, Caution, Fate, Policy, Reason};
use braid_pool::step::quoted;
use jiff::SignedDuration;
use rustic_core::repofile::{MasterKey, Node, NodeType, SnapshotFile};
use rustic_core::{
    CheckOptions, ConfigOptions, Credentials, FileType, IndexedFull, KeyOptions, LsOptions, Open,
    OpenStatus, PruneOptions, ReadBackend, ReadSubsetOption, Repository, RepositoryBackends,
    RepositoryOptions, RusticError,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A snapshot's tag that says that something could not be read.
pub(crate) const INCOMPLETE: &str = "incomplete";

/// The newest backup of one computer and path.
const LATEST: &str = "latest";

/// A target that is prepared and open.
pub struct Vault {
    target: Target,
    key: Key,
    target_options: TargetOptions,
    courier: Courier,
    /// The key of the repository, kept since deriving it costs a third of a second and 128 MB.
    opened: OnceLock<MasterKey>,
    /// When it was opened.
    since: Instant,
}

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

/// A file or folder in a backup.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Where it is, in what was looked at.
    #[serde(serialize_with = "as_shown")]
    pub path: PathBuf,
    /// `file`, `dir`, `symlink`, …
    pub kind: String,
    /// A file's.
    pub bytes: u64,
    /// When it was changed, since the Unix epoch.
    pub changed_s: Option<i64>,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// How much of the data was read, percent.
    pub read_percent: f64,
    /// What is wrong; empty if nothing is.
    pub errors: Vec<String>,
    /// The damaged packs, by the beginning of their names.
    pub damaged_packs: BTreeSet<String>,
    /// Harmless oddities.
    pub remarks: Vec<String>,
}

/// What becomes of one backup by a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Forgotten {
    /// Which.
    #[serde(flatten)]
    pub backup: Present,
    /// Whether it stays.
    pub keep: bool,
    /// Why.
    pub because: Vec<Reason>,
}

impl Vault {
    /// Opens what is there.
    ///
    /// # Errors
    /// Nothing is there, the key is another's, or the target can't be reached.
    pub fn open(target: Target, key: Key, target_options: TargetOptions) -> Result<Vault, Error> {
        let vault = Vault::with(target, key, target_options)?;
        vault.repository(false)?;
        Ok(vault)
    }

    fn with(target: Target, key: Key, target_options: TargetOptions) -> Result<Vault, Error> {
        let courier = Courier::new(&target, &target_options)?;
        let (opened, since) = (OnceLock::new(), Instant::now());
        Ok(Vault { target, key, target_options, courier, opened, since })
    }

    /// Prepares a target where nothing is; opens what is there already with this key.
    ///
    /// # Errors
    /// Something is there that this key doesn't open, or it can't be written.
    pub fn create(
        target: Target,
        key: Key,
        target_options: TargetOptions,
    ) -> Result<(Vault, bool), Error> {
        let vault = Vault::with(target, key, target_options)?;
        if vault.is_prepared()? {
            vault.repository(false)?;
            return Ok((vault, false));
        }
        if let Target::Folder(path) = &vault.target {
            let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            if entries.any(|entry| entry.file_name() != "lost+found") {
                return Err(Error::Refused(format!(
                    "{} isn't empty, and holds no backups: name a folder of their own",
                    path.display()
                )));
            }
        }
        let options = ConfigOptions::default();
        if vault.target_options.lock.is_some() {
            vault.courier.prepare()?;
            vault.courier.check_lock()?;
        }
        let repository = vault.told(vault.bare())?;
        let credentials = Credentials::password(vault.key.reveal());
        let made =
            repository.init(&credentials, &KeyOptions::default().with_created(true), &options);
        vault.told(made)?;
        vault.repository(false)?;
        Ok((vault, true))
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What opens it.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The backups in it, oldest first.
    ///
    /// # Errors
    /// They can't be read.
    pub fn backups(&self) -> Result<Vec<Present>, Error> {
        self.backups_in(&self.repository(true)?)
    }

    /// What is in a folder of a backup; `which` is an id, its beginning, or `latest`, which is that
    /// of the folder.
    ///
    /// # Errors
    /// There is none such.
    pub fn entries(&self, which: &str, path: &Path, recursive: bool) -> Result<Vec<Entry>, Error> {
        let repository = self.told(self.repository(true)?.to_indexed())?;
        let snapshot = self.snapshot(&repository, which, Some(path))?;
        let node = self.node(&repository, &snapshot, path)?;
        let options = LsOptions::default().recursive(recursive);
        let listed = self.told(repository.ls(&node, &options))?;
        listed
            .map(|one| {
                let (path, node) = self.told(one)?;
                Ok(entry(path, &node))
            })
            .collect()
    }

    /// Writes a file of a backup; how long it is.
    ///
    /// # Errors
    /// There is none such, it comes damaged, or `into` can't be written.
    pub fn fetch(&self, which: &str, path: &Path, into: &mut impl Write) -> Result<u64, Error> {
        let repository = self.told(self.repository(true)?.to_indexed())?;
        let snapshot = self.snapshot(&repository, which, Some(path))?;
        let node = self.node(&repository, &snapshot, path)?;
        if !node.is_file() {
            return Err(Error::Refused(format!("{} is no file in the backup", path.display())));
        }
        match caught(|| repository.dump(&node, into)) {
            Ok(dumped) => self.told(dumped)?,
            Err(said) => return Err(self.courier.error_of(said)),
        }
        Ok(node.meta.size)
    }

    /// Checks that everything the backups need is there; reads a random `percent` of the data and
    /// verifies its digests.
    ///
    /// # Errors
    /// The target can't be reached; what is wrong in it is in the report.
    pub fn check(&self, percent: f64) -> Result<CheckReport, Error> {
        let heard = heard::listen();
        let repository = self.repository(false)?;
        let subset = match percent >= 100.0 {
            true => ReadSubsetOption::All,
            false => ReadSubsetOption::Percentage(percent),
        };
        let options = CheckOptions::default().read_data(percent > 0.0).read_data_subset(subset);
        let (_, listed) = self.lost_of(&self.named_packs(&repository)?)?;
        self.courier.take_for_listed(Some(listed.into_iter().collect()));
        let checked = caught(|| repository.check(options));
        self.courier.take_for_listed(None);
        if let Some(failure) = self.courier.failure() {
            return Err(failure);
        }
        let results = match checked {
            Ok(results) => self.told(results)?,
            Err(said) => return Err(self.courier.error_of(said)),
        };
        drop(heard);
        let mut report = CheckReport {
            read_percent: percent.clamp(0.0, 100.0),
            errors: vec![],
            damaged_packs: BTreeSet::new(),
            remarks: vec![],
        };
        for (level, finding) in &results.0 {
            let text = finding.to_string();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // By a program that may not be here; the next backup does so.
            let text = text.split_once(" To repair:").map_or(text.as_str(), |(what, _)| what);
            let text = text.to_owned();
            // The level has no name outside of the library.
            match format!("{level:?}") == "Error" {
                true => {
                    report.damaged_packs.extend(pack_in(&text));
                    report.errors.push(text);
                }
                false => report.remarks.push(text),
            }
        }
        Ok(report)
    }

    /// What the policy decides for each backup, newest first. Each computer and path is counted
    /// separately.
    ///
    /// # Errors
    /// They can't be read.
    pub fn judge(&self, policy: &Policy, now: Duration) -> Result<Vec<Forgotten>, Error> {
        let mut series: BTreeMap<(String, Vec<PathBuf>), Vec<Present>> = BTreeMap::new();
        for one in self.backups()? {
            series.entry((one.host.clone(), one.paths.clone())).or_default().push(one);
        }
        let mut all = vec![];
        for of_series in series.values() {
            // One that lacks something doesn't push out one that is whole.
            let whole = of_series.iter().any(|one| !one.incomplete);
            let counted = of_series.iter().filter(|one| !whole || !one.incomplete);
            let snapshots: Vec<retention::Snapshot> = counted
                .map(|one| retention::Snapshot { name: one.id.clone(), taken: one.taken })
                .collect();
            let decisions = retention::select(policy, &snapshots, &[], now);
            for one in of_series.iter().rev() {
                let decision = decisions.iter().find(|decision| decision.snapshot == one.id);
                let (keep, because) = match decision {
                    Some(decision) => (decision.keep, decision.because.clone()),
                    None => self.fate_of_incomplete(one, &decisions, of_series),
                };
                all.push(Forgotten { backup: one.clone(), keep, because });
            }
        }
        Ok(all)
    }

    /// An incomplete backup stays until a newer one is complete.
    fn fate_of_incomplete(
        &self,
        one: &Present,
        decisions: &[retention::Decision],
        of_series: &[Present],
    ) -> (bool, Vec<Reason>) {
        let newer_whole =
            of_series.iter().any(|other| !other.incomplete && other.taken > one.taken);
        match newer_whole {
            true => (false, vec![Reason::TooOld]),
            false => (true, decisions.first().map_or(vec![], |_| vec![Reason::Newest])),
        }
    }

    /// What is to be told before that is carried out.
    pub fn cautions(all: &[Forgotten], is_known: bool, now: Duration) -> Vec<Caution> {
        let mut series: BTreeMap<(&str, &[PathBuf]), Vec<Fate<'_>>> = BTreeMap::new();
        for one in all {
            let key = (one.backup.host.as_str(), one.backup.paths.as_slice());
            series.entry(key).or_default().push(Fate {
                snapshot: &one.backup.id,
                taken: one.backup.taken,
                keep: one.keep,
            });
        }
        series.values().filter_map(|fates| retention::caution(fates, is_known, now)).collect()
    }

    /// Deletes the backups that don't stay, then data that nothing refers to any more; returns how
    /// many backups went. `made_here` are backups that this computer knows of: a list that lacks
    /// one is out of date, and the data of unlisted backups would be taken for unused.
    ///
    /// # Errors
    /// The target lets nothing be removed, or can't be reached; or its lists aren't whole.
    pub fn forget(&self, all: &[Forgotten], made_here: &[&str]) -> Result<usize, Error> {
        let going: Vec<&str> =
            all.iter().filter(|one| !one.keep).map(|one| one.backup.id.as_str()).collect();
        let repository = self.repository(true)?;
        self.courier.tidy();
        let ids =
            going.iter().map(|id| self.told(id.parse())).collect::<Result<Vec<_>, Error>>()?;
        self.refuse_lists_without(made_here)?;
        // Packs are only marked now, and removed by a later run: another computer's backup that
        // isn't listed yet may be using them.
        let mut options = PruneOptions::default();
        let longest = jiff::Span::new().hours(LONGEST_BEHIND.as_secs() as i64 / 3600);
        options.keep_pack = longest;
        // Until lists have such a backup, which then takes them back.
        options.keep_delete = longest;
        options.ignore_snaps.clone_from(&ids);
        let plan = repository.prune_plan(&options).map_err(|error| {
            let what = one_line(&error);
            self.courier.failure().unwrap_or_else(|| self.are_behind(&what))
        })?;
        if !ids.is_empty() {
            self.told(repository.delete_snapshots(&ids))?;
        }
        let pruned = caught(|| repository.prune(&options, plan));
        match pruned {
            Ok(pruned) => self.told(pruned)?,
            Err(said) => return Err(self.courier.error_of(said)),
        }
        Ok(going.len())
    }

    /// Each of these is listed, or is gone.
    fn refuse_lists_without(&self, made_here: &[&str]) -> Result<(), Error> {
        let listed = self.told(self.courier.list_with_size(FileType::Snapshot))?;
        let listed: BTreeSet<String> =
            listed.iter().map(|(id, _)| id.to_hex().as_str().to_owned()).collect();
        for id in made_here.iter().filter(|id| !listed.contains(**id)) {
            let name = Name::new(FileType::Snapshot, &self.told(id.parse())?);
            if self.courier.part(&name, 0..1)?.is_some() {
                return Err(self.are_behind(&format!("the backup {} isn't listed", short_id(id))));
            }
        }
        Ok(())
    }

    pub(crate) fn are_behind(&self, what: &str) -> Error {
        let what = format!(
            "nothing was removed: {what}; its lists may be behind: try again later, and where it \
             stays so `braid pool backup check` tells more"
        );
        Error::Target { target: self.target.shown(), what }
    }

    pub(crate) fn courier(&self) -> &Courier {
        &self.courier
    }

    /// Whether the target can lock what it has.
    ///
    /// # Errors
    /// It can't, or can't be asked.
    pub fn check_lock(&self) -> Result<(), Error> {
        self.courier.check_lock()
    }

    pub(crate) fn target_options(&self) -> &TargetOptions {
        &self.target_options
    }

    /// What opens its files.
    pub(crate) fn master_key(&self) -> Option<&MasterKey> {
        self.opened.get()
    }

    /// How long it is open.
    pub(crate) fn opened_for(&self) -> SignedDuration {
        SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    fn is_prepared(&self) -> Result<bool, Error> {
        Ok(!self.told(self.courier.list_with_size(FileType::Config))?.is_empty())
    }

    /// `cached` may take lists and folders from this computer.
    pub(crate) fn repository(&self, cached: bool) -> Result<Repository<OpenStatus>, Error> {
        if !self.is_prepared()? {
            return Err(Error::Empty(self.target.shown()));
        }
        let mut options = RepositoryOptions::default();
        match &self.target_options.cache {
            Some(folder) if cached => options.cache_dir = Some(folder.clone()),
            _ => options.no_cache = true,
        }
        let backends = RepositoryBackends::new(Arc::new(self.courier.clone()), None);
        let bare = || {
            let watch = self.target_options.watch.clone();
            self.told(Repository::new_with_progress(&options, &backends, watch))
        };
        let repository = bare()?;
        if let Some(opened) = self.opened.get() {
            return self.told(repository.open(&Credentials::Masterkey(opened.clone())));
        }
        let wrong = || Error::WrongKey {
            key: self.key.file().display().to_string(),
            target: self.target.shown(),
        };
        let repository = match repository.open(&Credentials::password(self.key.reveal())) {
            Err(error)
                if error.is_incorrect_password()
                    && self.told(self.courier.list_with_size(FileType::Key))?.is_empty() =>
            {
                let what = "no keys are listed there: its list is behind, and a later try finds \
                            them, or somebody has removed them";
                let what = what.to_owned();
                return Err(Error::Target { target: self.target.shown(), what });
            }
            Err(error) if error.is_incorrect_password() => {
                let meant = self.key.meant().ok_or_else(wrong)?;
                match bare()?.open(&Credentials::password(&*meant)) {
                    Err(error) if error.is_incorrect_password() => return Err(wrong()),
                    other => self.told(other)?,
                }
            }
            other => self.told(other)?,
        };
        let _ = self.opened.set(repository.key());
        Ok(repository)
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

    /// A file or folder of a backup, by its full path.
    pub(crate) fn node<S: IndexedFull>(
        &self,
        repository: &Repository<S>,
        snapshot: &SnapshotFile,
        path: &Path,
    ) -> Result<Node, Error> {
        let absent = || {
            let id: String = snapshot.id.to_hex().chars().take(8).collect();
            let list = format!("braid pool backup list {} {id}", quoted(&self.target.shown()));
            let text = format!("{} isn't in the backup {id}: `{list}`", path.display());
            Error::Refused(format!("{text}; paths in it are full ones"))
        };
        // The library finds by Unicode; names are whatever their filesystem had.
        let named = path.ancestors().find_map(Path::to_str).unwrap_or("/");
        let mut node =
            repository.node_from_snapshot_and_path(snapshot, named).map_err(|error| {
                let said = one_line(&error);
                match self.courier.failure().is_none() && said.contains("not found in tree") {
                    true => absent(),
                    false => self.courier.error_of(said),
                }
            })?;
        for name in path.strip_prefix(named).unwrap_or(Path::new("")) {
            if !node.is_dir() {
                return Err(absent());
            }
            let options = LsOptions::default().recursive(false);
            let mut found = None;
            for one in self.told(repository.ls(&node, &options))? {
                let (at, one) = self.told(one)?;
                if at.as_os_str() == name {
                    found = Some(one);
                }
            }
            node = found.ok_or_else(absent)?;
        }
        Ok(node)
    }

    fn bare(&self) -> Result<Repository<()>, Box<RusticError>> {
        let options = RepositoryOptions::default().no_cache(true);
        let backends = RepositoryBackends::new(Arc::new(self.courier.clone()), None);
        Repository::new_with_progress(&options, &backends, self.target_options.watch.clone())
    }

    /// Prefers the target's own error to what the library makes of it.
    pub(crate) fn told<T>(&self, result: Result<T, Box<RusticError>>) -> Result<T, Error> {
        result.map_err(|error| {
            self.courier.failure().unwrap_or_else(|| Error::Format(one_line(&error)))
        })
    }
}

/// The beginning of its name.
fn pack_in(text: &str) -> Option<String> {
    let (_, after) = text.split_once("pack ")?;
    let digits = after.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    (digits.len() >= 8).then_some(digits)
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

fn entry(path: PathBuf, node: &Node) -> Entry {
    let kind = match &node.node_type {
        NodeType::File => "file",
        NodeType::Dir => "dir",
        NodeType::Symlink { .. } => "symlink",
        NodeType::Dev { .. } => "block device",
        NodeType::Chardev { .. } => "character device",
        NodeType::Fifo => "fifo",
        NodeType::Socket => "socket",
    };
    Entry {
        path,
        kind: kind.to_owned(),
        bytes: node.meta.size,
        changed_s: node.meta.mtime.map(|time| time.as_second()),
    }
}

pub(crate) fn utf8(path: &Path) -> Result<&str, Error> {
    let text = path.to_str();
    text.ok_or_else(|| Error::Refused(format!("{}: the path is to be UTF-8", path.display())))
}

/// JSON has no other texts than Unicode.
pub(crate) fn as_shown<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

fn as_seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(time.as_secs())
}
