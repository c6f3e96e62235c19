//! A restore on trial: some files, chosen by chance, come back to a folder, and are compared with
//! their originals where those haven't changed since.

use crate::Error;
use crate::heard;
use crate::quiet::caught;
use crate::vault::{Vault, snapshot_id};
use rustic_core::LsOptions;
use rustic_core::repofile::Node;
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
    /// An id, its beginning, or `latest`.
    pub which: String,
    /// A folder with room for the largest file, used meanwhile.
    pub folder: PathBuf,
    /// At most so many bytes.
    pub bytes: u64,
    /// At most so many files.
    pub files: usize,
}

/// What has become of it.
#[derive(Clone, Debug, Serialize)]
pub struct Drilled {
    /// Of which backup.
    pub snapshot: String,
    /// Files that came back.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of them compared with originals that hadn't changed.
    pub compared: u64,
    /// What came back otherwise, or not at all.
    pub wrong: Vec<String>,
}

impl Drill<'_> {
    /// Does it.
    ///
    /// # Errors
    /// The target can't be reached, or there is no such backup.
    pub fn run(&self) -> Result<Drilled, Error> {
        let _heard = heard::listen();
        let vault = self.vault;
        // What lies in a cache says nothing of what is at the target.
        let repository = vault.told(vault.repository(false)?.to_indexed())?;
        let snapshot = vault.snapshot(&repository, &self.which)?;
        let root = snapshot.paths.iter().next().map(PathBuf::from).unwrap_or_default();
        let node = vault.node(&repository, &snapshot, &root)?;
        let options = LsOptions::default().recursive(true);
        let mut files = vec![];
        for one in vault.told(repository.ls(&node, &options))? {
            let (path, node) = vault.told(one)?;
            if node.is_file() {
                files.push((path, node));
            }
        }
        fastrand::shuffle(&mut files);
        fs::create_dir_all(&self.folder)
            .map_err(|error| Error::io("making", &self.folder, error))?;
        let mut drilled = Drilled {
            snapshot: snapshot_id(&snapshot),
            files: 0,
            bytes: 0,
            compared: 0,
            wrong: vec![],
        };
        for (path, node) in &files {
            if drilled.files >= self.files as u64 {
                break;
            }
            if drilled.files > 0 && drilled.bytes + node.meta.size > self.bytes {
                continue;
            }
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
                    if let Some(original) = digest_of_unchanged(&root.join(path), node) {
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

/// Nothing where it is another by now, or changes while it is read.
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
