//! Through backups' folders: which files lack something that the target has lost.

use crate::Error;
use crate::pack::TRIES;
use crate::vault::{Vault, as_shown};
use rustic_core::repofile::SnapshotFile;
use rustic_core::{DataId, Id, IndexedFull, Repository, TreeId};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// How many are named; the rest is only counted.
const EXAMPLES: usize = 20;
/// Deeper than any system lets a path be (`PATH_MAX`, of two bytes a folder).
const DEEPEST: usize = 2048;

/// What is lost of a folder or a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Files that lack a part, or all.
    pub lost_files: u64,
    /// Folders whose contents are no longer known.
    pub lost_folders: u64,
    /// Some of both.
    pub examples: Vec<Example>,
}

/// A file or folder, by its path in the backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example(#[serde(serialize_with = "as_shown")] pub PathBuf);

impl Lack {
    /// Whether it is any.
    pub fn is_some(&self) -> bool {
        self.lost_files + self.lost_folders > 0
    }

    fn add_below(&mut self, name: &Path, inner: &Lack) {
        self.lost_files += inner.lost_files;
        self.lost_folders += inner.lost_folders;
        let room = EXAMPLES.saturating_sub(self.examples.len());
        let below = inner.examples.iter().take(room).map(|it| Example(name.join(&it.0)));
        self.examples.extend(below);
    }

    fn name(&mut self, path: &Path) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(Example(path.to_owned()));
        }
    }
}

/// Each folder is looked at once, in however many backups it is.
pub(crate) struct Walk<'a, S> {
    vault: &'a Vault,
    repository: &'a Repository<S>,
    lost: &'a HashSet<Id>,
    whole: HashSet<TreeId>,
    lacking: HashMap<TreeId, Lack>,
}

impl<'a, S: IndexedFull> Walk<'a, S> {
    /// What is in `lost` isn't there, whatever the index says.
    pub(crate) fn new(
        vault: &'a Vault,
        repository: &'a Repository<S>,
        lost: &'a HashSet<Id>,
    ) -> Self {
        Walk { vault, repository, lost, whole: HashSet::new(), lacking: HashMap::new() }
    }

    /// What a backup lacks.
    ///
    /// # Errors
    /// The target can't be reached.
    pub(crate) fn lack_of(&mut self, snapshot: &SnapshotFile) -> Result<Lack, Error> {
        let mut lack = Lack::default();
        lack.add_below(Path::new("/"), &self.tree(snapshot.tree, 0)?);
        Ok(lack)
    }

    fn tree(&mut self, id: TreeId, depth: usize) -> Result<Lack, Error> {
        if self.whole.contains(&id) {
            return Ok(Lack::default());
        }
        if let Some(lack) = self.lacking.get(&id) {
            return Ok(lack.clone());
        }
        let mut lack = Lack::default();
        let nodes = match self.lost.contains(&*id) || depth > DEEPEST {
            true => None,
            false => {
                let mut tries = (0..TRIES).map(|_| self.repository.get_tree(&id));
                tries.find_map(Result::ok).map(|tree| tree.nodes)
            }
        };
        if let Some(failure) = self.vault.courier().failure() {
            return Err(failure);
        }
        match nodes {
            None => {
                lack.lost_folders = 1;
                lack.name(Path::new(""));
            }
            Some(nodes) => {
                for node in nodes {
                    let name = PathBuf::from(node.name().into_owned());
                    if let Some(inner) = node.subtree {
                        let inner = self.tree(inner, depth + 1)?;
                        lack.add_below(&name, &inner);
                    } else if node.content.iter().flatten().any(|piece| self.is_lost(piece)) {
                        lack.lost_files += 1;
                        lack.name(&name);
                    }
                }
            }
        }
        match lack.is_some() {
            true => drop(self.lacking.insert(id, lack.clone())),
            false => drop(self.whole.insert(id)),
        }
        Ok(lack)
    }

    fn is_lost(&self, piece: &DataId) -> bool {
        self.lost.contains(&**piece) || self.repository.get_index_entry(piece).is_err()
    }
}
