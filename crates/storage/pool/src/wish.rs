//! What the user wants a pool for, and which disks exist or could be bought.

use crate::disk::{Disk, DiskKind};
use braid_units::ByteSize;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Files of all sizes, for several people.
    Nas,
    /// Large files, mostly read, by few at a time.
    Media,
    /// Disk images.
    Vm,
    /// Small synchronous writes.
    Database,
    /// Data that can be made again.
    Scratch,
}

/// What matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    /// Bytes per second, requests per second.
    Speed,
    /// A second copy, much room, and speed, none of them at any price.
    Balanced,
    /// Not to lose anything.
    Safety,
    /// Room.
    Space,
}

/// A disk to plan with; it needn't exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Its path, or `4T:hdd` as the user wrote it.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// What it is made of.
    pub kind: DiskKind,
    /// Whether it rotates.
    pub rotational: bool,
    /// The whole disk that it is or lies on, where that is known.
    pub physical_disk: Option<String>,
}

/// A word or disk that can't be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    /// A word that isn't one of those.
    #[error("{word:?} is none of {allowed}")]
    Word {
        /// What was written.
        word: String,
        /// What could be.
        allowed: &'static str,
    },
    /// No `SIZE:KIND`.
    #[error(
        "{text:?} is no disk; write size and kind such as 4T:hdd, 500G:ssd, 3.64TiB:nvme ({why})"
    )]
    Disk {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Use {
    /// All of them, with their words.
    pub const ALL: [(Use, &'static str); 5] = [
        (Use::Nas, "nas"),
        (Use::Media, "media"),
        (Use::Vm, "vm"),
        (Use::Database, "database"),
        (Use::Scratch, "scratch"),
    ];
}

impl Want {
    /// All of them, with their words.
    pub const ALL: [(Want, &'static str); 4] = [
        (Want::Balanced, "balanced"),
        (Want::Speed, "speed"),
        (Want::Safety, "safety"),
        (Want::Space, "space"),
    ];
}

impl FromStr for Use {
    type Err = WishError;
    fn from_str(word: &str) -> Result<Self, WishError> {
        find(&Use::ALL, word, "nas, media, vm, database, scratch")
    }
}

impl FromStr for Want {
    type Err = WishError;
    fn from_str(word: &str) -> Result<Self, WishError> {
        find(&Want::ALL, word, "balanced, speed, safety, space")
    }
}

fn find<T: Copy>(all: &[(T, &str)], word: &str, allowed: &'static str) -> Result<T, WishError> {
    let found = all.iter().find(|(_, name)| *name == word).map(|(value, _)| *value);
    found.ok_or_else(|| WishError::Word { word: word.chars().take(40).collect(), allowed })
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Use::ALL.iter().find(|(value, _)| value == self).map_or("", |(_, word)| word);
        f.pad(word)
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Want::ALL.iter().find(|(value, _)| value == self).map_or("", |(_, word)| word);
        f.pad(word)
    }
}

impl From<&Disk> for Candidate {
    fn from(disk: &Disk) -> Self {
        Candidate {
            name: disk.path.clone(),
            size_bytes: disk.size_bytes,
            kind: disk.kind,
            rotational: disk.rotational,
            physical_disk: Some(disk.physical_disk().to_owned()),
        }
    }
}

impl FromStr for Candidate {
    type Err = WishError;
    /// Reads `4T:hdd`: decimal sizes as sold (T = 10^12), TiB and GiB for powers of two.
    fn from_str(text: &str) -> Result<Self, WishError> {
        let error = |why: &str| WishError::Disk {
            text: text.chars().take(40).collect(),
            why: why.to_owned(),
        };
        let (size, kind) = text.split_once(':').ok_or_else(|| error("there is no ':'"))?;
        let (kind, rotational) = match kind.to_ascii_lowercase().as_str() {
            "hdd" => (DiskKind::Hdd, true),
            "ssd" => (DiskKind::Ssd, false),
            "nvme" => (DiskKind::Nvme, false),
            _ => return Err(error("the kind is none of hdd, ssd, nvme")),
        };
        let size: ByteSize = size.parse().map_err(|why| error(&format!("{why}")))?;
        if size.bytes() < MIN_DISK_BYTES {
            return Err(error("a member has at least 100 MB"));
        }
        let (name, size_bytes) = (text.to_owned(), size.bytes());
        Ok(Candidate { name, size_bytes, kind, rotational, physical_disk: None })
    }
}

/// Smaller devices hold no btrfs (109 MiB with one device's metadata twice) and nothing of use.
pub const MIN_DISK_BYTES: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_not_bought_yet_are_read() {
        for (text, bytes, kind) in [
            ("4T:hdd", 4_000_000_000_000, DiskKind::Hdd),
            ("500G:ssd", 500_000_000_000, DiskKind::Ssd),
            ("2TiB:nvme", 2 << 40, DiskKind::Nvme),
            ("3.64T:hdd", 3_640_000_000_000, DiskKind::Hdd),
            ("4tb:HDD", 4_000_000_000_000, DiskKind::Hdd),
        ] {
            let disk: Candidate = text.parse().unwrap();
            assert_eq!((disk.size_bytes, disk.kind), (bytes, kind), "{text}");
        }
    }

    #[test]
    fn what_is_no_disk_says_why() {
        for (text, word) in [
            ("4T", "no ':'"),
            ("4T:floppy", "none of hdd"),
            (":hdd", "number"),
            ("4:hdd", "unit"),
            ("1M:ssd", "100 MB"),
            ("-4T:hdd", "number"),
        ] {
            let error = text.parse::<Candidate>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
