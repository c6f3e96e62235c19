//! Repairs packs that are damaged at the target. Blobs that are still readable are kept; the others
//! are dropped from the indexes, so that the next backup sends them again. What no backup sends
//! again can be removed from the backups that refer to it.

use crate::Error;
use crate::heard;
use crate::pack::{self, Inspected};
use crate::quiet::caught;
use crate::short_id::short_id;
use crate::target::LONGEST_BEHIND;
use crate::vault::{INCOMPLETE, Present, Vault, present};
use crate::walk::{Lack, Walk};
use rustic_core::repofile::{IndexFile, IndexId, IndexPack, SnapshotFile};
use rustic_core::{BlobId, FileType, Id, ReadBackend, RepairSnapshotsOptions, WriteBackend};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The tag of backups from which lost data was removed.
const REPAIRED: &str = "repaired";
/// Suffix of a file that has lost a part of its contents.
const SUFFIX: &str = ".repaired";

/// What is wanted.
pub struct Repair<'a> {
    /// Where.
    pub vault: &'a Vault,
    /// Packs to read, by name or prefix, as a check reports them; of all others only the size is
    /// compared. `None`: every pack is read.
    pub known: Option<BTreeSet<String>>,
}

/// What is wrong there.
#[derive(Clone, Debug, Serialize)]
pub struct Damage {
    /// Packs that were read.
    pub read_packs: usize,
    /// Their bytes.
    pub read_bytes: u64,
    /// Packs that are damaged, or gone.
    pub packs: Vec<DamagedPack>,
    /// Backups that lack data now, or will once the packs are repaired; oldest first.
    pub backups: Vec<Lacking>,
}

/// A pack that isn't what it should be.
#[derive(Clone, Debug, Serialize)]
pub struct DamagedPack {
    /// Its name.
    pub id: String,
    /// It isn't there at all.
    pub gone: bool,
    /// How many of its blobs are readable, and kept.
    pub kept: usize,
    /// How many aren't.
    pub lost: usize,
}

/// A backup that lacks something.
#[derive(Clone, Debug, Serialize)]
pub struct Lacking {
    /// Which.
    #[serde(flatten)]
    pub backup: Present,
    /// What.
    #[serde(flatten)]
    pub lack: Lack,
}

impl Repair<'_> {
    /// Looks; changes nothing.
    ///
    /// # Errors
    /// The target can't be reached, or its indexes can't be read.
    pub fn look(&self) -> Result<Damage, Error> {
        let vault = self.vault;
        let repository = vault.repository(false)?;
        // Before the indexes: those of each that is listed are there then.
        let mut snapshots = vault.told(repository.get_all_snapshots())?;
        snapshots.sort_by_key(|snapshot| snapshot.time.timestamp());
        let listed: HashMap<Id, u32> =
            vault.told(vault.courier().list_with_size(FileType::Pack))?.into_iter().collect();
        let mut seen = HashSet::new();
        let mut damage = Damage { read_packs: 0, read_bytes: 0, packs: vec![], backups: vec![] };
        let mut broken: HashMap<Id, Vec<BlobId>> = HashMap::new();
        for one in vault.told(repository.stream_files::<IndexFile>())? {
            let (_, index) = vault.told(one)?;
            let mut packs = index.packs;
            packs.retain(|pack| {
                let is_as_listed = listed.get(&*pack.id) == Some(&pack.pack_size());
                seen.insert(*pack.id) && (self.is_to_be_read(pack) || !is_as_listed)
            });
            for (pack, inspected) in self.inspect(&packs)? {
                damage.read_packs += 1;
                damage.read_bytes += u64::from(pack.pack_size());
                // Only the expected length is read: a file that has grown is intact that far.
                let is_longer = listed.get(&*pack.id).is_some_and(|size| *size > pack.pack_size());
                if inspected.is_whole && !is_longer {
                    continue;
                }
                damage.packs.push(DamagedPack {
                    id: pack.id.to_hex().as_str().to_owned(),
                    gone: inspected.is_gone,
                    kept: inspected.good.len(),
                    lost: inspected.bad.len(),
                });
                broken.insert(*pack.id, inspected.bad);
            }
        }
        damage.packs.sort_by(|a, b| a.id.cmp(&b.id));
        let lost = self.found_nowhere(&broken)?;
        let repository = vault.told(repository.to_indexed())?;
        let mut walk = Walk::new(vault, &repository, &lost);
        for snapshot in &snapshots {
            let lack = walk.lack_of(snapshot)?;
            if lack.is_some() {
                damage.backups.push(Lacking { backup: present(snapshot), lack });
            }
        }
        Ok(damage)
    }

    fn is_to_be_read(&self, pack: &IndexPack) -> bool {
        let Some(known) = &self.known else { return true };
        let id = pack.id.to_hex();
        known.iter().any(|known| !known.is_empty() && id.starts_with(known.as_str()))
    }

    /// Several at a time.
    fn inspect<'a>(
        &self,
        packs: &'a [IndexPack],
    ) -> Result<Vec<(&'a IndexPack, Inspected<BlobId>)>, Error> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Ok(vec![]));
        let work = || {
            while let Some(pack) = packs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let inspected = pack::inspect(self.vault, pack).map(Inspected::without_content);
                let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                match (inspected, &mut *found) {
                    (Ok(inspected), Ok(all)) => all.push((pack, inspected)),
                    (Err(error), Ok(_)) => *found = Err(error),
                    (_, Err(_)) => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.vault.target_options().connections.max(1) {
                scope.spawn(work);
            }
        });
        found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Blobs that were lost with broken packs and are in no other pack.
    fn found_nowhere(&self, broken: &HashMap<Id, Vec<BlobId>>) -> Result<HashSet<Id>, Error> {
        let mut lost: HashSet<Id> = broken.values().flatten().map(|blob| **blob).collect();
        if lost.is_empty() {
            return Ok(lost);
        }
        let vault = self.vault;
        let repository = vault.repository(false)?;
        for one in vault.told(repository.stream_files::<IndexFile>())? {
            let (_, index) = vault.told(one)?;
            for pack in index.packs {
                let bad = broken.get(&*pack.id);
                for blob in pack.blobs {
                    if bad.is_none_or(|bad| !bad.contains(&blob.id)) {
                        lost.remove(&*blob.id);
                    }
                }
            }
        }
        Ok(lost)
    }

    /// Saves the readable blobs of damaged packs and drops the others from the indexes. Safe to
    /// interrupt: the next run finishes the repair.
    ///
    /// # Errors
    /// The target fails, or lets nothing be removed.
    pub fn mend(&self, damage: &Damage) -> Result<(), Error> {
        let vault = self.vault;
        let broken: HashSet<Id> =
            damage.packs.iter().filter_map(|pack| pack.id.parse().ok()).collect();
        if broken.is_empty() {
            return Ok(());
        }
        let repository = vault.repository(false)?;
        let courier = vault.courier();
        let before = courier.delivery().written.len();
        let mut named: Vec<(IndexId, IndexFile)> = vec![];
        for one in vault.told(repository.stream_files::<IndexFile>())? {
            let (id, index) = vault.told(one)?;
            if index.packs.iter().chain(&index.packs_to_delete).any(|it| broken.contains(&*it.id)) {
                named.push((id, index));
            }
        }
        // Readable blobs are stored and indexed elsewhere before the damaged pack is removed.
        let mut kept = IndexFile::default();
        let mut done = HashSet::new();
        for pack in named.iter().flat_map(|(_, index)| &index.packs) {
            if broken.contains(&*pack.id) && done.insert(*pack.id) {
                kept.packs.extend(pack::write_good(vault, pack)?);
            }
        }
        if !kept.packs.is_empty() {
            vault.write_index(&kept)?;
        }
        courier.look_again(before)?;
        // A target that forbids deletion refuses here, with nothing changed yet. One that reported
        // a pack as gone may have been wrong.
        let there = damage.packs.iter().filter(|pack| !pack.gone);
        for id in there.filter_map(|pack| pack.id.parse().ok()) {
            vault.told(courier.remove(FileType::Pack, &id, false))?;
        }
        for (id, mut index) in named {
            index.packs.retain(|pack| !broken.contains(&*pack.id));
            index.packs_to_delete.retain(|pack| !broken.contains(&*pack.id));
            if !index.packs.is_empty() || !index.packs_to_delete.is_empty() {
                vault.write_index(&index)?;
            }
            vault.told(courier.remove(FileType::Index, &id, false))?;
        }
        courier.look_again(before)
    }

    /// Removes lost data from the backups that refer to it, and returns how many there were. What
    /// is left of a file gets another name, and its backup counts as incomplete.
    ///
    /// # Errors
    /// The target fails, or lets nothing be removed.
    pub fn drop_lost(&self, damage: &Damage) -> Result<usize, Error> {
        let vault = self.vault;
        if damage.backups.is_empty() {
            return Ok(0);
        }
        let _heard = heard::listen();
        if vault.target().lists_may_be_behind() {
            self.refuse_lists_behind(damage)?;
        }
        let repository = vault.told(vault.repository(false)?.to_indexed())?;
        let lacking: HashSet<&str> =
            damage.backups.iter().map(|one| one.backup.id.as_str()).collect();
        let mut by_tags: HashMap<BTreeSet<String>, Vec<SnapshotFile>> = HashMap::new();
        for snapshot in vault.told(repository.get_all_snapshots())? {
            if lacking.contains(snapshot.id.to_hex().as_str()) {
                let mut tags: BTreeSet<String> = snapshot.tags.iter().cloned().collect();
                tags.extend([INCOMPLETE, REPAIRED].map(str::to_owned));
                by_tags.entry(tags).or_default().push(snapshot);
            }
        }
        // The library replaces every backup's own tags by the same set.
        for (tags, snapshots) in by_tags {
            let mut list = rustic_core::StringList::default();
            tags.iter().for_each(|tag| list.add(tag.clone()));
            let mut options = RepairSnapshotsOptions::default();
            (options.delete, options.suffix, options.tag) = (true, SUFFIX.to_owned(), vec![list]);
            let repaired = caught(|| repository.repair_snapshots(&options, snapshots, false));
            match repaired {
                Ok(repaired) => vault.told(repaired)?,
                Err(said) => return Err(vault.courier().error_of(said)),
            }
        }
        Ok(lacking.len())
    }

    /// Otherwise packs that an index names, but that aren't listed yet, would count as lost.
    fn refuse_lists_behind(&self, damage: &Damage) -> Result<(), Error> {
        let vault = self.vault;
        let repository = vault.repository(false)?;
        vault.take_stock(&repository, true)?;
        let listed = vault.told(vault.courier().list_with_size(FileType::Pack))?;
        let named = vault.named_packs(&repository)?;
        let unnamed = listed.iter().filter(|(id, _)| named.is_new(id)).count();
        if unnamed > 0 {
            return Err(vault.are_behind(&format!("no index names {unnamed} of its packs")));
        }
        let now = vault.courier().now();
        let now = Duration::try_from(now.as_duration()).unwrap_or_default();
        let is_young = |it: &&Lacking| it.backup.taken + LONGEST_BEHIND > now;
        match damage.backups.iter().find(is_young) {
            None => Ok(()),
            Some(young) => Err(vault.are_behind(&format!(
                "{} lacks something, and was made less than a day ago",
                short_id(&young.backup.id)
            ))),
        }
    }
}

impl Vault {
    fn write_index(&self, index: &IndexFile) -> Result<(), Error> {
        let text = serde_json::to_vec(index).map_err(|error| Error::Format(error.to_string()))?;
        let (id, content) = pack::sealed_file(self, &text)?;
        self.told(self.courier().write_bytes(FileType::Index, &id, false, content.into()))
    }
}
