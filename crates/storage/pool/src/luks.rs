//! LUKS2 below a pool: each member is an opened mapping on its disk
//! (docs/design/013-luks-below-members.md). Volumes made by Braid are recognised on any host by
//! their label.

use crate::disk_id::DiskId;
use crate::pool_name::PoolName;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Two headers and their key slots precede the data: cryptsetup's default for LUKS2, but given
/// explicitly (`--offset`), so that a header backup has this length.
pub const HEADER_BYTES: u64 = 16 << 20;

/// Prefix of the pool's name in the label, and of its UUID in the subsystem. Each has 47 bytes; a
/// pool's name has at most 32.
const LABEL: &str = "braid:";

/// The file of crypttab(5).
pub const CRYPTTAB: &str = "/etc/crypttab";

/// How a disk is to be encrypted before a pool takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The pool's name.
    pub pool: String,
    /// The pool's UUID.
    pub pool_uuid: Uuid,
    /// UUID that the LUKS volume will have; random, chosen by the caller.
    pub uuid: Uuid,
    /// What opens it at boot.
    pub unlock: Unlock,
    /// The file from which cryptsetup reads the key: the key file itself, or where the passphrase
    /// is while the plan runs.
    pub key_file: String,
    /// The key file doesn't exist yet, and is made.
    pub makes_key_file: bool,
    /// Tell the disk which blocks are free, which reveals them to whoever has the disk.
    pub discards: bool,
    /// The mapping's sectors: 512 or 4096.
    pub sector_bytes: u32,
    /// The folder of the pool's header backups.
    pub headers: String,
}

/// What opens a pool at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unlock {
    /// A file on the system's disk.
    KeyFile,
    /// Nothing: `braid pool open` asks for the passphrase.
    Passphrase,
    /// The computer's TPM2, by systemd-cryptenroll(1); the passphrase opens it, too.
    Tpm2,
    /// A Tang server in the network, by clevis(1); the passphrase opens it, too.
    Tang {
        /// `http://tang.example.org`.
        url: String,
        /// The thumbprint of its signing key, as `tang-show-keys` prints it.
        thumbprint: String,
    },
}

/// A LUKS volume that was seen on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LuksVolume {
    /// Its UUID.
    pub uuid: Uuid,
    /// Node of the device that it is on.
    pub path: String,
    /// That device's disk.
    pub disk: DiskId,
    /// Its pool, by the label; none for one that isn't Braid's.
    pub pool: Option<String>,
    /// That pool's UUID when the volume was made: two pools may have the same name.
    #[serde(default)]
    pub pool_uuid: Option<Uuid>,
    /// Its mapping's name and node, while it is open.
    pub open: Option<Mapping>,
    /// The state of its header.
    pub header: Header,
    /// Its key slots.
    pub slots: Vec<KeySlot>,
    /// Discards are passed on when it is opened.
    pub discards: bool,
}

/// The state of a LUKS header. There are two copies, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Header {
    /// Both copies are valid.
    Whole,
    /// One of them is damaged; cryptsetup repairs it from the other when it opens the volume.
    Damaged,
    /// There is none any more, though the volume is open: once closed, it can't be opened.
    Gone,
    /// Version 1, which has no second copy and no label.
    Old,
}

/// An opened LUKS volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Its name below `/dev/mapper`.
    pub name: String,
    /// The kernel's node, such as `/dev/dm-0`. It may change with the next boot.
    pub node: String,
    /// UUID of the volume.
    pub volume: Uuid,
    /// Node of the device that the volume is on.
    pub over: String,
    /// That device's id.
    pub disk: DiskId,
    /// Node of the whole disk.
    pub whole_disk: String,
}

/// A key slot of a LUKS2 header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySlot {
    /// Its number.
    pub number: u32,
    /// How its key is stretched: `argon2id`, `argon2i`, `pbkdf2`.
    pub stretched_by: String,
    /// How often; with `argon2` passes over its memory.
    pub iterations: u64,
    /// The token that knows its key: `systemd-tpm2`, `clevis`, `systemd-recovery`…
    pub token: Option<String>,
}

impl Encryption {
    /// The mapping's name.
    pub fn mapping(&self) -> String {
        mapping_name(&self.pool, self.uuid)
    }

    /// The mapping's node.
    pub fn device(&self) -> String {
        format!("/dev/mapper/{}", self.mapping())
    }

    /// The mapping's size on a disk of this size.
    pub fn size_bytes(&self, disk: u64) -> u64 {
        let inner = disk.saturating_sub(HEADER_BYTES);
        inner - inner % u64::from(self.sector_bytes)
    }

    /// The file of its header's backup.
    pub fn header_backup(&self) -> String {
        header_backup(&self.headers, self.uuid)
    }

    /// The line of crypttab(5) that opens it at boot, or says how it would be.
    pub fn crypttab_line(&self) -> String {
        let (key, options) = match &self.unlock {
            Unlock::KeyFile => (self.key_file.as_str(), "luks,nofail"),
            Unlock::Passphrase => ("none", "luks,noauto"),
            Unlock::Tpm2 => ("none", "luks,nofail,tpm2-device=auto"),
            Unlock::Tang { .. } => ("none", "luks,nofail,_netdev"),
        };
        format!("{} UUID={} {key} {options}", self.mapping(), self.uuid)
    }
}

impl LuksVolume {
    /// The name that its mapping has or gets.
    pub fn mapping_name(&self) -> String {
        match (&self.open, &self.pool) {
            (Some(open), _) => open.name.clone(),
            (None, Some(pool)) => mapping_name(pool, self.uuid),
            (None, None) => format!("luks-{}", self.uuid),
        }
    }
}

impl KeySlot {
    /// Its key could be guessed: it is hardly stretched, so it should be a random one.
    pub fn is_barely_stretched(&self) -> bool {
        // NIST SP 800-132 asks for 1000 at least; cryptsetup makes hundreds of thousands of it.
        self.stretched_by == "pbkdf2" && self.iterations < 100_000
    }
}

/// clevis' configuration for a Tang server.
pub fn tang_pin(url: &str, thumbprint: &str) -> String {
    serde_json::json!({ "url": url, "thp": thumbprint }).to_string()
}

/// The label of a pool's volumes.
pub fn label(pool: &str) -> String {
    format!("{LABEL}{pool}")
}

/// The pool that a label names. Anybody who had the disk may have written the label, and the name
/// becomes part of paths: so it has to be a valid pool name.
pub fn pool_of_label(label: &str) -> Option<&str> {
    label.strip_prefix(LABEL).filter(|pool| pool.parse::<PoolName>().is_ok())
}

/// The subsystem of a pool's volumes: a second label that LUKS2 has, for programs.
pub fn subsystem(pool: Uuid) -> String {
    format!("{LABEL}{pool}")
}

/// The UUID of the pool that a subsystem names.
pub fn pool_of_subsystem(subsystem: &str) -> Option<Uuid> {
    subsystem.strip_prefix(LABEL)?.parse().ok()
}

/// `luks-data-3f2a91bc`: it stays the same in whatever order disks are found, and a disk that
/// replaces another has a name of its own.
pub fn mapping_name(pool: &str, volume: Uuid) -> String {
    format!("luks-{pool}-{}", short(volume))
}

/// The file of a header's backup.
pub fn header_backup(folder: &str, volume: Uuid) -> String {
    format!("{folder}/{volume}.luks")
}

fn short(uuid: Uuid) -> String {
    uuid.to_string().chars().take(8).collect()
}

/// A line of crypttab(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrypttabLine<'a> {
    /// As it is written.
    pub text: &'a str,
    /// Name of the mapping.
    pub name: &'a str,
    /// UUID of the volume, if the line goes by that.
    pub volume: Option<Uuid>,
    /// The key file; none if somebody is asked.
    pub key_file: Option<&'a str>,
    /// The options.
    pub options: &'a str,
}

impl CrypttabLine<'_> {
    /// Whether it has this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|each| each == option)
    }

    /// What opens the volume, by this line.
    pub fn unlock(&self) -> Unlock {
        match self.key_file {
            Some(_) => Unlock::KeyFile,
            None if self.options.contains("tpm2-device=") => Unlock::Tpm2,
            None if self.has("_netdev") => {
                Unlock::Tang { url: String::new(), thumbprint: String::new() }
            }
            None => Unlock::Passphrase,
        }
    }
}

/// The lines of a crypttab that name something.
pub fn crypttab(text: &str) -> impl Iterator<Item = CrypttabLine<'_>> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|word| !word.starts_with('#'))?;
        let device = words.next()?;
        let key = words.next().filter(|key| key.starts_with('/') && *key != "/dev/null");
        Some(CrypttabLine {
            text: line,
            name,
            volume: device.strip_prefix("UUID=").and_then(|uuid| uuid.parse().ok()),
            key_file: key,
            options: words.next().unwrap_or(""),
        })
    })
}

impl fmt::Display for Unlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unlock::KeyFile => f.write_str("a key file"),
            Unlock::Passphrase => f.write_str("a passphrase"),
            Unlock::Tpm2 => f.write_str("the TPM2, or a passphrase"),
            Unlock::Tang { .. } => f.write_str("a Tang server, or a passphrase"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encryption(unlock: Unlock) -> Encryption {
        Encryption {
            pool: "data".into(),
            pool_uuid: Uuid::from_bytes([2; 16]),
            uuid: Uuid::from_bytes([0x3f; 16]),
            unlock,
            key_file: "/etc/braid/keys/data.key".into(),
            makes_key_file: true,
            discards: false,
            sector_bytes: 4096,
            headers: "/var/lib/braid/pool/headers/data".into(),
        }
    }

    #[test]
    fn a_line_of_crypttab_says_what_opens_the_volume() {
        let tang = Unlock::Tang { url: String::new(), thumbprint: String::new() };
        for unlock in [Unlock::KeyFile, Unlock::Passphrase, Unlock::Tpm2, tang] {
            let wish = encryption(unlock.clone());
            let text = format!("# disks\n\n{}\nother /dev/sdz none\n", wish.crypttab_line());
            let lines: Vec<CrypttabLine<'_>> = crypttab(&text).collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert_eq!(lines[0].name, "luks-data-3f3f3f3f");
            assert_eq!(lines[0].volume, Some(wish.uuid));
            assert_eq!(lines[0].unlock(), unlock);
            assert_eq!((lines[1].volume, lines[1].key_file), (None, None));
        }
    }

    #[test]
    fn a_label_is_of_a_pool_only_with_its_prefix() {
        assert_eq!(pool_of_label(&label("data")), Some("data"));
        assert_eq!(pool_of_label("data"), None);
        for bad in ["braid:", "braid:../../etc/x", "braid:a b", "braid:\u{1b}[2J"] {
            assert_eq!(pool_of_label(bad), None, "{bad:?}");
        }
        let uuid = Uuid::from_bytes([2; 16]);
        assert_eq!(pool_of_subsystem(&subsystem(uuid)), Some(uuid));
        assert_eq!(pool_of_subsystem(&label("data")), None);
        assert!(subsystem(uuid).len() < 48);
    }

    #[test]
    fn the_header_and_what_fills_no_sector_are_no_room() {
        let wish = encryption(Unlock::KeyFile);
        assert_eq!(wish.size_bytes((64 << 20) + 512), 48 << 20);
        assert_eq!(wish.size_bytes(1000), 0);
    }
}
