//! The journal: the plan and its progress, on disk before it happens.
//!
//! One JSON object per line in an append-only file; every line is on disk (`fdatasync`) before the
//! next action. A pool has at most one unfinished journal, and whoever works on it holds the locks
//! of the pool and of the disks that the plan claims.

mod event;
mod record;

pub use event::{Event, Line, VERSION};
pub use record::{Record, RecordError, StepState};

use crate::disk_lock::{DiskLockError, DiskLocks};
use braid_pool::disk::Claim;
use braid_pool::step::Plan;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where journals are, unless told otherwise.
pub const DEFAULT_STATE_DIR: &str = "/var/lib/braid/pools";

/// Number of finished journals kept for each pool, for people to read.
const KEPT: usize = 20;

/// The folder that holds a folder for each pool.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

/// An unfinished plan of one pool, locked for this process.
#[derive(Debug)]
pub struct PlanJournal {
    folder: PathBuf,
    file: File,
    record: Record,
    is_reopened: bool,
    _lock: File,
    _disks: DiskLocks,
}

/// What the runner needs of a journal.
pub trait Log {
    /// The plan and its progress.
    fn record(&self) -> &Record;
    /// Whether an earlier run wrote some of it: the host may have rebooted since.
    fn is_of_earlier_run(&self) -> bool {
        self.record().steps.iter().any(|state| *state != StepState::Untouched)
    }
    /// Writes an event; it is safe from a power cut when this returns.
    ///
    /// # Errors
    /// The journal can't be written.
    fn write(&mut self, event: Event) -> Result<(), JournalError>;
}

/// Why a journal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A plan of this pool was interrupted.
    #[error(
        "{pool}: \"{title}\" was interrupted after {done} of {steps} steps: `braid pool resume {pool}` goes on, `braid pool abandon {pool}` undoes it"
    )]
    Unfinished {
        /// The pool.
        pool: String,
        /// What was planned.
        title: String,
        /// Steps done.
        done: usize,
        /// Steps planned.
        steps: usize,
    },
    /// There is nothing to resume or abandon.
    #[error("{0}: nothing was interrupted")]
    NothingUnfinished(String),
    /// Another process has the pool's lock.
    #[error("{0}: another braid is at work on it")]
    Busy(String),
    /// Another process changes a disk of the plan, for whatever pool.
    #[error(transparent)]
    Disk(#[from] DiskLockError),
    /// A name that can't be a folder's.
    #[error("\"{0}\" can't be a pool's name")]
    Name(String),
    /// The file is no journal.
    #[error("{}: {error}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        error: RecordError,
    },
    /// The system said no.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

impl JournalError {
    /// The error that this plan of the pool was interrupted.
    pub fn unfinished(pool: &str, record: &Record) -> JournalError {
        JournalError::Unfinished {
            pool: pool.to_owned(),
            title: record.plan.title.clone(),
            done: record.done(),
            steps: record.steps.len(),
        }
    }
}

impl StateDir {
    /// This folder, which is created when a journal is begun.
    pub fn new(folder: impl Into<PathBuf>) -> StateDir {
        StateDir(folder.into())
    }

    /// Begins a journal: the plan is on disk when this returns. Refused while another one of the
    /// pool is unfinished, or another process changes a disk that the plan claims.
    ///
    /// # Errors
    /// [`JournalError::Unfinished`], [`JournalError::Busy`] when another process works on the pool,
    /// [`JournalError::Disk`] when one works on a disk of the plan, [`JournalError::Name`],
    /// [`JournalError::Record`] when the existing journal can't be read, or [`JournalError::Io`].
    pub fn begin(&self, pool: &str, plan: Plan) -> Result<PlanJournal, JournalError> {
        let folder = self.folder(pool)?;
        make_folders(&folder)?;
        let lock = lock(&folder, pool)?;
        let path = folder.join(CURRENT);
        if let Some((record, _)) = read(&path)? {
            return Err(JournalError::unfinished(pool, &record));
        }
        let disks = lock_disks(&plan)?;
        let first = Event::Plan { version: VERSION, plan: Box::new(plan.clone()) };
        braid_durable::replace(&path, &bytes_of(first), None).map_err(at(&path))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(at(&path))?;
        let record = Record::new(plan);
        Ok(PlanJournal { folder, file, record, is_reopened: false, _lock: lock, _disks: disks })
    }

    /// Reopens the pool's unfinished journal.
    ///
    /// # Errors
    /// [`JournalError::NothingUnfinished`], [`JournalError::Busy`] when another process works on
    /// the pool, [`JournalError::Disk`] when one works on a disk of the plan,
    /// [`JournalError::Name`], [`JournalError::Record`] when the journal can't be read, or
    /// [`JournalError::Io`].
    pub fn reopen(&self, pool: &str) -> Result<PlanJournal, JournalError> {
        let folder = self.folder(pool)?;
        if !folder.is_dir() {
            return Err(JournalError::NothingUnfinished(pool.to_owned()));
        }
        let lock = lock(&folder, pool)?;
        let path = folder.join(CURRENT);
        let Some((record, whole)) = read(&path)? else {
            return Err(JournalError::NothingUnfinished(pool.to_owned()));
        };
        let disks = lock_disks(&record.plan)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(at(&path))?;
        file.set_len(whole as u64).map_err(at(&path))?;
        Ok(PlanJournal { folder, file, record, is_reopened: true, _lock: lock, _disks: disks })
    }

    /// The register of unfinished replications; no pool's name begins with a dot.
    pub fn replications(&self) -> PathBuf {
        self.0.join(".replications")
    }

    /// The records of when backups were made, checked and read back.
    pub fn backups(&self) -> PathBuf {
        self.0.join(".backups")
    }

    /// Where backups of the LUKS headers of pools' disks are, a folder for each pool.
    pub fn headers(&self) -> PathBuf {
        self.0.join(".headers")
    }

    /// The pools with an unfinished plan, and its progress. Takes no lock.
    ///
    /// # Errors
    /// [`JournalError::Io`] when the folders or a journal can't be read, [`JournalError::Record`]
    /// when one is damaged or of another format.
    pub fn unfinished(&self) -> Result<Vec<(String, Record)>, JournalError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.0)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(at(&self.0))?;
            if let Some((record, _)) = read(&entry.path().join(CURRENT))? {
                found.push((entry.file_name().to_string_lossy().into_owned(), record));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// Those of [`StateDir::unfinished`] that nobody is carrying out now.
    ///
    /// # Errors
    /// As [`StateDir::unfinished`].
    pub fn interrupted(&self) -> Result<Vec<(String, Record)>, JournalError> {
        let mut found = self.unfinished()?;
        // A running plan holds its pool's lock.
        found.retain(|(pool, _)| self.folder(pool).and_then(|folder| lock(&folder, pool)).is_ok());
        Ok(found)
    }

    fn folder(&self, pool: &str) -> Result<PathBuf, JournalError> {
        if pool.is_empty() || pool.starts_with('.') || pool.contains(['/', '\0']) {
            return Err(JournalError::Name(pool.to_owned()));
        }
        Ok(self.0.join(pool))
    }
}

impl Log for PlanJournal {
    fn record(&self) -> &Record {
        &self.record
    }

    /// Also if nothing was begun yet.
    fn is_of_earlier_run(&self) -> bool {
        self.is_reopened
    }

    /// The journal's end renames the file, so that the pool is free for the next plan.
    fn write(&mut self, event: Event) -> Result<(), JournalError> {
        let path = self.folder.join(CURRENT);
        let last = matches!(event, Event::Finished | Event::Abandoned);
        let added = self.record.add(&event);
        debug_assert!(added.is_some(), "the runner knows its plan");
        let written = self.file.write_all(&bytes_of(event)).and_then(|()| self.file.sync_data());
        written.map_err(at(&path))?;
        if last { self.put_away(&path) } else { Ok(()) }
    }
}

impl PlanJournal {
    /// The pool's folder: commands' output is kept beside the journal.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn put_away(&self, path: &Path) -> Result<(), JournalError> {
        let mut number = now();
        while self.folder.join(format!("{number}.{ENDED}")).exists() {
            number += 1;
        }
        let kept = self.folder.join(format!("{number}.{ENDED}"));
        fs::rename(path, &kept).map_err(at(path))?;
        sync_folder(&self.folder)?;
        let entries = fs::read_dir(&self.folder).map_err(at(&self.folder))?;
        let mut ended: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.to_string_lossy().ends_with(ENDED))
            .collect();
        ended.sort();
        for old in ended.iter().rev().skip(KEPT) {
            fs::remove_file(old).map_err(at(old))?;
        }
        Ok(())
    }
}

const CURRENT: &str = "journal";
const ENDED: &str = "ended.jsonl";

pub(crate) fn bytes_of(event: Event) -> Vec<u8> {
    let line = Line { at: now(), event };
    // A journal's types are plain data with string keys, which JSON can always represent.
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn read(path: &Path) -> Result<Option<(Record, usize)>, JournalError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let (record, whole) = Record::replay(&text)
        .map_err(|error| JournalError::Record { path: path.to_owned(), error })?;
    // Killed between the last line and the renaming.
    Ok((!record.ended).then_some((record, whole)))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn lock(folder: &Path, pool: &str) -> Result<File, JournalError> {
    let path = folder.join("lock");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::Busy(pool.to_owned())),
        Err(TryLockError::Error(error)) => Err(at(&path)(error)),
    }
}

fn lock_disks(plan: &Plan) -> Result<DiskLocks, JournalError> {
    Ok(DiskLocks::take(plan.claims.iter().map(Claim::path))?)
}

/// Creates the folder and all above it, each synced to disk in its parent.
fn make_folders(folder: &Path) -> Result<(), JournalError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    for made in folder.ancestors().skip(1).take(2) {
        sync_folder(made)?;
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    braid_durable::sync_folder(folder).map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(io::Error) -> JournalError + '_ {
    move |error| JournalError::Io { path: path.to_owned(), error }
}
