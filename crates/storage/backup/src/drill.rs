//! A test restore: some files, chosen at random, are restored to a folder, and compared with their
//! originals if those haven't changed since. With backups from several places, each is tried in
//! turn.

use crate::Error;
use crate::heard;
use crate::quiet::caught;
use crate::vault::{Vault, root_of, snapshot_id};
use rustic_core::repofile::{Node, SnapshotFile};
use rustic_core::{IndexedFull, LsOptions, Repository};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is wanted.
pub struct Drill<'a> {
    /// From where.
    pub vault: &'a Vault,
    /// An id, its beginning, or `latest`: the newest of each computer and path.
    pub which: String,
    /// Folder for temporary files, with room for the largest file.
    pub folder: PathBuf,
    /// Restore at most this many bytes.
    pub bytes: u64,
    /// Restore at most this many files.
    pub files: usize,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Drilled {
    /// Of which backups.
    pub backups: Vec<DrilledBackup>,
    /// Files that came back.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of them compared with originals that hadn't changed.
    pub compared: u64,
    /// Files that differed, or weren't restored at all.
    pub wrong: Vec<String>,
}

/// What was restored from one backup.
#[derive(Clone, Debug, Serialize)]
pub struct DrilledBackup {
    /// Its id.
    pub snapshot: String,
    /// Of which computer.
    pub host: String,
    /// What was backed up.
    pub path: PathBuf,
    /// Files that came back.
    pub files: u64,
}

/// A file in a backup.
struct Candidate {
    /// Which of the backups.
    of: usize,
    path: PathBuf,
    node: Node,
}

impl Drill<'_> {
    /// Does it.
    ///
    /// # Errors
    /// The target can't be reached, or there is no such backup.
    pub fn run(&self) -> Result<Drilled, Error> {
        let _heard = heard::listen();
        let vault = self.vault;
        // A cache says nothing about what is at the target.
        let repository = vault.told(vault.repository(false)?.to_indexed())?;
        let mut files = vec![];
        let mut backups = vec![];
        for snapshot in vault.snapshots(&repository, &self.which)? {
            files.push(self.files_of(&repository, &snapshot, backups.len())?);
            backups.push(DrilledBackup {
                snapshot: snapshot_id(&snapshot),
                host: snapshot.hostname.clone(),
                path: root_of(&snapshot),
                files: 0,
            });
        }
        fs::create_dir_all(&self.folder)
            .map_err(|error| Error::io("making", &self.folder, error))?;
        let mut drilled = Drilled { backups, files: 0, bytes: 0, compared: 0, wrong: vec![] };
        for Candidate { of, path, node } in &in_turn(files) {
            if drilled.files >= self.files as u64 {
                break;
            }
            let Some(backup) = drilled.backups.get_mut(*of) else { continue };
            // One of each comes, however large it is.
            if backup.files > 0 && drilled.bytes + node.meta.size > self.bytes {
                continue;
            }
            backup.files += 1;
            let place = self.folder.join("drill");
            let came = self.bring(&place, |file| caught(|| repository.dump(node, file)));
            drilled.files += 1;
            drilled.bytes += node.meta.size;
            match came {
                Err(why) => drilled.wrong.push(format!("{}: {why}", path.display())),
                Ok((size, _)) if size != node.meta.size => {
                    let text = format!("{}: {size} of {} bytes", path.display(), node.meta.size);
                    drilled.wrong.push(text);
                }
                Ok((_, digest)) => {
                    if let Some(original) = digest_of_unchanged(path, node) {
                        drilled.compared += 1;
                        if original != digest {
                            let text = format!("{}: isn't as its original", path.display());
                            drilled.wrong.push(text);
                        }
                    }
                }
            }
            if let Some(failure) = vault.courier().failure() {
                return Err(failure);
            }
        }
        Ok(drilled)
    }

    /// In random order, with their full paths.
    fn files_of<S: IndexedFull>(
        &self,
        repository: &Repository<S>,
        snapshot: &SnapshotFile,
        of: usize,
    ) -> Result<Vec<Candidate>, Error> {
        let (vault, root) = (self.vault, root_of(snapshot));
        let node = vault.node(repository, snapshot, &root)?;
        let options = LsOptions::default().recursive(true);
        let mut files = vec![];
        for one in vault.told(repository.ls(&node, &options))? {
            let (path, node) = vault.told(one)?;
            if node.is_file() {
                files.push(Candidate { of, path: root.join(path), node });
            }
        }
        fastrand::shuffle(&mut files);
        Ok(files)
    }

    /// Writes a file, reads it, removes it; its size and digest.
    fn bring(
        &self,
        place: &Path,
        dump: impl FnOnce(&mut File) -> Result<rustic_core::RusticResult<()>, String>,
    ) -> Result<(u64, [u8; 32]), String> {
        let said = |error: io::Error| format!("{}: {error}", place.display());
        let mut file = File::create(place).map_err(said)?;
        let dumped = dump(&mut file);
        drop(file);
        let digest = match dumped {
            Ok(Ok(())) => digest(place).map_err(said),
            Ok(Err(error)) => Err(crate::error::one_line(&error)),
            Err(panicked) => Err(panicked),
        };
        fs::remove_file(place).map_err(said)?;
        digest
    }
}

/// The first of each, then the second of each, and so on.
fn in_turn<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = vec![];
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

/// `None` if it has changed since, or changes while it is read.
fn digest_of_unchanged(original: &Path, node: &Node) -> Option<[u8; 32]> {
    let is_same = || {
        let about = fs::symlink_metadata(original).ok()?;
        let wanted: SystemTime = node.meta.mtime?.into();
        (about.is_file() && about.len() == node.meta.size && about.modified().ok()? == wanted)
            .then_some(())
    };
    is_same()?;
    let (_, digest) = digest(original).ok()?;
    is_same()?;
    Some(digest)
}

fn digest(path: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut piece = vec![0; 256 * 1024];
    let mut size = 0;
    loop {
        match io::Read::read(&mut file, &mut piece)? {
            0 => return Ok((size, hasher.finalize().into())),
            count => {
                size += count as u64;
                hasher.update(piece.get(..count).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_has_its_turn() {
        assert_eq!(in_turn(vec![vec![1, 2, 3], vec![], vec![4, 5]]), [1, 4, 2, 5, 3]);
    }
}
