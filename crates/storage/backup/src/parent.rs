//! The previous backup, which shows a new one what hasn't changed.
//!
//! The library assumes that an unchanged folder's list is there. If the target has lost that list,
//! but not that of the folder above it, the new backup would lack it.

use crate::Error;
use crate::vault::{Vault, paths_of};
use rustic_core::repofile::SnapshotFile;
use rustic_core::{IndexedTree, ParentOptions, Repository};
use std::collections::HashSet;
use std::path::Path;

impl Vault {
    /// The last backup of this path on the same computer, if each of its folders' lists is there;
    /// or none, so that all is read.
    ///
    /// # Errors
    /// The target can't be read.
    pub(crate) fn parent<S: IndexedTree>(
        &self,
        repository: &Repository<S>,
        new: &SnapshotFile,
        path: &Path,
    ) -> Result<ParentOptions, Error> {
        let same = |old: &SnapshotFile| {
            (&old.hostname, &old.label) == (&new.hostname, &new.label)
                && paths_of(old).iter().eq([path])
        };
        let known = self.told(repository.get_matching_snapshots(same))?;
        let last = known.into_iter().max_by(|a, b| a.time.cmp(&b.time));
        let whole = last.filter(|last| is_whole(repository, last));
        let options = ParentOptions::default();
        Ok(match whole {
            Some(parent) => options.parents(vec![parent.id.to_hex().as_str().to_owned()]),
            None => options.force(true),
        })
    }
}

fn is_whole<S: IndexedTree>(repository: &Repository<S>, snapshot: &SnapshotFile) -> bool {
    let (mut unseen, mut seen) = (vec![snapshot.tree], HashSet::new());
    while let Some(id) = unseen.pop() {
        if seen.insert(id) {
            let Ok(tree) = repository.get_tree(&id) else { return false };
            unseen.extend(tree.nodes.iter().filter_map(|node| node.subtree));
        }
    }
    true
}
