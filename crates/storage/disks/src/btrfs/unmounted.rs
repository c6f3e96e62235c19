use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::superblock::btrfs::devices::{self, ChunkTree, DeviceItem};
use crate::superblock::btrfs::{self as superblock, BtrfsSuper};
use braid_pool::disk::{Content, Disk, Family};
use braid_pool::observed::{BtrfsErrors, BtrfsMember, ExclusiveOperation, ObservedBtrfs, Scrub};
use braid_pool::untrusted::Untrusted;
use braid_pool::uuid::Uuid;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Adds the unmounted filesystems found by the disks' superblocks. The chunk tree lists the members
/// they should have; if it can't be read, each one lacking becomes a missing member with devid 0.
pub fn add(host: &HostRoot, inventory: &Inventory, all: &mut Vec<ObservedBtrfs>) {
    let mut by_filesystem: BTreeMap<_, Vec<(&Disk, BtrfsSuper)>> = BTreeMap::new();
    for disk in inventory.disks.iter().filter(|disk| is_btrfs(disk)) {
        let Ok(Some(found)) = superblock::read(&host.path(&disk.path)) else { continue };
        by_filesystem.entry(found.belongs_to).or_default().push((disk, found));
    }
    for mut members in by_filesystem.into_values() {
        let is_mounted = |uuid| all.iter().any(|mounted| mounted.uuid == uuid);
        if members.iter().any(|(_, found)| is_mounted(found.filesystem)) {
            continue;
        }
        // A disk that was replaced but not wiped has its successor's number: the newer one counts.
        // A multipath disk is seen by both paths; the one with another device on top isn't the one
        // to use.
        members.sort_by_key(|(disk, found)| {
            let is_in_use = disk.contents.iter().any(Content::is_in_use);
            (found.devid, Reverse(found.generation), is_in_use)
        });
        members.dedup_by_key(|(_, found)| found.devid);
        // The target of an interrupted replace: not a member yet, and of no use in reading the
        // others' tree.
        members.retain(|(_, found)| found.devid != 0);
        let Some((_, newest)) = members.iter().max_by_key(|(_, found)| found.generation) else {
            continue;
        };
        let newest = newest.clone();
        let tree = chunk_tree(host, &members, &newest).unwrap_or_default();
        // A device that was removed but not wiped is no longer in the tree.
        if !tree.devices.is_empty() {
            members.retain(|(_, found)| {
                tree.devices
                    .iter()
                    .any(|item| (item.devid, item.uuid) == (found.devid, found.device))
            });
        }
        let missing = missing(&members, &newest, &tree);
        all.push(of_superblocks(&members, &newest, &tree, missing));
    }
}

fn is_btrfs(disk: &Disk) -> bool {
    let is = |content: &Content| matches!(content, Content::Member { family: Family::Btrfs, .. });
    disk.contents.iter().any(is)
}

/// Those in the chunk tree that aren't present, or as many nameless ones as are lacking.
fn missing(
    members: &[(&Disk, BtrfsSuper)],
    newest: &BtrfsSuper,
    tree: &ChunkTree,
) -> Vec<BtrfsMember> {
    let absent = newest.devices.saturating_sub(members.len() as u64).min(MOST_DEVICES);
    if absent == 0 {
        return Vec::new();
    }
    let nobody = DeviceItem {
        devid: 0,
        uuid: Uuid::from_bytes([0; 16]),
        total_bytes: 0,
        allocated_bytes: 0,
    };
    let is_there = |item: &&DeviceItem| members.iter().any(|(_, found)| found.devid == item.devid);
    let gone: Vec<DeviceItem> =
        tree.devices.iter().filter(|item| !is_there(item)).copied().collect();
    let unknown = (gone.len() as u64..absent).map(|_| nobody);
    gone.iter().copied().chain(unknown).map(absent_member).collect()
}

fn chunk_tree(
    host: &HostRoot,
    members: &[(&Disk, BtrfsSuper)],
    newest: &BtrfsSuper,
) -> Option<ChunkTree> {
    let (disk, _) = members.iter().find(|(_, found)| found.devid == newest.devid)?;
    let superblock = devices::superblock(&host.path(&disk.path))?;
    // A member that missed writes may have old nodes in the same places.
    let current = |(_, found): &&(&Disk, BtrfsSuper)| found.generation == newest.generation;
    let paths = members.iter().filter(current);
    let paths = paths.map(|(disk, found)| (found.devid, host.path(&disk.path))).collect();
    devices::read(&superblock, &paths)
}

fn of_superblocks(
    members: &[(&Disk, BtrfsSuper)],
    newest: &BtrfsSuper,
    tree: &ChunkTree,
    missing: Vec<BtrfsMember>,
) -> ObservedBtrfs {
    ObservedBtrfs {
        uuid: newest.filesystem,
        label: newest.label.clone().map(Untrusted),
        members: members.iter().map(|(disk, found)| of_disk(disk, found)).chain(missing).collect(),
        space: Vec::new(),
        profiles_on_disk: tree.profiles.clone(),
        exclusive_operation: ExclusiveOperation::None,
        scrub: Scrub::default(),
        quotas: false,
        mounts: Vec::new(),
        generation: newest.generation,
        nodatacow: Vec::new(),
    }
}

/// A superblock may say anything.
const MOST_DEVICES: u64 = 1_024;

fn of_disk(disk: &Disk, found: &BtrfsSuper) -> BtrfsMember {
    BtrfsMember {
        devid: found.devid,
        uuid: Some(found.device),
        path: Some(disk.path.clone()),
        disk: Some(disk.member_id()),
        size_bytes: found.device_bytes,
        device_bytes: Some(disk.size_bytes),
        allocated_bytes: found.allocated_bytes,
        missing: false,
        fault: None,
        errors: BtrfsErrors::default(),
        uncorrectable: 0,
        generation: Some(found.generation),
    }
}

fn absent_member(item: DeviceItem) -> BtrfsMember {
    BtrfsMember {
        devid: item.devid,
        uuid: (item.devid != 0).then_some(item.uuid),
        path: None,
        disk: None,
        size_bytes: item.total_bytes,
        device_bytes: None,
        allocated_bytes: item.allocated_bytes,
        missing: true,
        fault: None,
        errors: BtrfsErrors::default(),
        uncorrectable: 0,
        generation: None,
    }
}
