//! Packs that a target has lost, though its indexes name them: a disk that went bad, somebody who
//! deleted a file. A backup that counts on them can't be restored.

use crate::Error;
use crate::store::Name;
use crate::vault::Vault;
use rustic_core::repofile::IndexFile;
use rustic_core::{FileType, Id, Open, ReadBackend, RepairIndexOptions, Repository};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// So many that a list lacks are looked for by themselves: a list may be behind.
const LOOKED_FOR: usize = 64;

impl Vault {
    /// Has the indexes name no packs that are lost, so that what they held counts as not there,
    /// and is sent again where there still is what it was made of. How many there were. Where a
    /// backup was cut off (`resumed`) packs that no index names yet are taken in, too.
    ///
    /// # Errors
    /// The target fails, or lets no index be replaced.
    pub(crate) fn take_stock<S: Open>(
        &self,
        repository: &Repository<S>,
        resumed: bool,
    ) -> Result<usize, Error> {
        let (named, marked) = self.named_packs(repository)?;
        let mut listed: HashMap<Id, u32> =
            self.told(self.courier().list_with_size(FileType::Pack))?.into_iter().collect();
        let lost = self.lost_of(&named, &mut listed)?;
        let is_new = |id: &Id| !named.contains_key(id) && !marked.contains(id);
        if lost.is_empty() && !(resumed && listed.keys().any(is_new)) {
            return Ok(0);
        }
        self.courier().take_for_listed(Some(listed.into_iter().collect()));
        let repaired = repository.repair_index(&RepairIndexOptions::default(), false);
        self.courier().take_for_listed(None);
        self.told(repaired).map_err(|error| match lost.first() {
            None => error,
            Some(first) => Error::Damaged(format!(
                "{}: {} of the packs that its indexes name are gone, {} for instance, and a backup \
                 would need them; its indexes can't be mended: {error}",
                self.target(),
                lost.len(),
                Name::new(FileType::Pack, first).path()
            )),
        })?;
        Ok(lost.len())
    }

    /// By the indexes, with their sizes; and those that are marked for removal.
    pub(crate) fn named_packs<S: Open>(
        &self,
        repository: &Repository<S>,
    ) -> Result<(BTreeMap<Id, u32>, BTreeSet<Id>), Error> {
        let (mut named, mut marked) = (BTreeMap::new(), BTreeSet::new());
        for one in self.told(repository.stream_files::<IndexFile>())? {
            let (_, index) = self.told(one)?;
            named.extend(index.packs.iter().map(|pack| (*pack.id, pack.pack_size())));
            marked.extend(index.packs_to_delete.iter().map(|pack| *pack.id));
        }
        Ok((named, marked))
    }

    /// What is there although it isn't in the list is put into it.
    fn lost_of(
        &self,
        named: &BTreeMap<Id, u32>,
        listed: &mut HashMap<Id, u32>,
    ) -> Result<BTreeSet<Id>, Error> {
        let unlisted: Vec<(&Id, &u32)> =
            named.iter().filter(|(id, size)| listed.get(*id) != Some(*size)).collect();
        let mut lost = BTreeSet::new();
        let (looked_for, others) = unlisted.split_at(unlisted.len().min(LOOKED_FOR));
        for (id, size) in looked_for {
            match self.courier().has(&Name::new(FileType::Pack, id), **size)? {
                true => drop(listed.insert(**id, **size)),
                false => drop(lost.insert(**id)),
            }
        }
        // Where one was there the list is behind, and says nothing of the rest.
        match lost.len() == LOOKED_FOR {
            true => lost.extend(others.iter().map(|(id, _)| **id)),
            false => listed.extend(others.iter().map(|(id, size)| (**id, **size))),
        }
        Ok(lost)
    }
}
