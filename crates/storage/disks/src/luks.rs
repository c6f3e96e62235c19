//! LUKS volumes, and those that are open.

use crate::block_device;
use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::superblock::luks;
use braid_pool::disk::{Content, Disk};
use braid_pool::luks::{Header, LuksVolume, Mapping, pool_of_label, pool_of_subsystem};
use braid_pool::planner::PoolName;

/// The volumes on all disks of the inventory, open or not; also open ones that have lost their
/// header.
pub fn volumes(host: &HostRoot, inventory: &Inventory) -> Vec<LuksVolume> {
    let open = |path: &str| {
        let mut mappings = inventory.disks.iter().filter_map(|disk| disk.mapping.as_ref());
        mappings.find(|mapping| mapping.over == path)
    };
    let volume = |disk: &Disk| {
        let open = open(&disk.path).cloned();
        if !carries_luks(disk) && open.is_none() {
            return None;
        }
        let found = luks::read(&host.path(&disk.path)).ok().flatten();
        let found = match (found, &open) {
            (Some(found), Some(open)) if found.uuid != open.volume => gone(open),
            (Some(found), _) => found,
            (None, Some(open)) => gone(open),
            (None, None) => return None,
        };
        let label = found.label.as_deref().and_then(pool_of_label).map(str::to_owned);
        let by_name = || pool_of_mapping(open.as_ref()?);
        Some(LuksVolume {
            uuid: found.uuid,
            path: disk.path.clone(),
            disk: disk.id(),
            pool: label.or_else(by_name),
            pool_uuid: found.subsystem.as_deref().and_then(pool_of_subsystem),
            header: found.header,
            slots: found.slots,
            discards: found.discards,
            open,
        })
    };
    let mut found: Vec<LuksVolume> = inventory.disks.iter().filter_map(volume).collect();
    let all = found.clone();
    found.retain(|volume| volume.open.is_some() || !is_below_another(inventory, volume, &all));
    found
}

/// A multipath disk's paths are seen, too, with other devices on top; they aren't the ones to use.
fn is_below_another(inventory: &Inventory, volume: &LuksVolume, all: &[LuksVolume]) -> bool {
    let is_held = |content: &Content| matches!(content, Content::Holder { .. });
    let disk = inventory.by_path(&volume.path);
    disk.is_some_and(|disk| disk.contents.iter().any(is_held))
        && all.iter().any(|other| other.uuid == volume.uuid && other.path != volume.path)
}

fn carries_luks(disk: &Disk) -> bool {
    let is = |content: &Content| matches!(content, Content::Filesystem { kind, .. } if kind == "crypto_LUKS");
    disk.contents.iter().any(is)
}

/// What is known about an open volume without its header.
fn gone(open: &Mapping) -> luks::LuksSuper {
    luks::LuksSuper {
        uuid: open.volume,
        label: None,
        subsystem: None,
        header: Header::Gone,
        slots: Vec::new(),
        discards: false,
        sequence: 0,
        fingerprint: [0; 32],
    }
}

/// `data` of `luks-data-3f2a91bc`.
fn pool_of_mapping(open: &Mapping) -> Option<String> {
    let pool = open.name.strip_prefix("luks-")?.rsplit_once('-')?.0;
    let is_its = open.name == braid_pool::luks::mapping_name(pool, open.volume);
    (is_its && pool.parse::<PoolName>().is_ok()).then(|| pool.to_owned())
}

/// A temporary mapping that cryptsetup makes to read or write a key slot where the kernel's ciphers
/// can't be used otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Its name.
    pub name: String,
    /// Whether the cryptsetup that made it still runs.
    pub is_used: bool,
}

/// Those on the device of this node. If its cryptsetup is killed, a mapping stays and keeps the
/// disk busy.
pub fn passing(host: &HostRoot, node: &str) -> Vec<Passing> {
    const NAME: &str = "temporary-cryptsetup-";
    let Some(device) = block_device::name_of(node) else { return Vec::new() };
    let Some(device) = block_device::one(host, &device) else { return Vec::new() };
    let passing = |holder: &String| {
        let name = host.word(format!("sys/block/{holder}/dm/name"))?;
        let process = name.strip_prefix(NAME)?;
        let runs = host.word(format!("proc/{process}/comm")).as_deref() == Some("cryptsetup");
        Some(Passing { is_used: runs, name })
    };
    device.holders.iter().filter_map(passing).collect()
}
