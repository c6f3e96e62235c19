//! The unfinished replications that this computer takes part in, so that they can be reported after
//! a crash: a folder with a file for each, created before anything is sent and removed when all is
//! done. The process working on one holds its file locked.

use crate::error::Error;
use crate::exact_path::ExactPath;
use braid_durable::state_file;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const VERSION: u32 = 1;

/// The folder with the files.
#[derive(Clone, Debug)]
pub struct Register(PathBuf);

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The computer on which it was started.
    pub host: String,
    /// From where, as it is called there.
    pub from: String,
    /// To where, as it is called there.
    pub to: String,
    /// Arguments of `braid pool replicate` to start it again.
    pub words: Vec<String>,
}

/// A replication that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Who wants it.
    pub order: Order,
    /// Whether it was started on another computer.
    pub elsewhere: bool,
    /// The folder here whose snapshots are sent.
    pub sends: Option<ExactPath>,
    /// The folder here that receives.
    pub receives: Option<ExactPath>,
}

/// One in progress; nobody else takes it for interrupted. What isn't [ended](Entry::end) stays in
/// the register.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    file: File,
    was_there: bool,
}

impl Entry {
    /// Whether the same was begun and interrupted before.
    pub fn was_there(&self) -> bool {
        self.was_there
    }
}

impl Register {
    /// In this folder, which is created when needed.
    pub fn new(folder: impl Into<PathBuf>) -> Register {
        Register(folder.into())
    }

    /// Records that this has begun; it is on disk when this returns.
    ///
    /// # Errors
    /// The file can't be written, or a newer Braid wrote the one that is there.
    pub fn begin(&self, begun: &Begun) -> Result<Entry, Error> {
        let path = self.0.join(begun.file_name());
        let write = || -> io::Result<Entry> {
            fs::create_dir_all(&self.0)?;
            let was_there = path.exists();
            let text = state_file::to_json(VERSION, begun)?;
            state_file::refuse_newer(&path, VERSION)?;
            // Locked before it gets its name: anybody who finds it there unlocked takes it for
            // interrupted.
            let file = braid_durable::replace_with(&path, None, |file| file.write_all(&text))?;
            if let Some(above) = self.0.parent() {
                braid_durable::sync_folder(above)?;
            }
            Ok(Entry { path: path.clone(), file, was_there })
        };
        write().map_err(|error| Error::io("writing", &path, error))
    }

    /// Those that nobody is working on.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn interrupted(&self) -> Result<Vec<Begun>, Error> {
        let all = self.unlocked()?.into_iter();
        let mut all: Vec<Begun> = all.filter_map(|(_, begun)| begun.ok()).collect();
        all.sort_by(|a, b| (&a.order.from, &a.order.to).cmp(&(&b.order.from, &b.order.to)));
        Ok(all)
    }

    /// Files of a newer Braid that nobody is working on, with a message for each.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn newer(&self) -> Result<Vec<(PathBuf, String)>, Error> {
        let unread = |(path, begun): (PathBuf, io::Result<Begun>)| {
            let why = begun.err().filter(state_file::is_newer)?.to_string();
            Some((path, why))
        };
        Ok(self.unlocked()?.into_iter().filter_map(unread).collect())
    }

    fn unlocked(&self) -> Result<Vec<(PathBuf, io::Result<Begun>)>, Error> {
        let read = |path: PathBuf| {
            let mut file = File::open(&path).ok()?;
            file.try_lock_shared().ok()?;
            let mut text = vec![];
            let begun = file.read_to_end(&mut text);
            Some((path, begun.and_then(|_| state_file::from_json_or_bare(VERSION, &text))))
        };
        Ok(self.files()?.into_iter().filter_map(read).collect())
    }

    /// Removes interrupted ones that `is_meant` accepts; returns them.
    ///
    /// # Errors
    /// The folder can't be read, or a file not be removed.
    pub fn forget(&self, is_meant: impl Fn(&Begun) -> bool) -> Result<Vec<Begun>, Error> {
        let meant: Vec<Begun> = self.interrupted()?.into_iter().filter(is_meant).collect();
        for begun in &meant {
            let path = self.0.join(begun.file_name());
            fs::remove_file(&path).map_err(|error| Error::io("removing", &path, error))?;
        }
        Ok(meant)
    }

    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let io = |error| Error::io("reading", &self.0, error);
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            other => other.map_err(io)?,
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>().map_err(io)?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
        Ok(paths)
    }
}

impl Begun {
    /// The same replication has the same name however it is started.
    fn file_name(&self) -> String {
        let Order { host, from, to, .. } = &self.order;
        let mut hasher = blake3::Hasher::new();
        for part in [host, from, to] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let role = [self.elsewhere, self.sends.is_some(), self.receives.is_some()];
        hasher.update(&role.map(u8::from));
        let hash = hasher.finalize().to_hex();
        format!("{}.json", hash.get(..16).unwrap_or_default())
    }
}

impl Entry {
    /// Everything is done.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn end(self) -> Result<(), Error> {
        let remove = || -> io::Result<()> {
            // Another process that began the same meanwhile has its own file under this name.
            let is_ours = match fs::metadata(&self.path) {
                Ok(there) => (there.dev(), there.ino()) == id(&self.file)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            if is_ours {
                braid_durable::remove(&self.path)?;
            }
            Ok(())
        };
        remove().map_err(|error| Error::io("removing", &self.path, error))
    }

    /// It ended without being done. It stays in the register if `something` was done, or if an
    /// earlier attempt left it.
    ///
    /// # Errors
    /// As of [`Entry::end`].
    pub fn stop(self, something: bool) -> Result<(), Error> {
        if something || self.was_there { Ok(()) } else { self.end() }
    }
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|about| (about.dev(), about.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(to: &str) -> Begun {
        let words = vec!["/data/.snapshots".to_owned(), to.to_owned()];
        Begun {
            order: Order {
                host: "alpha".into(),
                from: "/data/.snapshots".into(),
                to: to.into(),
                words,
            },
            elsewhere: false,
            sends: Some(PathBuf::from("/data/.snapshots").into()),
            receives: None,
        }
    }

    #[test]
    fn what_is_neither_at_work_nor_ended_is_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::new(folder.path().join("register"));
        assert_eq!(register.interrupted().unwrap(), []);
        let entry = register.begin(&begun("nas:/a")).unwrap();
        assert_eq!(register.interrupted().unwrap(), [], "at work");
        drop(entry);
        assert_eq!(register.interrupted().unwrap(), [begun("nas:/a")]);

        // Begun again it is the same; failed again, it still is.
        let mut again = begun("nas:/a");
        again.order.words.insert(0, "--newest".to_owned());
        register.begin(&again).unwrap().stop(false).unwrap();
        assert_eq!(register.interrupted().unwrap(), [again.clone()]);
        register.begin(&again).unwrap().end().unwrap();
        assert_eq!(register.interrupted().unwrap(), []);

        // What never came to anything isn't kept.
        register.begin(&begun("nas:/b")).unwrap().stop(false).unwrap();
        assert_eq!(register.interrupted().unwrap(), []);
        register.begin(&begun("nas:/b")).unwrap().stop(true).unwrap();
        assert_eq!(register.forget(|begun| begun.order.to == "nas:/c").unwrap(), []);
        assert_eq!(register.forget(|begun| begun.order.to == "nas:/b").unwrap().len(), 1);
        assert_eq!(register.interrupted().unwrap(), []);
    }

    #[test]
    fn who_ends_leaves_the_entry_of_who_began_the_same_later() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::new(folder.path());
        let first = register.begin(&begun("nas:/a")).unwrap();
        let second = register.begin(&begun("nas:/a")).unwrap();
        first.end().unwrap();
        drop(second);
        assert_eq!(register.interrupted().unwrap().len(), 1);
    }

    #[test]
    fn an_older_entry_is_read_and_a_newer_one_is_left_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let register = Register::new(folder.path());
        let begun = begun("nas:/a");
        drop(register.begin(&begun).unwrap());
        let file = folder.path().join(begun.file_name());
        // As it was written before it said its version.
        fs::write(&file, serde_json::to_vec(&begun).unwrap()).unwrap();
        assert_eq!(register.interrupted().unwrap(), std::slice::from_ref(&begun));
        assert_eq!(register.newer().unwrap(), []);
        let newer = state_file::to_json(VERSION + 1, &begun).unwrap();
        fs::write(&file, &newer).unwrap();
        assert_eq!(register.interrupted().unwrap(), []);
        let told = register.newer().unwrap();
        assert!(told[0].0 == file && told[0].1.contains("a newer braid wrote it"), "{told:?}");
        let why = register.begin(&begun).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        assert_eq!(fs::read(&file).unwrap(), newer);
    }

    #[test]
    fn a_file_that_is_no_entry_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.json"), "{").unwrap();
        assert_eq!(Register::new(folder.path()).interrupted().unwrap(), []);
    }
}
