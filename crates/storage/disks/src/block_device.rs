//! Block devices as sysfs shows them.

use crate::host_root::HostRoot;
use crate::scope;

/// A disk, a partition or a device composed of others, as described in the kernel's
/// Documentation/ABI/stable/sysfs-block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name, with `!` for `/`: `sda`, `sda5`, `cciss!c0d0`.
    pub name: String,
    /// Its directory: `sys/block/sda/sda5`.
    pub sysfs: String,
    /// Device number.
    pub number: (u32, u32),
    /// Its size.
    pub size_bytes: u64,
    /// It can't be written to.
    pub read_only: bool,
    /// Whether the whole disk says that it is removable.
    pub removable: bool,
    /// `queue/rotational` of the whole disk.
    pub rotational: bool,
    /// `queue/logical_block_size`.
    pub logical_sector_bytes: u32,
    /// `queue/physical_block_size`.
    pub physical_sector_bytes: u32,
    /// For a partition.
    pub partition: Option<PartitionOf>,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// Devices built on top of it.
    pub holders: Vec<String>,
    /// Devices that it consists of.
    pub slaves: Vec<String>,
}

/// A partition's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOf {
    /// The whole disk's kernel name.
    pub disk: String,
    /// Number in the table.
    pub number: u32,
    /// Where it begins.
    pub start_bytes: u64,
}

/// sysfs counts in these, whatever the disk's sector size.
const SYSFS_SECTOR: u64 = 512;

/// All whole disks, each followed by its partitions. Memory disks, and loop and network devices
/// with nothing attached, are left out.
pub fn all(host: &HostRoot) -> Vec<BlockDevice> {
    let mut devices = Vec::new();
    for name in host.names("sys/block") {
        let Some(disk) = whole(host, &name) else { continue };
        if is_placeholder(&disk) {
            continue;
        }
        let partitions: Vec<BlockDevice> =
            disk.partitions.iter().filter_map(|part| partition(host, &disk, part)).collect();
        devices.push(disk);
        devices.extend(partitions);
    }
    devices
}

/// One device by the kernel's name, be it a disk or a partition.
pub fn one(host: &HostRoot, name: &str) -> Option<BlockDevice> {
    if let Some(disk) = whole(host, name) {
        return Some(disk);
    }
    let disk = host
        .names("sys/block")
        .into_iter()
        .find(|disk| host.has(format!("sys/block/{disk}/{name}/partition")))?;
    partition(host, &whole(host, &disk)?, name)
}

impl BlockDevice {
    /// The node in `/dev`.
    pub fn path(&self) -> String {
        node(&self.name)
    }

    /// Kernel name of the whole disk.
    pub fn whole_disk(&self) -> &str {
        self.partition.as_ref().map_or(&self.name, |partition| &partition.disk)
    }
}

/// The node in `/dev` of a kernel name.
pub fn node(name: &str) -> String {
    format!("/dev/{}", name.replace('!', "/"))
}

/// The kernel name of a node, the inverse of `node`.
pub fn name_of(node: &str) -> Option<String> {
    Some(node.strip_prefix("/dev/")?.replace('/', "!"))
}

fn whole(host: &HostRoot, name: &str) -> Option<BlockDevice> {
    // A name is one part of a path.
    if name.is_empty() || name.contains('/') || name.starts_with('.') || !scope::has(host, name) {
        return None;
    }
    let sysfs = format!("sys/block/{name}");
    let number = device_number(host, &sysfs)?;
    let queue = |file: &str| host.number::<u32>(format!("{sysfs}/queue/{file}"));
    let logical = queue("logical_block_size").unwrap_or(SYSFS_SECTOR as u32);
    let mut partitions: Vec<String> = host
        .names(&sysfs)
        .into_iter()
        .filter(|part| host.has(format!("{sysfs}/{part}/partition")))
        .collect();
    partitions.sort_by_key(|part| host.number::<u32>(format!("{sysfs}/{part}/partition")));
    Some(BlockDevice {
        name: name.to_owned(),
        number,
        size_bytes: size(host, &sysfs),
        read_only: host.flag(format!("{sysfs}/ro")),
        removable: host.flag(format!("{sysfs}/removable")),
        rotational: queue("rotational") == Some(1),
        logical_sector_bytes: logical,
        physical_sector_bytes: queue("physical_block_size").unwrap_or(logical),
        partition: None,
        partitions,
        holders: host.names(format!("{sysfs}/holders")),
        slaves: host.names(format!("{sysfs}/slaves")),
        sysfs,
    })
}

fn partition(host: &HostRoot, disk: &BlockDevice, name: &str) -> Option<BlockDevice> {
    let sysfs = format!("{}/{name}", disk.sysfs);
    let start: u64 = host.number(format!("{sysfs}/start"))?;
    Some(BlockDevice {
        name: name.to_owned(),
        number: device_number(host, &sysfs)?,
        size_bytes: size(host, &sysfs),
        read_only: disk.read_only || host.flag(format!("{sysfs}/ro")),
        partition: Some(PartitionOf {
            disk: disk.name.clone(),
            number: host.number(format!("{sysfs}/partition"))?,
            start_bytes: start.saturating_mul(SYSFS_SECTOR),
        }),
        partitions: Vec::new(),
        holders: host.names(format!("{sysfs}/holders")),
        slaves: host.names(format!("{sysfs}/slaves")),
        sysfs,
        ..disk.clone()
    })
}

fn size(host: &HostRoot, sysfs: &str) -> u64 {
    host.number::<u64>(format!("{sysfs}/size")).unwrap_or(0).saturating_mul(SYSFS_SECTOR)
}

fn device_number(host: &HostRoot, sysfs: &str) -> Option<(u32, u32)> {
    let text = host.word(format!("{sysfs}/dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Nodes that exist even with nothing behind them, and disks in memory.
fn is_placeholder(disk: &BlockDevice) -> bool {
    let is = |prefix: &str| disk.name.starts_with(prefix);
    is("ram") || is("zram") || (disk.size_bytes == 0 && (is("loop") || is("nbd") || is("md")))
}
