//! A whole disk for a system that is cloned onto it.

use super::member;
use super::{Refused, erase};
use crate::disk::{Claim, Disk, ErasePermission};
use crate::step::{Action, Argv, Condition, Plan, Progress, Step, Undo};
use crate::uuid::Uuid;
use braid_units::ByteSize;
use std::fmt::Write;

/// A disk to be partitioned, with filesystems made on it and a system copied into these.
#[derive(Clone, Debug)]
pub struct NewSystemDisk {
    /// The disk.
    pub disk: Disk,
    /// Whether it may lose what it carries.
    pub erase: ErasePermission,
    /// The partition table's UUID; random, chosen by the caller.
    pub table: Uuid,
    /// Its partitions in order; the last takes the rest.
    pub partitions: Vec<NewPartition>,
    /// How much has to fit into the last one.
    pub needs_bytes: u64,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// The system's source, for the title.
    pub from: String,
    /// The program that copies the system, and its arguments.
    pub copy: (String, Vec<CopyArg>),
    /// The same program's arguments for removing what an interrupted copy left in the old system.
    pub forget: Vec<String>,
}

/// An argument of the program that copies the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyArg {
    /// This text.
    Text(String),
    /// The disk's node.
    Disk,
    /// The node of the partition with this number, from 1.
    Partition(usize),
}

/// One partition.
#[derive(Clone, Debug)]
pub struct NewPartition {
    /// What is on it.
    pub kind: PartitionKind,
    /// Its size, in whole MiB; `None` for the rest of the disk.
    pub size_bytes: Option<u64>,
    /// Its UUID in the table; random, chosen by the caller.
    pub id: Uuid,
    /// The UUID of the filesystem on it, of which FAT uses the first 32 bits; random, chosen by the
    /// caller.
    pub filesystem: Uuid,
}

/// What a partition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKind {
    /// Where GRUB is installed on a disk booted by a BIOS.
    BiosBoot,
    /// The EFI system partition, FAT.
    Esp,
    /// `/boot` or the like, ext4.
    Ext4,
    /// The system, btrfs.
    Btrfs,
}

const MIB: u64 = 1 << 20;
/// Before the first partition and for the second copy of the table.
const TABLES: u64 = 2 * MIB;
/// A completely full btrfs doesn't work well, and metadata takes room.
const SPARE_PERCENT: u64 = 10;

/// Plans it: partitions, filesystems, copy.
///
/// # Errors
/// The disk is too small, carries something that may not be lost, or can't be used.
pub fn system_disk(new: &NewSystemDisk) -> Result<Plan, Refused> {
    let member = member::stake_one(&new.disk, &new.erase)?;
    let claim = member.claim;
    let before_last: u64 = new.partitions.iter().filter_map(|one| one.size_bytes).sum();
    let wanted =
        TABLES + before_last + new.needs_bytes + new.needs_bytes / 100 * SPARE_PERCENT + 128 * MIB;
    if new.disk.size_bytes < wanted {
        let size = ByteSize::from_bytes;
        return Err(Refused::Impossible {
            what: format!(
                "{} has {}, and the system needs {}",
                new.disk.path,
                size(new.disk.size_bytes),
                size(wanted)
            ),
            instead: "take a larger disk, or leave subvolumes behind with --skip".to_owned(),
        });
    }
    let mut steps = erase::steps(std::slice::from_ref(&claim));
    steps.push(partition(new, &claim));
    steps.push(tell_kernel(new, &claim));
    for (number, part) in (1..).zip(&new.partitions) {
        steps.extend(make(part, &node(claim.path(), number)));
    }
    steps.push(copy(new, &claim));
    Ok(Plan {
        title: format!("clone the system of {} to disk {}", new.from, claim.id()),
        pool: journal_name(&claim),
        claims: vec![claim],
        warnings: new.warnings.clone(),
        steps,
        after: Vec::new(),
        dispensable: Vec::new(),
    })
}

/// The name for `resume` and `abandon`.
fn journal_name(claim: &Claim) -> String {
    let id = claim.id().to_string();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // The end of a serial number is more distinctive than its beginning.
    let tail: Vec<char> = id.chars().rev().take(24).map(plain).collect();
    let tail: String = tail.into_iter().rev().collect();
    format!("clone-{}", tail.trim_start_matches('-'))
}

/// Partition `number` of a disk, as the kernel and udev name it.
fn node(disk: &str, number: usize) -> String {
    if disk.starts_with("/dev/disk/") {
        return format!("{disk}-part{number}");
    }
    let between = if disk.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    format!("{disk}{between}{number}")
}

impl PartitionKind {
    /// Its type in the partition table.
    fn type_id(self) -> &'static str {
        match self {
            PartitionKind::BiosBoot => "21686148-6449-6E6F-744E-656564454649",
            PartitionKind::Esp => "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
            PartitionKind::Ext4 | PartitionKind::Btrfs => "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
        }
    }

    fn name(self) -> &'static str {
        match self {
            PartitionKind::BiosBoot => "BIOS boot",
            PartitionKind::Esp => "EFI system",
            PartitionKind::Ext4 => "boot",
            PartitionKind::Btrfs => "system",
        }
    }
}

fn partition(new: &NewSystemDisk, claim: &Claim) -> Step {
    let mut script = format!("label: gpt\nlabel-id: {}\n", new.table);
    for part in &new.partitions {
        let size =
            part.size_bytes.map_or(String::new(), |size| format!("size={}MiB, ", size / MIB));
        let (kind, name) = (part.kind.type_id(), part.kind.name());
        // Writing to a String can't fail.
        let _ = writeln!(script, "{size}type={kind}, uuid={}, name=\"{name}\"", part.id);
    }
    let sfdisk = ["--quiet", "--wipe", "never", "--no-reread", "--no-tell-kernel", claim.path()];
    let tagged = Condition::Tagged {
        device: claim.path().to_owned(),
        tag: "PTUUID".to_owned(),
        value: new.table.to_string(),
    };
    Step {
        name: "partition".to_owned(),
        says: format!("divide disk {} into {} partitions", claim.id(), new.partitions.len()),
        before: vec![member::ready(claim)],
        action: Action::Run(Argv::new("sfdisk", sfdisk).with_input(script)),
        after: vec![tagged],
        undo: Undo::By(vec![
            erase::wipe(claim.path()),
            Action::Run(Argv::new("partx", ["--update", claim.path()])),
        ]),
    }
}

/// A kernel without support for partition tables is told of the partitions, too.
fn tell_kernel(new: &NewSystemDisk, claim: &Claim) -> Step {
    let there = |(number, part): (usize, &NewPartition)| Condition::Tagged {
        device: node(claim.path(), number),
        tag: "PART_ENTRY_UUID".to_owned(),
        value: part.id.to_string(),
    };
    let wipe = |number| erase::wipe(&node(claim.path(), number));
    Step {
        name: "partitions".to_owned(),
        says: "tell the kernel of the partitions".to_owned(),
        before: vec![],
        action: Action::Run(Argv::new("partx", ["--update", claim.path()])),
        after: (1..).zip(&new.partitions).map(there).collect(),
        undo: Undo::By((1..=new.partitions.len()).map(wipe).collect()),
    }
}

fn make(part: &NewPartition, device: &str) -> Option<Step> {
    let uuid = part.filesystem.to_string();
    let (kind, argv, value) = match part.kind {
        PartitionKind::BiosBoot => return None,
        PartitionKind::Esp => {
            let number: String = uuid.chars().take(8).collect::<String>().to_uppercase();
            let argv = Argv::new("mkfs.vfat", ["-F", "32", "-i", &number, "-n", "ESP", device]);
            let (high, low) = number.split_at(4);
            ("FAT", argv, format!("{high}-{low}"))
        }
        PartitionKind::Ext4 => {
            ("ext4", Argv::new("mkfs.ext4", ["-q", "-F", "-U", &uuid, device]), uuid)
        }
        PartitionKind::Btrfs => {
            ("btrfs", Argv::new("mkfs.btrfs", ["-q", "-f", "-U", &uuid, device]), uuid)
        }
    };
    // The partition's UUID shows that it is ours: what an interrupted mkfs left may be overwritten.
    let ours = Condition::Tagged {
        device: device.to_owned(),
        tag: "PART_ENTRY_UUID".to_owned(),
        value: part.id.to_string(),
    };
    Some(Step {
        name: format!("mkfs {device}"),
        says: format!("make a {kind} filesystem on {device}: {}", part.kind.name()),
        before: vec![ours],
        action: Action::Run(argv),
        after: vec![Condition::Tagged { device: device.to_owned(), tag: "UUID".to_owned(), value }],
        undo: Undo::Nothing,
    })
}

/// Run again after an interruption it continues, so its progress needn't be known.
fn copy(new: &NewSystemDisk, claim: &Claim) -> Step {
    let (program, args) = &new.copy;
    let args = args.iter().map(|arg| match arg {
        CopyArg::Text(text) => text.clone(),
        CopyArg::Disk => claim.path().to_owned(),
        CopyArg::Partition(number) => node(claim.path(), *number),
    });
    let forget = Action::Run(Argv::new(program, new.forget.iter().cloned()));
    let copy = Argv::new(program, args);
    let system = new.partitions.iter().find(|part| part.kind == PartitionKind::Btrfs);
    let copy = match system {
        Some(part) => copy
            .with_progress(Progress::BtrfsFill { uuid: part.filesystem, bytes: new.needs_bytes }),
        None => copy,
    };
    Step {
        name: "copy".to_owned(),
        says: "copy the system, and make it name the new disk".to_owned(),
        before: vec![],
        action: Action::Run(copy),
        after: vec![],
        undo: Undo::By(vec![forget]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Content;
    use crate::fixture::{GB, disk};

    fn new(disk: Disk, needs_bytes: u64) -> NewSystemDisk {
        let part = |kind, size_bytes, number| NewPartition {
            kind,
            size_bytes,
            id: Uuid::from_bytes([number; 16]),
            filesystem: Uuid::from_bytes([number + 100; 16]),
        };
        NewSystemDisk {
            disk,
            erase: ErasePermission::default(),
            table: Uuid::from_bytes([9; 16]),
            partitions: vec![
                part(PartitionKind::BiosBoot, Some(MIB), 1),
                part(PartitionKind::Esp, Some(512 * MIB), 2),
                part(PartitionKind::Btrfs, None, 3),
            ],
            needs_bytes,
            warnings: vec![],
            from: "/".to_owned(),
            forget: vec!["--forget".to_owned()],
            copy: ("copy".to_owned(), vec![CopyArg::Partition(3), CopyArg::Text("{1}".to_owned())]),
        }
    }

    #[test]
    fn a_disk_is_divided_filled_and_given_back() {
        let plan = system_disk(&new(disk('b', 100 * GB), 40 * GB)).unwrap();
        let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
        let (first, last) = (plan.steps.first().unwrap(), plan.steps.last().unwrap());
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(matches!(first.before[..], [Condition::AsClaimed(_)]));
        assert!(matches!(first.undo, Undo::By(_)));
        let Action::Run(argv) = &last.action else { panic!("{last:?}") };
        // Only what stands for a partition becomes one.
        assert!(argv.args[0] == "/dev/disk/by-id/ata-Sb-part3", "{argv}");
        assert_eq!(argv.args[1], "{1}");
    }

    #[test]
    fn a_disk_that_carries_something_or_is_too_small_is_refused() {
        let mut full = disk('b', 100 * GB);
        full.contents.push(Content::Swap { label: None });
        assert!(system_disk(&new(full.clone(), GB)).is_err());
        let id = full.id();
        let permitted = NewSystemDisk { erase: ErasePermission::for_disks([id]), ..new(full, GB) };
        let plan = system_disk(&permitted).unwrap();
        assert!(matches!(plan.steps[0].undo, Undo::Never(_)));
        let refused = system_disk(&new(disk('b', 41 * GB), 40 * GB)).unwrap_err().to_string();
        assert!(refused.contains("the system needs"), "{refused}");
    }

    #[test]
    fn partitions_are_named_as_the_kernel_and_udev_do() {
        assert_eq!(node("/dev/sdb", 3), "/dev/sdb3");
        assert_eq!(node("/dev/nvme0n1", 3), "/dev/nvme0n1p3");
        assert_eq!(node("/dev/disk/by-id/ata-X_1", 3), "/dev/disk/by-id/ata-X_1-part3");
    }
}
