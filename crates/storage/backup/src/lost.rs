//! Packs that the indexes name but the target has lost: a disk went bad, or somebody deleted a
//! file. A backup that refers to them can't be restored.

use crate::Error;
use crate::store::Name;
use crate::target::LONGEST_BEHIND;
use crate::vault::Vault;
use jiff::{SignedDuration, Timestamp};
use rustic_core::repofile::IndexFile;
use rustic_core::{FileType, Id, Open, ReadBackend, RepairIndexOptions, Repository};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many packs missing from the list are looked up one by one, besides all recent ones: a
/// listing may be out of date.
const LOOKED_FOR: usize = 64;

/// Packs that indexes name.
#[derive(Default)]
pub(crate) struct Named {
    /// With their sizes.
    pub(crate) packs: BTreeMap<Id, u32>,
    /// Those of them that were written within a day.
    young: BTreeSet<Id>,
    /// Packs that are marked for removal.
    marked: BTreeSet<Id>,
}

impl Named {
    /// No index knows of it.
    pub(crate) fn is_new(&self, id: &Id) -> bool {
        !self.packs.contains_key(id) && !self.marked.contains(id)
    }
}

impl Vault {
    /// Drops lost packs from the indexes, so that what they held is sent again where its source
    /// still exists, and returns how many there were. After an interrupted backup (`resumed`) packs
    /// that no index names yet are added.
    ///
    /// # Errors
    /// The target fails, or lets no index be replaced.
    pub(crate) fn take_stock<S: Open>(
        &self,
        repository: &Repository<S>,
        resumed: bool,
    ) -> Result<usize, Error> {
        let named = self.named_packs(repository)?;
        let (lost, listed) = self.lost_of(&named)?;
        if lost.is_empty() && !(resumed && listed.keys().any(|id| named.is_new(id))) {
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

    /// The packs that the indexes name.
    pub(crate) fn named_packs<S: Open>(&self, repository: &Repository<S>) -> Result<Named, Error> {
        let since = self
            .courier()
            .now()
            .checked_sub(SignedDuration::try_from(LONGEST_BEHIND).unwrap_or(SignedDuration::MAX));
        let since = since.unwrap_or(Timestamp::MIN);
        let mut named = Named::default();
        for one in self.told(repository.stream_files::<IndexFile>())? {
            let (_, index) = self.told(one)?;
            let young = index.packs.iter().filter(|pack| pack.time.is_some_and(|it| it > since));
            named.young.extend(young.map(|pack| *pack.id));
            named.packs.extend(index.packs.iter().map(|pack| (*pack.id, pack.pack_size())));
            named.marked.extend(index.packs_to_delete.iter().map(|pack| *pack.id));
        }
        Ok(named)
    }

    /// The named packs that are lost, and the target's list of packs with their sizes, to which
    /// packs are added that exist although they weren't listed.
    pub(crate) fn lost_of(&self, named: &Named) -> Result<(BTreeSet<Id>, HashMap<Id, u32>), Error> {
        let mut listed: HashMap<Id, u32> =
            self.told(self.courier().list_with_size(FileType::Pack))?.into_iter().collect();
        let unlisted: Vec<(Id, u32)> = named
            .packs
            .iter()
            .filter(|(id, size)| listed.get(*id) != Some(*size))
            .map(|(id, size)| (*id, *size))
            .collect();
        let mut lost = BTreeSet::new();
        let (looked_for, others) = unlisted.split_at(unlisted.len().min(LOOKED_FOR));
        for (id, size) in looked_for {
            match self.courier().has(&Name::new(FileType::Pack, id), *size)? {
                true => drop(listed.insert(*id, *size)),
                false => drop(lost.insert(*id)),
            }
        }
        // If one of them exists the list is out of date, so older ones may exist as well.
        let is_behind = lost.len() < looked_for.len();
        for (id, size) in others {
            let is_there = match named.young.contains(id) {
                true => {
                    let last = u64::from(*size).saturating_sub(1)..u64::from(*size);
                    self.courier().part(&Name::new(FileType::Pack, id), last)?.is_some()
                }
                false => is_behind,
            };
            match is_there {
                true => drop(listed.insert(*id, *size)),
                false => drop(lost.insert(*id)),
            }
        }
        Ok((lost, listed))
    }
}
