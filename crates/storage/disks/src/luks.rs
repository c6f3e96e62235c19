//! LUKS volumes, and what is opened of them.

use crate::block_device::{self, BlockDevice};
use crate::host_root::HostRoot;
use crate::identity::{self, Identities};
use crate::inventory::Inventory;
use crate::superblock::luks;
use braid_pool::disk::{Content, Disk};
use braid_pool::luks::{Header, LuksVolume, Mapping, pool_of_label, pool_of_subsystem};
use braid_pool::planner::PoolName;
use braid_pool::uuid::Uuid;

/// The volumes on all disks of the inventory, open or not; also those that are open and have lost
/// their header.
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

/// Of a multipath disk its paths are seen, too, which other devices are built on; they aren't the
/// ones to use.
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

/// What is known of an open volume without its header.
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

/// A disk of the inventory; the mapping of a LUKS volume gets its serial number, kind and disk from
/// what is below it.
pub fn seen_through(
    host: &HostRoot,
    device: &BlockDevice,
    identities: &Identities<'_>,
    mut disk: Disk,
) -> Disk {
    let Some((mapping, below)) = mapping(host, device, identities) else { return disk };
    let identity = identities.identity(&below);
    disk.identity.serial = identity.serial;
    disk.identity.wwn = identity.wwn;
    disk.identity.model = identity.model;
    disk.identity.by_id = Some(format!("/dev/mapper/{}", mapping.name));
    disk.kind = identity::kind(host, &below);
    disk.removable = below.removable;
    disk.mapping = Some(mapping);
    disk
}

/// A mapping that cryptsetup makes for a moment, to read or write a key slot where the kernel's
/// ciphers can't be used otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Its name.
    pub name: String,
    /// Whether the cryptsetup that made it still runs.
    pub is_used: bool,
}

/// Those on the device of this node. One stays for good when its cryptsetup is killed, and keeps
/// the disk busy.
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

/// What is open by this device, and on what, if it is a mapping of one LUKS volume. dm(4)'s UUID of
/// one is `CRYPT-LUKS2-`, the volume's UUID without dashes, `-`, its name.
fn mapping(
    host: &HostRoot,
    device: &BlockDevice,
    identities: &Identities<'_>,
) -> Option<(Mapping, BlockDevice)> {
    let word = |file: &str| host.word(format!("{}/dm/{file}", device.sysfs));
    let (uuid, name) = (word("uuid")?, word("name")?);
    let rest = uuid.strip_prefix("CRYPT-LUKS").and_then(|rest| rest.get(2..))?;
    let volume: Uuid = rest.get(..32)?.parse().ok()?;
    let [below] = device.slaves.as_slice() else { return None };
    let below = block_device::one(host, below)?;
    let disk = Disk::unexamined(
        below.path(),
        identities.identity(&below),
        below.size_bytes,
        identity::kind(host, &below),
    );
    let partition = below.partition.as_ref().map(|part| braid_pool::disk::Partition {
        disk: block_device::node(&part.disk),
        number: part.number,
        start_bytes: part.start_bytes,
    });
    let mapping = Mapping {
        name,
        node: device.path(),
        volume,
        over: below.path(),
        disk: Disk { partition, ..disk }.id(),
        whole_disk: block_device::node(below.whole_disk()),
    };
    Some((mapping, below))
}
