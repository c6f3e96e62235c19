//! What this computer remembers of its targets: when each got a backup, was checked, and was read
//! back. One file per target.

use crate::Error;
use crate::lock::Ends;
use crate::target::Target;
use braid_durable::state_file;
use braid_pool::upkeep::LockSpan;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// [`Records::is_held`] takes the lock for a moment, too: so many attempts, so far apart, are made
/// before the target is said to be in use.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
const VERSION: u32 = 1;

/// The folder with the files.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

/// What is known of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// As restic writes it, without a password.
    pub target: String,
    /// When it was prepared or first used here, since the Unix epoch.
    pub since_s: u64,
    /// What is backed up there.
    pub sources: BTreeMap<PathBuf, Source>,
    /// The last check.
    pub checked: Option<Checked>,
    /// The last time that something was read back and compared.
    pub restored: Option<Tried>,
    /// The policy that last removed backups here.
    pub policy: Option<String>,
    /// How what is there is locked.
    pub lock: Option<Locking>,
    /// The key file of the backups made here, if recorded.
    pub key: Option<PathBuf>,
}

/// How files at a target are locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locking {
    /// How many days a lock lasts from each backup on.
    pub days: u32,
    /// When the first lock of a needed file expires, since the Unix epoch.
    pub ends_s: Option<u64>,
    /// Why they could not be prolonged the last time, if so.
    pub failed: Option<String>,
}

impl Locking {
    /// The span as it was asked for; none if the file was edited to hold something else.
    pub fn span(&self) -> Option<LockSpan> {
        LockSpan::of_days(self.days)
    }
}

/// A source's backups at this target. Times are since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// When the backup began that is under way, or was interrupted.
    pub begun_s: Option<u64>,
    /// The last one that is whole.
    pub done_s: Option<u64>,
    /// How much later it was than the one before.
    pub gap_s: Option<u64>,
    /// Its id.
    pub snapshot: Option<String>,
    /// Files missing from it because they could not be read.
    pub unreadable: usize,
    /// Why the last try failed, if it did.
    pub failed: Option<String>,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// When.
    pub at_s: u64,
    /// How much of the data was read.
    pub percent: u8,
    /// What was wrong.
    pub errors: usize,
    /// The packs with it: how their names begin.
    #[serde(default)]
    pub damaged_packs: BTreeSet<String>,
    /// They were mended since.
    #[serde(default)]
    pub repaired: bool,
}

/// A restore, or a drill of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// When.
    pub at_s: u64,
    /// Files that came back.
    pub files: u64,
    /// What was wrong with it, if something was.
    pub failed: Option<String>,
}

/// What is known of a target, in a file that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Which.
    pub file: PathBuf,
    /// Why.
    pub why: String,
    /// It may be fine: this user may not read it.
    pub may_not_be_read: bool,
    /// It is fine: a newer Braid wrote it.
    pub is_newer: bool,
}

impl Unread {
    fn new(file: PathBuf, error: &Error) -> Unread {
        let io = match error {
            Error::Io { error, .. } => Some(error),
            _ => None,
        };
        Unread {
            file,
            why: error.to_string(),
            may_not_be_read: io.is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied),
            is_newer: io.is_some_and(state_file::is_newer),
        }
    }
}

/// Held while a target is in use: one user at a time.
pub struct Held(#[expect(dead_code, reason = "held")] File);

impl Records {
    /// Uses this folder, which is created on demand.
    pub fn new(folder: impl Into<PathBuf>) -> Records {
        Records(folder.into())
    }

    /// Locks the target against other users; with `wait`, waits for the present one.
    ///
    /// # Errors
    /// It is in use, or the lock file can't be made.
    pub fn hold(&self, target: &Target, wait: bool) -> Result<Held, Error> {
        let path = self.file(&target.shown(), "lock");
        fs::create_dir_all(&self.0).map_err(|error| Error::io("making", &self.0, error))?;
        let file = File::create(&path).map_err(|error| Error::io("opening", &path, error))?;
        if wait {
            file.lock().map_err(|error| Error::io("locking", &path, error))?;
            return Ok(Held(file));
        }
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Held(file)),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(Error::io("locking", &path, error)),
            }
        }
        Err(Error::Refused(format!("another command is at work on {target}")))
    }

    /// Whether somebody is at work on a target.
    pub fn is_held(&self, record: &Record) -> bool {
        let lock = File::open(self.file(&record.target, "lock"));
        lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// What is known of a target; nothing yet is a new one.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of(&self, target: &Target, now: Duration) -> Result<Record, Error> {
        let path = self.file(&target.shown(), "json");
        match read(&path)? {
            Some(record) => Ok(record),
            None => {
                Ok(Record { target: target.shown(), since_s: now.as_secs(), ..Record::default() })
            }
        }
    }

    /// Whether something is known of a target.
    pub fn has(&self, target: &Target) -> bool {
        self.file(&target.shown(), "json").exists()
    }

    /// When the locks end of what is at a target; nothing is known where the file can't be read.
    pub fn locks(&self, target: &Target) -> Ends {
        let text = fs::read(self.file(&target.shown(), "locks")).unwrap_or_default();
        state_file::from_json_or_bare(VERSION, &text).unwrap_or_default()
    }

    /// Keeps them.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep_locks(&self, target: &Target, ends: &Ends) -> Result<(), Error> {
        write(&self.file(&target.shown(), "locks"), ends)
    }

    /// Forgets what is known of a target.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn drop(&self, target: &Target) -> Result<(), Error> {
        let path = self.file(&target.shown(), "json");
        fs::remove_file(&path).map_err(|error| Error::io("removing", &path, error))?;
        // That of one without locks isn't there.
        let _ = fs::remove_file(self.file(&target.shown(), "locks"));
        Ok(())
    }

    /// All that there are; and those that can't be read.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn all(&self) -> Result<(Vec<Record>, Vec<Unread>), Error> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((vec![], vec![])),
            other => other.map_err(|error| Error::io("reading", &self.0, error))?,
        };
        let (mut all, mut broken) = (vec![], vec![]);
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                match read(&path) {
                    Ok(record) => all.extend(record),
                    Err(error) => broken.push(Unread::new(path, &error)),
                }
            }
        }
        all.sort_by(|a, b| a.target.cmp(&b.target));
        Ok((all, broken))
    }

    /// Keeps it: it is on the disk when this returns.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep(&self, record: &Record) -> Result<(), Error> {
        write(&self.file(&record.target, "json"), record)
    }

    fn file(&self, target: &str, ending: &str) -> PathBuf {
        let digest = Sha256::digest(target.as_bytes());
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.0.join(format!("{hex}.{ending}"))
    }
}

impl Record {
    /// That of a source, which may be a new one.
    pub fn source(&mut self, path: &Path) -> &mut Source {
        self.sources.entry(path.to_owned()).or_default()
    }

    /// Whether a backup to it was begun and not ended: what it sent can be used.
    pub fn is_cut_off(&self) -> bool {
        self.sources.values().any(|source| source.begun_s.is_some())
    }
}

fn read(path: &Path) -> Result<Option<Record>, Error> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| Error::io("reading", path, error))?,
    };
    match state_file::from_json_or_bare(VERSION, &text) {
        Ok(record) => Ok(Some(record)),
        Err(error) if state_file::is_newer(&error) => Err(Error::io("reading", path, error)),
        Err(error) => {
            Err(Error::Refused(format!("{}: {error}; delete it to start over", path.display())))
        }
    }
}

fn write(path: &Path, content: impl Serialize) -> Result<(), Error> {
    state_file::replace(path, VERSION, content, Some(0o600))
        .map_err(|error| Error::io("writing", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_known_of_a_target_is_kept_and_one_command_is_at_work_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().join("backups"));
        let target: Target = "rest:http://me:secret@nas/".parse().unwrap();
        assert_eq!(records.all().unwrap(), (vec![], vec![]));
        let mut record = records.of(&target, Duration::from_secs(7)).unwrap();
        assert!(!record.is_cut_off() && record.since_s == 7);
        record.source(Path::new("/srv")).begun_s = Some(8);
        records.keep(&record).unwrap();
        fs::write(folder.path().join("backups/x.json"), "junk").unwrap();
        let (all, broken) = records.all().unwrap();
        assert!(broken.len() == 1 && broken[0].why.contains("delete it"), "{broken:?}");
        assert!(all == [record] && all[0].is_cut_off());
        assert!(!format!("{all:?}").contains("secret"));
        let held = records.hold(&target, false).unwrap();
        assert!(records.hold(&target, false).is_err());
        assert!(records.hold(&"/other".parse().unwrap(), false).is_ok());
        drop(held);
        assert!(records.hold(&target, true).is_ok());
        assert!(records.has(&target));
        records.drop(&target).unwrap();
        assert!(!records.has(&target));
    }

    #[test]
    fn an_older_record_is_read_and_a_newer_one_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path());
        let target: Target = "/there".parse().unwrap();
        let record = records.of(&target, Duration::from_secs(7)).unwrap();
        records.keep(&record).unwrap();
        let file = records.file(&record.target, "json");
        // As it was written before it said its version.
        fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
        assert_eq!(records.of(&target, Duration::ZERO).unwrap(), record);
        let newer = state_file::to_json(VERSION + 1, &record).unwrap();
        fs::write(&file, &newer).unwrap();
        let why = records.of(&target, Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        let (all, unread) = records.all().unwrap();
        assert!(all.is_empty() && unread[0].is_newer && !unread[0].why.contains("delete"));
        assert!(records.keep(&record).is_err());
        assert_eq!(fs::read(&file).unwrap(), newer);
    }

    #[test]
    fn who_looks_whether_somebody_is_at_work_keeps_nobody_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path());
        let target: Target = "/there".parse().unwrap();
        let record = records.of(&target, Duration::ZERO).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    records.is_held(&record);
                    thread::yield_now();
                }
            });
            let held: Vec<bool> = (0..300).map(|_| records.hold(&target, false).is_ok()).collect();
            done.store(true, Ordering::Relaxed);
            assert!(held.iter().all(|held| *held));
        });
    }
}
