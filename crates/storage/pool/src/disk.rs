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
    /// The kernel's `queue/rotational`, by which md decides how to spread reads.
    pub rotational: bool,
    /// Logical sector; 512 or 4096.
    pub sector_bytes: u32,
    /// Physical sector; partitions should begin at a multiple of it.
    pub physical_sector_bytes: u32,
    /// Set for a partition.
    pub partition: Option<Partition>,
    /// The kernel will not write to it.
    pub read_only: bool,
    /// A stick, a card, or a disk that reports itself as removable.
    pub removable: bool,
    /// Its own report.
    pub health: Health,
    /// As reported, in degrees Celsius; none while it sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i16>,
    /// Everything found on it or using it. Finding nothing doesn't make it empty.
    pub contents: Vec<Content>,
    /// Proof that it is empty, if there is one.
    #[serde(skip)]
    pub blank: Option<Blank>,
    /// Set for an open LUKS volume, which isn't itself a disk but what a disk shows while open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// How to encrypt it when a pool takes it; set by the planner.
    #[serde(skip)]
    pub encrypt: Option<Encryption>,
}

/// What identifies a disk.
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

/// A partition's place.
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
    /// The disk itself reports that it is failing.
    Failing {
        /// Its report.
        why: String,
    },
    /// Not asked, or the disk can't say.
    #[default]
    Unknown,
}

/// What may be done with a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "usable", rename_all = "kebab-case")]
pub enum Usability {
    /// It was shown to be empty and may be taken.
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
    /// A writable disk about which nothing else is known, not even whether it is empty.
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

    /// The id by which the user names it.
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

    /// The disk that carries a member: for a mapping, the one below.
    pub fn member_id(&self) -> DiskId {
        self.mapping.as_ref().map_or_else(|| self.id(), |mapping| mapping.disk.clone())
    }

    /// The path to give to programs: the by-id link if there is one, since it still means this disk
    /// after a reboot.
    pub fn stable_path(&self) -> &str {
        self.identity.by_id.as_deref().unwrap_or(&self.path)
    }

    /// The path of the whole disk that it is or lies on: two members with the same one are lost
    /// together.
    pub fn physical_disk(&self) -> &str {
        let on = self.partition.as_ref().map_or(&self.path, |partition| &partition.disk);
        self.mapping.as_ref().map_or(on, |mapping| &mapping.whole_disk)
    }

    /// Whether nothing was recognised on it and nobody uses it. It may carry data all the same: see
    /// [`Disk::usability`].
    pub fn is_unmarked(&self) -> bool {
        self.contents.is_empty()
    }

    /// Records what [`emptiness::examine`] found.
    pub fn examined(&mut self, outcome: Result<Blank, Content>) {
        match outcome {
            Ok(blank) => self.blank = Some(blank),
            Err(content) => self.contents.push(content),
        }
    }

    /// What kept us from seeing its contents.
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
