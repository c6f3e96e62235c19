//! A restore from a target that has lost or damaged something: what can be restored is, and what
//! can't is named and not left behind in part.

use crate::Error;
use crate::quiet::caught;
use crate::vault::Vault;
use rustic_core::repofile::Node;
use rustic_core::{
    IndexedFull, LocalDestination, Repository, RestoreOptions, RusticError, RusticResult,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A restore that has failed with `error`.
pub(crate) struct Salvage<'a, S> {
    pub(crate) vault: &'a Vault,
    pub(crate) repository: &'a Repository<S>,
    pub(crate) options: &'a RestoreOptions,
    pub(crate) destination: &'a LocalDestination,
    /// Where that is.
    pub(crate) to: &'a Path,
    pub(crate) error: Error,
}

/// Files that are restored together.
type Group = Vec<(PathBuf, Node)>;

impl<S: IndexedFull> Salvage<'_, S> {
    /// Restores those of `nodes` that it can; returns the paths of the others.
    ///
    /// # Errors
    /// That with which the restore failed, where it isn't for what the target has lost: the target
    /// can't be reached, the disk here is full.
    pub(crate) fn run(
        self,
        nodes: impl Iterator<Item = RusticResult<(PathBuf, Node)>> + Clone,
    ) -> Result<BTreeSet<PathBuf>, Error> {
        let mut files: Group = vec![];
        let mut links: BTreeMap<(u64, u64), Vec<PathBuf>> = BTreeMap::new();
        for one in nodes.clone() {
            let (path, node) = self.vault.told(one)?;
            if !node.is_file() {
                continue;
            }
            let about = &node.meta;
            if about.links > 1 {
                let same = links.entry((about.device_id, about.inode)).or_default();
                same.push(path.clone());
                if same.len() > 1 {
                    continue;
                }
            }
            files.push((path, node));
        }
        let mut lost = BTreeSet::new();
        let mut groups = vec![files];
        // A group that fails is halved until it is one file.
        while let Some(mut group) = groups.pop() {
            if group.is_empty() || self.bring(&group) {
                continue;
            }
            if let Some(failure) = self.vault.courier().failure() {
                return Err(failure);
            }
            if group.len() > 1 {
                groups.push(group.split_off(group.len() / 2));
                groups.push(group);
                continue;
            }
            for (path, node) in group {
                // What can be read there failed here.
                if self.is_readable(&node) {
                    return Err(self.error);
                }
                lost.insert(path);
            }
        }
        let is_lost = |same: &&Vec<PathBuf>| same.first().is_some_and(|it| lost.contains(it));
        let others: Vec<PathBuf> = links.values().filter(is_lost).flatten().cloned().collect();
        lost.extend(others);
        for path in &lost {
            remove(&self.to.join(path))?;
        }
        // Links, modes, owners, times.
        let kept = nodes.filter(|one| one.as_ref().map_or(true, |(path, _)| !lost.contains(path)));
        let plan =
            self.repository.prepare_restore(self.options, kept.clone(), self.destination, false);
        let plan = self.vault.told(plan)?;
        self.vault.told(self.repository.restore(plan, self.options, kept, self.destination))?;
        Ok(lost)
    }

    fn bring(&self, group: &Group) -> bool {
        let nodes = || group.iter().cloned().map(Ok::<_, Box<RusticError>>);
        let (options, destination) = (self.options, self.destination);
        let done = caught(|| {
            let plan = self.repository.prepare_restore(options, nodes(), destination, false)?;
            self.repository.restore(plan, options, nodes(), destination)
        });
        matches!(done, Ok(Ok(())))
    }

    fn is_readable(&self, node: &Node) -> bool {
        matches!(caught(|| self.repository.dump(node, &mut io::sink())), Ok(Ok(())))
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("removing", path, error))
        }
        _ => Ok(()),
    }
}
