//! Restores from a backup to an empty place, then compares the result with the backup.

use crate::Error;
use crate::heard;
use crate::quiet::caught;
use crate::salvage::Salvage;
use crate::target::Target;
use crate::vault::{Vault, as_shown, is_incomplete, root_of, snapshot_id, utf8};
use braid_units::ByteSize;
use rustic_core::repofile::Node;
use rustic_core::{LocalDestination, LsOptions, RestoreOptions, RestorePlan};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What is wanted.
pub struct Restoration<'a> {
    /// From where.
    pub vault: &'a Vault,
    /// A backup's id or id prefix, or `latest`: the newest that holds the path.
    pub which: String,
    /// A file or folder in it; else all that was backed up.
    pub path: Option<PathBuf>,
    /// The destination: an empty or new folder; for a file its own new path.
    pub to: PathBuf,
    /// Nothing is written.
    pub dry_run: bool,
    /// Called at once with anything that may go wrong.
    pub warn: &'a dyn Fn(&str),
}

/// What has become of it.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// Of which backup.
    pub snapshot: String,
    /// What.
    #[serde(serialize_with = "as_shown")]
    pub path: PathBuf,
    /// To where.
    pub to: PathBuf,
    /// Files, and what is neither a file nor a folder.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Metadata that couldn't be restored, such as owners without root.
    pub lacking: Vec<String>,
    /// Something could not be read when the backup was made.
    pub incomplete: bool,
    /// Files that couldn't be restored: their data is lost or damaged at the target.
    #[serde(serialize_with = "all_shown")]
    pub lost: Vec<PathBuf>,
}

impl Restoration<'_> {
    /// Restores. After success every file has been read again and matches the backup.
    ///
    /// # Errors
    /// The destination exists, the target fails, the disk is full, or a file doesn't match.
    pub fn run(&self) -> Result<Restored, Error> {
        let heard = heard::listen();
        let vault = self.vault;
        let _few = vault.courier().hold_few();
        let repository = vault.told(vault.repository(true)?.to_indexed())?;
        let snapshot = vault.snapshot(&repository, &self.which, self.path.as_deref())?;
        let path = match &self.path {
            Some(path) => path.clone(),
            None => root_of(&snapshot),
        };
        let node = vault.node(&repository, &snapshot, &path)?;
        check_free(&self.to, node.is_dir())?;
        check_apart(&self.to, vault.target())?;
        let options = LsOptions::default().recursive(true);
        let listed = vault.told(repository.ls(&node, &options))?;
        // The folder itself, with its mode and owner; a backup's root has none.
        let itself = (node.is_dir() && node.meta.mode.is_some() && path.file_name().is_some())
            .then(|| (PathBuf::new(), node.clone()));
        let nodes = itself.into_iter().map(Ok).chain(listed);
        let mut restored = Restored {
            snapshot: snapshot_id(&snapshot),
            path,
            to: self.to.clone(),
            files: 0,
            folders: 0,
            bytes: 0,
            lacking: vec![],
            incomplete: is_incomplete(&snapshot),
            lost: vec![],
        };
        for one in nodes.clone() {
            let (path, node) = vault.told(one)?;
            restored.count(&path, &node)?;
        }
        self.warn_of_room(restored.bytes);
        if self.dry_run {
            return Ok(restored);
        }
        let to = utf8(&self.to)?;
        let destination = vault.told(LocalDestination::new(to, true, !node.is_dir()))?;
        let mut restore = RestoreOptions::default().numeric_id(true).verify_existing(true);
        // Its type has no name outside of the library.
        restore.sparse = serde_json::from_str("\"ByContent\"").ok();
        let mut said_before = 0;
        let done = caught(|| {
            let plan = repository.prepare_restore(&restore, nodes.clone(), &destination, false)?;
            restored.bytes = plan.restore_size;
            // What the library has said so far is only that nothing is there yet.
            said_before = heard.lines().len();
            repository.restore(plan, &restore, nodes.clone(), &destination)
        });
        let error = match done {
            Ok(done) => vault.told(done).err(),
            Err(said) => Some(vault.courier().error_of(said)),
        };
        let mut lost = BTreeSet::new();
        if let Some(error) = error {
            let error = self.check_salvageable(error, node.is_dir())?;
            said_before = heard.lines().len();
            lost = Salvage {
                vault,
                repository: &repository,
                options: &restore,
                destination: &destination,
                to: &self.to,
                error,
            }
            .run(nodes.clone())?;
        }
        let nodes = nodes.filter(|one| one.as_ref().map_or(true, |(path, _)| !lost.contains(path)));
        restored.files = restored.files.saturating_sub(lost.len() as u64);
        restored.lacking = heard.lines().split_off(said_before);
        let again = vault.told(repository.prepare_restore(&restore, nodes, &destination, true))?;
        self.check_nothing_left(&again)?;
        restored.lost = lost.into_iter().collect();
        Ok(restored)
    }

    /// Warns only: sparse and duplicate files take less.
    fn warn_of_room(&self, bytes: u64) {
        if let Some(room) = room_at(&self.to).filter(|room| *room < bytes) {
            (self.warn)(&format!(
                "{} are to come, and {} has {} free",
                ByteSize::from_bytes(bytes),
                self.to.display(),
                ByteSize::from_bytes(room)
            ));
        }
    }

    /// Returns the error again if lost data may be its cause, so that the rest can be restored.
    fn check_salvageable(&self, error: Error, is_folder: bool) -> Result<Error, Error> {
        if room_at(&self.to).is_some_and(|room| room < FULL) {
            let full = io::Error::from(rustix::io::Errno::NOSPC);
            return Err(Error::io("writing to", &self.to, full));
        }
        match self.vault.courier().failure().is_some() || !is_folder {
            true => Err(error),
            false => Ok(error),
        }
    }

    /// `again` is the plan of a second restore, made by reading what is there now.
    fn check_nothing_left(&self, again: &RestorePlan) -> Result<(), Error> {
        let (files, folders) = (again.stats.files, again.stats.dirs);
        if again.restore_size > 0 || files.restore + files.modify + folders.restore > 0 {
            return Err(Error::Damaged(format!(
                "{}: {} files aren't what the backup says",
                self.to.display(),
                files.restore + files.modify
            )));
        }
        Ok(())
    }
}

impl Restored {
    /// Counts one entry that is to be restored.
    fn count(&mut self, path: &Path, node: &Node) -> Result<(), Error> {
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            let text = format!("{}: a name in the backup leads elsewhere", path.display());
            return Err(Error::Damaged(text));
        }
        match node.is_dir() {
            true => self.folders += 1,
            false => self.files += 1,
        }
        self.bytes += node.meta.size;
        Ok(())
    }
}

fn all_shown<S: serde::Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

/// A disk with less free space, in bytes, counts as full: that is why a restore failed.
const FULL: u64 = 1 << 20;

/// Bytes that are free where `to` is or will be, where that can be known.
fn room_at(to: &Path) -> Option<u64> {
    let there = to.ancestors().filter(|it| !it.as_os_str().is_empty());
    let about = there.chain([Path::new(".")]).find_map(|it| rustix::fs::statvfs(it).ok())?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

/// Refuses to overwrite anything, or to write through somebody's symbolic link.
fn check_free(to: &Path, is_folder: bool) -> Result<(), Error> {
    let taken = |what: &str| Err(Error::Refused(format!("{} {what}", to.display())));
    match fs::symlink_metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("looking at", to, error)),
        Ok(about) if is_folder && about.is_dir() => {
            let mut entries = fs::read_dir(to).map_err(|error| Error::io("reading", to, error))?;
            match entries.next() {
                None => Ok(()),
                Some(_) => taken("isn't empty: restore to a new folder"),
            }
        }
        Ok(_) => taken("is there already: restore to a new path"),
    }
}

/// Refuses to restore into the target: plain files would lie among what is encrypted.
fn check_apart(to: &Path, target: &Target) -> Result<(), Error> {
    let Target::Folder(target) = target else { return Ok(()) };
    let Ok(target) = fs::canonicalize(target) else { return Ok(()) };
    let there = to.ancestors().find_map(|it| fs::canonicalize(it).ok());
    if there.is_some_and(|there| there.starts_with(&target)) {
        let (to, target) = (to.display(), target.display());
        let text = format!("{to} lies within the target {target}, which is encrypted");
        return Err(Error::Refused(format!("{text}: restore to a place elsewhere")));
    }
    Ok(())
}
