use crate::disk::{Claim, DiskId};
use crate::layout::{MdLayout, Profile};
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A statement about the host that is true or false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The disk is as it was when the plan was made, and can be opened with `O_EXCL`.
    AsClaimed(Claim),
    /// Nothing is on the disk and nobody uses it.
    Empty {
        /// The disk.
        disk: DiskId,
    },
    /// The disk carries a filesystem of this kind and UUID (or is an md array that does).
    Filesystem {
        /// Device path or `/dev/md/NAME`.
        device: String,
        /// `ext4`, `xfs`, `btrfs`.
        kind: String,
        /// Its UUID.
        uuid: Uuid,
    },
    /// The device has this tag, as blkid(8) finds it by looking at the disk.
    Tagged {
        /// Device path.
        device: String,
        /// `UUID` of a filesystem, `PART_ENTRY_UUID` of a partition.
        tag: String,
        /// As blkid writes it.
        value: String,
    },
    /// The filesystem with this UUID fills its device (or all members) except for rounding.
    FilesystemFillsDevice {
        /// Its UUID.
        uuid: Uuid,
        /// Where it is mounted.
        at: String,
    },
    /// The filesystem with this UUID is mounted there.
    Mounted {
        /// Its UUID.
        uuid: Uuid,
        /// Where.
        at: String,
    },
    /// Nothing is mounted there.
    NotMounted {
        /// Where.
        at: String,
    },
    /// A mount there hides no file: there is an empty directory, or none.
    HidesNothing {
        /// Absolute path.
        at: String,
    },
    /// There is such a directory.
    Directory {
        /// Absolute path.
        path: String,
    },
    /// The file has exactly this line.
    FileHasLine {
        /// Absolute path.
        file: String,
        /// The line.
        line: String,
    },
    /// The file holds exactly this.
    FileHolds {
        /// Absolute path.
        path: String,
        /// Its content.
        text: String,
    },
    /// A kernel file has this value (surrounding blanks aside).
    KernelHas {
        /// Absolute path.
        path: String,
        /// The value.
        value: String,
    },
    /// The initramfs is newer than mdadm.conf, or there is none that would include it.
    InitramfsFresh,
    /// The btrfs has this disk as a present member.
    BtrfsMember {
        /// The filesystem.
        uuid: Uuid,
        /// The disk.
        disk: DiskId,
    },
    /// The btrfs has a member with this devid, there or missing.
    BtrfsDevid {
        /// The filesystem.
        uuid: Uuid,
        /// The device.
        devid: u64,
    },
    /// No member of the btrfs is missing.
    BtrfsComplete {
        /// The filesystem.
        uuid: Uuid,
    },
    /// Every block group of the btrfs has these profiles, and nothing of another one is left.
    BtrfsProfiles {
        /// The filesystem.
        uuid: Uuid,
        /// Of data.
        data: Profile,
        /// Of metadata and system.
        metadata: Profile,
    },
    /// No balance, replace, add, remove or resize runs or is paused.
    BtrfsIdle {
        /// The filesystem.
        uuid: Uuid,
    },
    /// A replace of this devid has been started and is not finished.
    BtrfsReplacing {
        /// The filesystem.
        uuid: Uuid,
        /// The device that is replaced.
        devid: u64,
    },
    /// No member of the btrfs has failed more writes and flushes than when the plan was made.
    BtrfsTookAll {
        /// The filesystem.
        uuid: Uuid,
        /// How many each disk had refused; none for new ones.
        refused_before: Vec<(DiskId, u64)>,
    },
    /// Each kind of block groups has one profile only.
    BtrfsUnmixed {
        /// The filesystem.
        uuid: Uuid,
    },
    /// The filesystem is mounted there, and not with this option.
    MountedWithout {
        /// Its UUID.
        uuid: Uuid,
        /// Where.
        at: String,
        /// The option.
        option: String,
    },
    /// This much is unallocated, on all present members together.
    BtrfsUnallocated {
        /// The filesystem.
        uuid: Uuid,
        /// At least this.
        at_least_bytes: u64,
    },
    /// Every member's btrfs device fills its disk.
    BtrfsFillsDisk {
        /// The filesystem.
        uuid: Uuid,
        /// The disk.
        disk: DiskId,
    },
    /// The array is assembled and has this shape (not: is complete).
    ArrayIs {
        /// The array.
        uuid: Uuid,
        /// Its layout.
        layout: MdLayout,
        /// How many members it wants.
        disks: usize,
    },
    /// The array isn't assembled.
    ArrayGone {
        /// The array.
        uuid: Uuid,
    },
    /// The disk is a member of the array: in sync, recovering or a spare, but not faulty.
    ArrayMember {
        /// The array.
        uuid: Uuid,
        /// The disk.
        disk: DiskId,
    },
    /// The disk is listed in the array in whatever state, faulty too.
    ArrayLists {
        /// The array.
        uuid: Uuid,
        /// The disk.
        disk: DiskId,
    },
    /// No member of the array is missing or faulty, nothing is being resynced.
    ArrayComplete {
        /// The array.
        uuid: Uuid,
    },
    /// Nothing (resync, recovery, reshape, check) runs on the array.
    ArrayIdle {
        /// The array.
        uuid: Uuid,
        /// What may not run.
        of: SyncWanted,
    },
    /// The array's size is at least this.
    ArraySize {
        /// The array.
        uuid: Uuid,
        /// Its size.
        at_least_bytes: u64,
    },
    /// There is such a key file, and it isn't empty.
    KeyFile {
        /// Absolute path.
        path: String,
    },
    /// The device has the LUKS volume, and the key in this file opens it.
    LuksKey {
        /// The device's path.
        device: String,
        /// The volume.
        uuid: Uuid,
        /// Absolute path.
        key_file: String,
    },
    /// The device has the LUKS volume.
    Luks {
        /// The device's path.
        device: String,
        /// The volume.
        uuid: Uuid,
    },
    /// The header of the LUKS volume on the device has a token of this kind.
    LuksToken {
        /// The device's path.
        device: String,
        /// `systemd-tpm2`, `clevis`.
        kind: String,
    },
    /// The file has the header of the LUKS volume on the device as it is now.
    HeaderBackedUp {
        /// The device's path.
        device: String,
        /// Absolute path.
        file: String,
    },
    /// The LUKS volume is open by this name.
    Open {
        /// Name of the mapping.
        name: String,
        /// The volume.
        uuid: Uuid,
    },
    /// The same, and nothing is on it.
    OpenAndEmpty {
        /// Name of the mapping.
        name: String,
        /// The volume.
        uuid: Uuid,
        /// The pool is new, made by the step: so what the step left on a locked volume can be
        /// undone without opening it. In an existing pool it may be needed.
        #[serde(default)]
        anew: bool,
    },
    /// The opposite.
    Not(Box<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

/// Which of md's background operations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncWanted {
    /// Every one.
    Anything,
    /// Reshape only.
    Reshape,
}

impl Condition {
    /// The opposite of this.
    pub fn negated(self) -> Condition {
        match self {
            Condition::Not(inner) => *inner,
            other => Condition::Not(Box::new(other)),
        }
    }
}

impl fmt::Display for Condition {
    #[expect(clippy::too_many_lines, reason = "a sentence for each")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::AsClaimed(claim) => write!(f, "{claim}, as when the plan was made"),
            Condition::Empty { disk } => write!(f, "disk {disk} is empty"),
            Condition::Filesystem { device, kind, uuid } => {
                write!(f, "{device} has the {kind} {uuid}")
            }
            Condition::Tagged { device, tag, value } => write!(f, "{device} has the {tag} {value}"),
            Condition::FilesystemFillsDevice { at, .. } => {
                write!(f, "the filesystem at {at} fills its device")
            }
            Condition::Mounted { uuid, at } => write!(f, "filesystem {uuid} is mounted at {at}"),
            Condition::HidesNothing { at } => {
                write!(f, "{at} is an empty folder, or isn't there yet")
            }
            Condition::NotMounted { at } => write!(f, "nothing is mounted at {at}"),
            Condition::Directory { path } => write!(f, "{path} is a directory"),
            Condition::FileHasLine { file, line } => write!(f, "{file} has the line {line:?}"),
            Condition::FileHolds { path, .. } => write!(f, "{path} is as it should be"),
            Condition::KernelHas { path, value } => write!(f, "{path} is {value}"),
            Condition::InitramfsFresh => f.write_str("the initramfs is newer than mdadm.conf"),
            Condition::BtrfsMember { uuid, disk } => {
                write!(f, "disk {disk} is a member of btrfs {uuid}")
            }
            Condition::BtrfsDevid { uuid, devid } => write!(f, "btrfs {uuid} has devid {devid}"),
            Condition::BtrfsComplete { uuid } => write!(f, "no member of btrfs {uuid} is missing"),
            Condition::BtrfsProfiles { uuid, data, metadata } => write!(
                f,
                "btrfs {uuid} has data {} and metadata {} only",
                data.as_str(),
                metadata.as_str()
            ),
            Condition::BtrfsIdle { uuid } => write!(f, "btrfs {uuid} is in no long operation"),
            Condition::BtrfsReplacing { uuid, devid } => {
                write!(f, "btrfs {uuid} is replacing devid {devid}")
            }
            Condition::BtrfsUnmixed { uuid } => {
                write!(f, "data and metadata of btrfs {uuid} have one profile each")
            }
            Condition::MountedWithout { uuid, at, option } => {
                write!(f, "filesystem {uuid} is mounted at {at} without {option}")
            }
            Condition::BtrfsTookAll { uuid, .. } => {
                write!(f, "every disk of btrfs {uuid} took what was written to it")
            }
            Condition::BtrfsUnallocated { uuid, at_least_bytes } => write!(
                f,
                "btrfs {uuid} has {} unallocated",
                braid_units::ByteSize::from_bytes(*at_least_bytes)
            ),
            Condition::BtrfsFillsDisk { uuid, disk } => {
                write!(f, "btrfs {uuid} uses all of disk {disk}")
            }
            Condition::ArrayIs { uuid, layout, disks } => {
                write!(f, "array {} is {layout} of {disks} disks", uuid.in_mdadm_form())
            }
            Condition::ArrayGone { uuid } => {
                write!(f, "array {} isn't assembled", uuid.in_mdadm_form())
            }
            Condition::ArrayMember { uuid, disk } => {
                write!(f, "disk {disk} is a member of array {}", uuid.in_mdadm_form())
            }
            Condition::ArrayLists { uuid, disk } => {
                write!(f, "disk {disk} is listed in array {}", uuid.in_mdadm_form())
            }
            Condition::ArrayComplete { uuid } => {
                write!(f, "array {} is complete", uuid.in_mdadm_form())
            }
            Condition::ArrayIdle { uuid, of } => {
                let what = match of {
                    SyncWanted::Anything => "nothing",
                    SyncWanted::Reshape => "no reshape",
                };
                write!(f, "{what} runs on array {}", uuid.in_mdadm_form())
            }
            Condition::ArraySize { uuid, at_least_bytes } => write!(
                f,
                "array {} has {}",
                uuid.in_mdadm_form(),
                braid_units::ByteSize::from_bytes(*at_least_bytes)
            ),
            Condition::KeyFile { path } => write!(f, "there is a key file {path}"),
            Condition::LuksKey { device, key_file, .. } => {
                write!(f, "the key in {key_file} opens the LUKS volume on {device}")
            }
            Condition::Luks { device, uuid } => write!(f, "{device} has the LUKS volume {uuid}"),
            Condition::LuksToken { device, kind } => {
                write!(f, "the LUKS volume on {device} has a {kind} token")
            }
            Condition::HeaderBackedUp { device, file } => {
                write!(f, "{file} is a backup of the LUKS header on {device}")
            }
            Condition::Open { name, uuid } => write!(f, "LUKS volume {uuid} is open as {name}"),
            Condition::OpenAndEmpty { name, uuid, .. } => {
                write!(f, "LUKS volume {uuid} is open as {name}, and nothing is on it")
            }
            Condition::Not(inner) => write!(f, "not: {inner}"),
            Condition::Any(some) => {
                let all: Vec<String> = some.iter().map(Condition::to_string).collect();
                f.write_str(&all.join(", or "))
            }
        }
    }
}
