//! Every disk and partition of a host, with what is on it.

use crate::blankness;
use crate::block_device::{self, BlockDevice};
use crate::host_root::HostRoot;
use crate::identity::{self, Identities};
use crate::mapping;
use crate::mount_table::{MountTable, active_swaps};
use crate::mounted_btrfs;
use crate::signature::{self, Signatures};
use crate::smart::{self, ErrorRecovery, Smart, SmartError};
use crate::superblock::read_at;
use crate::tool::ToolError;
use braid_pool::disk::{Content, Disk, DiskKind, Health, Partition};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Whole disks, each followed by its partitions. md arrays are pools, not disks.
    pub disks: Vec<Disk>,
    /// What could not be found out, for the user to read.
    pub notes: Vec<String>,
    /// Contents of the running md arrays, by kernel name.
    pub arrays: BTreeMap<String, Signatures>,
    /// The disks' error recovery settings, by the path of the whole disk; only with
    /// [`AskSmart::Yes`].
    pub error_recovery: BTreeMap<String, ErrorRecovery>,
}

/// Whether to ask the disks for their health, which takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskSmart {
    /// Ask those that are awake.
    Yes,
    /// Leave [`Health::Unknown`].
    No,
}

/// What the user wrote for a disk names none, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchDisk {
    /// None.
    #[error("{0} is no disk or partition of this host; `braid pool disks` lists them")]
    Unknown(String),
    /// More than one.
    #[error("{name} may be {candidates}; write the path under /dev/disk/by-id")]
    Ambiguous {
        /// What the user wrote.
        name: String,
        /// The paths that match.
        candidates: String,
    },
}

impl Inventory {
    /// Looks at everything.
    pub fn take(host: &HostRoot, ask_smart: AskSmart) -> Self {
        let mut inventory = Inventory::of(host, |_| true);
        if ask_smart == AskSmart::Yes {
            inventory.ask_health();
        }
        inventory
    }

    /// Looks at the whole disks whose kernel name `wanted` accepts, and their partitions.
    fn of(host: &HostRoot, wanted: impl Fn(&str) -> bool) -> Self {
        let (arrays, mut devices): (Vec<BlockDevice>, Vec<BlockDevice>) =
            block_device::all(host).into_iter().partition(is_array);
        let identities = Identities::of(host, &devices);
        let mut inventory = Inventory::default();
        inventory.notes.extend(identities.shared_serials().keys().map(|serial| {
            format!(
                "several disks have the serial number {serial}: each goes by its WWN, by-id name or path instead"
            )
        }));
        devices.retain(|device| wanted(device.whole_disk()));
        let arrays = arrays.into_iter().filter(|it| it.partition.is_none() && wanted(&it.name));
        let looked_at: Vec<BlockDevice> = devices.iter().cloned().chain(arrays).collect();
        let mut seen = signature::look(host, &looked_at);
        let on_arrays = seen.split_off(devices.len());
        let names = looked_at.into_iter().skip(devices.len()).map(|array| array.name);
        inventory.arrays = names.zip(on_arrays).collect();
        for (device, signatures) in devices.iter().zip(seen) {
            let disk = disk(host, device, &identities, &signatures);
            inventory.disks.push(mapping::seen_through(host, device, &identities, disk));
            let notes = signatures.trouble.iter().map(|why| format!("{}: {why}", device.path()));
            inventory.notes.extend(notes);
        }
        let uses = uses_of(host, &devices);
        spread_to_relatives(&mut inventory.disks, uses);
        if host.is_real() {
            inventory.note_busy();
            inventory.note_other_paths(identities.shared_serials().values());
        }
        inventory
    }

    /// Determines which of the wanted disks on which nothing was recognised are empty. That reads
    /// some 20 MB of each, in parallel, so it's done only on request.
    pub fn examine(&mut self, wanted: impl Fn(&Disk) -> bool) {
        let is_candidate =
            |disk: &&mut Disk| wanted(disk) && disk.is_unmarked() && disk.barred().is_none();
        thread::scope(|scope| {
            for disk in self.disks.iter_mut().filter(is_candidate) {
                scope.spawn(|| {
                    disk.examined(blankness::examine(Path::new(&disk.path), disk.size_bytes));
                });
            }
        });
    }

    /// The disk that the user means: by path, by-id link, any other link, or id (`--erase` takes
    /// that too).
    ///
    /// # Errors
    /// [`NoSuchDisk::Unknown`] when no disk has that name, [`NoSuchDisk::Ambiguous`] when several
    /// are.
    pub fn find(&self, name: &str) -> Result<&Disk, NoSuchDisk> {
        let target = fs::canonicalize(name).ok();
        let path = target.as_deref().and_then(Path::to_str).unwrap_or(name);
        let fits = |disk: &&Disk| {
            disk.path == path
                || disk.path == name
                || disk.identity.by_id.as_deref() == Some(name)
                || disk.id().as_str() == name
        };
        let found: Vec<&Disk> = self.disks.iter().filter(fits).collect();
        match found.as_slice() {
            [] => Err(NoSuchDisk::Unknown(name.to_owned())),
            [one] => Ok(one),
            many => Err(NoSuchDisk::Ambiguous {
                name: name.to_owned(),
                candidates: many.iter().map(|d| d.path.as_str()).collect::<Vec<_>>().join(" or "),
            }),
        }
    }

    /// The disk with this node.
    pub fn by_path(&self, path: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.path == path)
    }

    /// Finds devices that something holds open exclusively without showing anywhere else. Devices
    /// that can't be used anyway aren't tried, since trying keeps others out for a moment.
    fn note_busy(&mut self) {
        for disk in &mut self.disks {
            if disk.barred().is_none() && is_held(&disk.path) {
                disk.contents.push(Content::Busy);
            }
        }
    }

    /// Disks with the same serial number are two from a cheap maker, or one reached over two paths
    /// (two controllers, iSCSI) without multipath: then whoever uses one uses the other.
    fn note_other_paths<'a>(&mut self, groups: impl Iterator<Item = &'a Vec<String>>) {
        let in_use = |disk: &&Disk| disk.contents.iter().any(Content::is_in_use);
        let mut found: Vec<(String, String)> = Vec::new();
        for nodes in groups {
            let disks = nodes.iter().filter_map(|node| self.by_path(node));
            let (used, free): (Vec<&Disk>, Vec<&Disk>) = disks.partition(in_use);
            found.extend(free.into_iter().filter_map(|free| {
                let used = used.iter().find(|used| is_same_disk(free, used))?;
                Some((free.path.clone(), used.path.clone()))
            }));
        }
        for (path, used) in found {
            for disk in self.disks.iter_mut().filter(|disk| disk.physical_disk() == path) {
                disk.contents.push(Content::OtherPath { path: used.clone() });
            }
        }
    }

    /// Asks all in parallel, since each is slow.
    fn ask_health(&mut self) {
        let has_smart = |disk: &&Disk| {
            disk.partition.is_none()
                && disk.mapping.is_none()
                && disk.kind != DiskKind::Other
                && disk.size_bytes > 0
        };
        let asked: Vec<String> =
            self.disks.iter().filter(has_smart).map(|disk| disk.path.clone()).collect();
        let answers: Vec<(String, Result<Smart, SmartError>)> = thread::scope(|scope| {
            let asking: Vec<_> = asked
                .iter()
                .map(|path| (path.clone(), scope.spawn(move || smart::ask(path))))
                .collect();
            asking
                .into_iter()
                .filter_map(|(path, answer)| Some((path, answer.join().ok()?)))
                .collect()
        });
        for (path, answer) in answers {
            self.hear(&path, answer);
        }
    }

    fn hear(&mut self, path: &str, answer: Result<Smart, SmartError>) {
        match answer {
            Ok(smart) => {
                for disk in self.disks.iter_mut().filter(|disk| disk.physical_disk() == path) {
                    disk.health = smart.health.clone();
                    disk.temperature_c = smart.temperature_c;
                }
                if let Some(recovery) = smart.error_recovery {
                    self.error_recovery.insert(path.to_owned(), recovery);
                }
            }
            Err(SmartError::Tool(ToolError::Missing(_))) => {
                let note = "smartctl is not installed (package smartmontools): the disks' health is unknown";
                if !self.notes.iter().any(|old| old == note) {
                    self.notes.push(note.to_owned());
                }
            }
            Err(other) => self.notes.push(other.to_string()),
        }
    }
}

/// The first bytes include superblocks and partition tables, which differ between two disks even in
/// the same pool.
const BEGINNING: usize = 1 << 20;

fn is_same_disk(one: &Disk, other: &Disk) -> bool {
    let beginning = |disk: &Disk| read_at(Path::new(&disk.path), 0, BEGINNING);
    let (Ok(first), Ok(second)) = (beginning(one), beginning(other)) else { return false };
    one.size_bytes == other.size_bytes && first == second && first.iter().any(|byte| *byte != 0)
}

/// One device as it is now, as in the inventory but without [`Health`]; `None` when it isn't there.
/// `path` may be a link. Only its disk and that disk's partitions are examined.
pub fn disk_now(host: &HostRoot, path: &str) -> Option<Disk> {
    let target = fs::canonicalize(host.path(path)).ok();
    let node = target.as_deref().and_then(Path::to_str).unwrap_or(path);
    let device = block_device::one(host, &block_device::name_of(node)?)?;
    let inventory = Inventory::of(host, |disk| disk == device.whole_disk());
    inventory.by_path(&device.path()).cloned()
}

fn disk(
    host: &HostRoot,
    device: &BlockDevice,
    identities: &Identities<'_>,
    signatures: &Signatures,
) -> Disk {
    let partitions: Vec<String> =
        device.partitions.iter().map(|name| block_device::node(name)).collect();
    Disk {
        path: device.path(),
        identity: identities.identity(device),
        size_bytes: device.size_bytes,
        kind: identity::kind(host, device),
        rotational: device.rotational,
        sector_bytes: device.logical_sector_bytes,
        physical_sector_bytes: device.physical_sector_bytes,
        partition: device.partition.as_ref().map(|partition| Partition {
            disk: block_device::node(&partition.disk),
            number: partition.number,
            start_bytes: partition.start_bytes,
        }),
        read_only: device.read_only,
        removable: device.removable,
        health: Health::Unknown,
        temperature_c: None,
        contents: signatures.contents(&partitions),
        blank: None,
        mapping: None,
        encrypt: None,
    }
}

fn is_array(device: &BlockDevice) -> bool {
    let name = device.whole_disk();
    name.strip_prefix("md")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
}

/// The users of each device, in the order of `devices`.
fn uses_of(host: &HostRoot, devices: &[BlockDevice]) -> Vec<Vec<Content>> {
    let mounts = MountTable::read(host);
    let swaps = active_swaps(host);
    let of_btrfs = mounted_btrfs::members(host, &mounts);
    devices
        .iter()
        .map(|device| {
            let mut uses = Vec::new();
            let mut places: Vec<String> =
                mounts.of_number(device.number).map(|mounted| mounted.at.clone()).collect();
            if let Some(at) = of_btrfs.get(&device.name) {
                places.extend(at.iter().cloned());
            }
            places.dedup();
            uses.extend(places.into_iter().map(|at| Content::Mounted { at }));
            if swaps.contains(&device.path()) {
                uses.push(Content::SwapActive);
            }
            let holders = device.holders.iter().cloned();
            uses.extend(holders.map(|device| Content::Holder { device }));
            uses
        })
        .collect()
}

/// Whatever uses a partition uses its disk, and the other way round: neither can be erased without
/// the other. The same holds for members of volume managers that Braid leaves alone. A disk also
/// carries what is on its partitions.
fn spread_to_relatives(disks: &mut [Disk], uses: Vec<Vec<Content>>) {
    let mut of_disk: BTreeMap<String, Vec<Content>> = BTreeMap::new();
    let mut of_partitions: BTreeMap<String, Vec<Content>> = BTreeMap::new();
    for (disk, uses) in disks.iter().zip(&uses) {
        let left_alone = disk.contents.iter().filter(|content| content.is_left_alone());
        match &disk.partition {
            Some(partition) => {
                let data = disk.contents.iter().filter(|content| content.is_data());
                let data = data.map(|content| Content::OnPartition {
                    partition: disk.path.clone(),
                    what: Box::new(content.clone()),
                });
                let all = of_partitions.entry(partition.disk.clone()).or_default();
                all.extend(uses.iter().chain(left_alone).cloned().chain(data));
            }
            None => of_disk.entry(disk.path.clone()).or_default().extend(uses.iter().cloned()),
        }
    }
    for (disk, own) in disks.iter_mut().zip(uses) {
        let relatives = match &disk.partition {
            Some(partition) => of_disk.get(&partition.disk),
            None => of_partitions.get(&disk.path),
        };
        for content in own.into_iter().chain(relatives.into_iter().flatten().cloned()) {
            if !disk.contents.contains(&content) {
                disk.contents.push(content);
            }
        }
    }
}

/// Whether somebody has the device open with `O_EXCL`, as mounts, md, swap and ZFS do, for longer
/// than a check like ours.
fn is_held(path: &str) -> bool {
    const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
    let is_busy = || {
        let flags = libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        matches!(opened, Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
    };
    is_busy() && {
        thread::sleep(LOOK_AGAIN_AFTER);
        is_busy()
    }
}
