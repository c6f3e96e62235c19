//! A disk or partition: what it is and what is on it.

mod claim;
mod content;
pub mod emptiness;

pub use claim::{Claim, ClaimRefused, ErasePermission};
pub use content::{Content, Family};

pub use crate::disk_id::DiskId;

use crate::luks::{Encryption, Mapping};
use emptiness::Blank;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A block device that could become, or is, a member of a pool: a whole disk or one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The node the kernel made, such as `/dev/sda` or `/dev/sda5`. It may change with the next
    /// boot.
    pub path: String,
    /// What stays the same wherever the disk is plugged in.
    pub identity: Identity,
    /// Its size.
    pub size_bytes: u64,
    /// What it is made of.
    pub kind: DiskKind,
    /// The kernel's `queue/rotational`: md chooses by it how to spread reads.
    pub rotational: bool,
    /// Logical sector; 512 or 4096.
    pub sector_bytes: u32,
    /// Physical sector; partitions should begin at a multiple of it.
    pub physical_sector_bytes: u32,
    /// Set for a partition.
    pub partition: Option<Partition>,
    /// The kernel will not write to it.
    pub read_only: bool,
    /// A stick, a card, or a disk that says so.
    pub removable: bool,
    /// What it says of itself.
    pub health: Health,
    /// As it says, in degrees Celsius; none while it sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i16>,
    /// Everything that was found on it or uses it. That nothing was found doesn't make it empty.
    pub contents: Vec<Content>,
    /// That it is empty, if that was shown.
    #[serde(skip)]
    pub blank: Option<Blank>,
    /// For an opened LUKS volume: no disk, but what one shows while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// How it is to be encrypted when a pool takes it; set by who plans that.
    #[serde(skip)]
    pub encrypt: Option<Encryption>,
}

/// By what a disk is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The maker's serial number, of the whole disk.
    pub serial: Option<String>,
    /// World wide name, as `0x5000…`, `eui.…` or `naa.…`.
    pub wwn: Option<String>,
    /// The best link of `/dev/disk/by-id` to this very device (for a partition: its `-partN`),
    /// whole path.
    pub by_id: Option<String>,
    /// Maker's name of the model.
    pub model: Option<String>,
}

/// Where a partition lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Path of the disk that it is a part of.
    pub disk: String,
    /// Its number in the table.
    pub number: u32,
    /// Where it begins on that disk.
    pub start_bytes: u64,
}

/// What a disk is made of; the speed model starts from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// Rotating platters.
    Hdd,
    /// Flash behind SATA or SAS.
    Ssd,
    /// Flash behind NVMe.
    Nvme,
    /// Loop, network block device, virtual disk…
    Other,
}

/// What SMART says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Health {
    /// Passed.
    Good,
    /// Still works, but something in its log speaks against it.
    Doubtful {
        /// What that is.
        why: String,
    },
    /// The disk itself says that it fails.
    Failing {
        /// What it says.
        why: String,
    },
    /// Not asked, or it can't tell.
    #[default]
    Unknown,
}

/// What may be done with a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "usable", rename_all = "kebab-case")]
pub enum Usability {
    /// It was shown to be empty: take it.
    Free,
    /// Something is on it: only with `--erase` and its [`DiskId`].
    AfterErase {
        /// What is on it.
        why: String,
    },
    /// Not even then, as long as this holds.
    No {
        /// What stands against it.
        why: String,
    },
}

impl Disk {
    /// One that can be written to, of which no more is known: not that it is empty either.
    pub fn unexamined(path: String, identity: Identity, size_bytes: u64, kind: DiskKind) -> Disk {
        Disk {
            path,
            identity,
            size_bytes,
            kind,
            rotational: kind == DiskKind::Hdd,
            sector_bytes: 512,
            physical_sector_bytes: 4096,
            partition: None,
            read_only: false,
            removable: false,
            health: Health::Unknown,
            temperature_c: None,
            contents: Vec::new(),
            blank: None,
            mapping: None,
            encrypt: None,
        }
    }

    /// By what the user names it.
    pub fn id(&self) -> DiskId {
        if let Some(mapping) = &self.mapping {
            return DiskId::new(format!("{}-open", mapping.disk));
        }
        let whole = self.identity.serial.as_ref().or(self.identity.wwn.as_ref());
        DiskId::new(match (whole, &self.partition, &self.identity.by_id) {
            (Some(id), None, _) => id.clone(),
            (Some(id), Some(partition), _) => format!("{id}-part{}", partition.number),
            (None, _, Some(by_id)) => by_id.rsplit('/').next().unwrap_or(by_id.as_str()).to_owned(),
            (None, _, None) => self.path.clone(),
        })
    }

    /// The disk that a member on it is on: through a mapping, the one below.
    pub fn member_id(&self) -> DiskId {
        self.mapping.as_ref().map_or_else(|| self.id(), |mapping| mapping.disk.clone())
    }

    /// The path to give to programs: the by-id link where there is one, since it still means this
    /// disk after a reboot.
    pub fn stable_path(&self) -> &str {
        self.identity.by_id.as_deref().unwrap_or(&self.path)
    }

    /// The path of the whole disk that it is or lies on: two members with the same one are lost
    /// together.
    pub fn physical_disk(&self) -> &str {
        let on = self.partition.as_ref().map_or(&self.path, |partition| &partition.disk);
        self.mapping.as_ref().map_or(on, |mapping| &mapping.whole_disk)
    }

    /// Whether nothing was recognised on it and nobody uses it. It may carry data all the same:
    /// [`Disk::usability`] tells.
    pub fn is_unmarked(&self) -> bool {
        self.contents.is_empty()
    }

    /// Takes in what [`emptiness::examine`] found.
    pub fn examined(&mut self, outcome: Result<Blank, Content>) {
        match outcome {
            Ok(blank) => self.blank = Some(blank),
            Err(content) => self.contents.push(content),
        }
    }

    /// What kept us from seeing what is on it.
    pub fn unseen(&self) -> Option<&Content> {
        self.contents.iter().find(|content| matches!(content, Content::Unseen { .. }))
    }

    /// Whether it can become a member, and why not.
    pub fn usability(&self) -> Usability {
        if let Some(why) = self.barred() {
            return Usability::No { why };
        }
        if !self.is_unmarked() {
            let all: Vec<String> = self.contents.iter().map(Content::to_string).collect();
            return Usability::AfterErase { why: all.join(", ") };
        }
        match self.blank {
            Some(_) => Usability::Free,
            None => Usability::No { why: "nobody has looked whether it is empty".to_owned() },
        }
    }

    /// Why it can't be used, whatever the user permits.
    pub fn barred(&self) -> Option<String> {
        if self.size_bytes == 0 {
            return Some("there is no medium in it".to_owned());
        }
        if self.read_only {
            return Some("it is read-only".to_owned());
        }
        if let Some(used) = self.contents.iter().find(|content| content.is_in_use()) {
            return Some(used.to_string());
        }
        if let Some(foreign) = self.contents.iter().find(|content| content.is_left_alone()) {
            return Some(format!("{foreign}: Braid leaves those alone; use their own tools"));
        }
        self.unseen().map(Content::to_string)
    }
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DiskKind::Hdd => "hdd",
            DiskKind::Ssd => "ssd",
            DiskKind::Nvme => "nvme",
            DiskKind::Other => "other",
        })
    }
}
