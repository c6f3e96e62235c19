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
    /// and is sent again where there still is what it was made of. How many there were.
    ///
    /// # Errors
    /// The target fails, or lets no index be replaced.
    pub(crate) fn forget_lost<S: Open>(&self, repository: &Repository<S>) -> Result<usize, Error> {
        let named = self.named_packs(repository)?;
        let lost = self.lost_of(&named)?;
        let Some(first) = lost.first() else { return Ok(0) };
        let repaired = repository.repair_index(&RepairIndexOptions::default(), false);
        self.told(repaired).map_err(|error| {
            let name = Name::new(FileType::Pack, first);
            Error::Damaged(format!(
                "{}: {} of the packs that its indexes name are gone, {} for instance, and a backup \
                 would need them; its indexes can't be mended: {error}",
                self.target(),
                lost.len(),
                name.path()
            ))
        })?;
        // What a list left out that was behind is taken in again.
        let still = self.named_packs(repository)?;
        if named.keys().any(|id| !lost.contains(id) && !still.contains_key(id)) {
            self.told(repository.repair_index(&RepairIndexOptions::default(), false))?;
        }
        Ok(lost.len())
    }

    /// By the indexes, with their sizes.
    fn named_packs<S: Open>(&self, repository: &Repository<S>) -> Result<BTreeMap<Id, u32>, Error> {
        let mut named = BTreeMap::new();
        for one in self.told(repository.stream_files::<IndexFile>())? {
            let (_, index) = self.told(one)?;
            named.extend(index.packs.iter().map(|pack| (*pack.id, pack.pack_size())));
        }
        Ok(named)
    }

    fn lost_of(&self, named: &BTreeMap<Id, u32>) -> Result<BTreeSet<Id>, Error> {
        let courier = self.courier();
        let listed: HashMap<Id, u32> =
            self.told(courier.list_with_size(FileType::Pack))?.into_iter().collect();
        let unlisted: Vec<(&Id, &u32)> =
            named.iter().filter(|(id, size)| listed.get(*id) != Some(*size)).collect();
        let mut lost = BTreeSet::new();
        for (id, size) in unlisted.iter().take(LOOKED_FOR) {
            if !courier.has(&Name::new(FileType::Pack, id), **size)? {
                lost.insert(**id);
            }
        }
        // Where one was there the list is behind, and says nothing of the rest.
        if lost.len() == LOOKED_FOR {
            lost.extend(unlisted.iter().skip(LOOKED_FOR).map(|(id, _)| **id));
        }
        Ok(lost)
    }
}
