//! Open LUKS volumes as disks: their identity, and the disk below.

use crate::block_device::{self, BlockDevice};
use crate::host_root::HostRoot;
use crate::identity::{self, Identities};
use braid_pool::disk::Disk;
use braid_pool::luks::Mapping;
use braid_pool::uuid::Uuid;

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

/// The LUKS volume open through this device, and the device below, if it is a mapping of one.
/// dm(4)'s UUID of one is `CRYPT-LUKS2-`, the volume's UUID without dashes, `-`, its name.
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
