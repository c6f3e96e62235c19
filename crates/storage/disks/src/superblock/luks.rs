//! LUKS headers (LUKS2 On-Disk Format Specification 1.1.1, 2.1 and 3; LUKS1 1.2.3, figure 1).

use super::bytes::Block;
use super::read_at;
use braid_pool::luks::{Header, KeySlot};
use braid_pool::uuid::Uuid;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

const MAGIC: &[u8] = b"LUKS\xba\xbe";
/// Of the second copy.
const MAGIC_SECOND: &[u8] = b"SKUL\xba\xbe";
/// Of the binary header; the JSON area follows.
const BINARY_BYTES: usize = 4096;
/// Where the second copy may be: at the first one's length.
const SIZES: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
const CHECKSUM_AT: usize = 0x1c0;
const CHECKSUM_BYTES: usize = 64;

/// What the header of a LUKS volume says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuksSuper {
    /// The volume's UUID.
    pub uuid: Uuid,
    /// Its label; none with version 1.
    pub label: Option<String>,
    /// Its subsystem, a second label; none with version 1.
    pub subsystem: Option<String>,
    /// The state of the two copies.
    pub header: Header,
    /// Its key slots; empty for version 1, whose slots aren't read.
    pub slots: Vec<KeySlot>,
    /// Discards are passed on when it is opened.
    pub discards: bool,
    /// It grows with every change of the header.
    pub sequence: u64,
    /// A hash of what both copies share: keys, their salts and digests. A backup with a different
    /// one is from a different state.
    pub fingerprint: [u8; 32],
}

/// Reads the header of a device; `None` when there is none.
///
/// # Errors
/// When the device can't be opened or read.
pub fn read(device: &Path) -> io::Result<Option<LuksSuper>> {
    read_by(|at, length| read_at(device, at, length))
}

/// The header at the start of these bytes.
pub fn of(bytes: &[u8]) -> Option<LuksSuper> {
    let part = |at: u64, length: usize| {
        let from = bytes.get(usize::try_from(at).ok()?..)?;
        Some(from.get(..length).unwrap_or(from).to_vec())
    };
    read_by(|at, length| Ok(part(at, length).unwrap_or_default())).ok()?
}

fn read_by(read_at: impl Fn(u64, usize) -> io::Result<Vec<u8>>) -> io::Result<Option<LuksSuper>> {
    let first = read_at(0, BINARY_BYTES)?;
    if is_version_1(&first) {
        return Ok(old(&first));
    }
    let first = match size_said(&first, MAGIC) {
        Some(size) => parse(&read_at(0, size)?, MAGIC),
        None => None,
    };
    let places: Vec<u64> = match &first {
        Some((_, size)) => vec![*size],
        None => SIZES.to_vec(),
    };
    let mut second = None;
    for at in places {
        let binary = read_at(at, BINARY_BYTES)?;
        if let Some(size) = size_said(&binary, MAGIC_SECOND) {
            second = parse(&read_at(at, size)?, MAGIC_SECOND);
        }
        if second.is_some() {
            break;
        }
    }
    Ok(match (first, second) {
        (Some((first, _)), Some((second, _))) if first.sequence == second.sequence => Some(first),
        (Some((newer, _)), Some((older, _))) | (Some((older, _)), Some((newer, _)))
            if newer.sequence > older.sequence =>
        {
            Some(LuksSuper { header: Header::Damaged, ..newer })
        }
        (Some((one, _)), _) | (None, Some((one, _))) => {
            Some(LuksSuper { header: Header::Damaged, ..one })
        }
        (None, None) => None,
    })
}

fn is_version_1(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) && bytes.get(6..8) == Some(&[0, 1])
}

fn old(bytes: &[u8]) -> Option<LuksSuper> {
    let uuid = Block(bytes).text(168, 40)?.parse().ok()?;
    let fingerprint = Sha256::digest(bytes).into();
    Some(LuksSuper {
        uuid,
        label: None,
        subsystem: None,
        header: Header::Old,
        slots: Vec::new(),
        discards: false,
        sequence: 0,
        fingerprint,
    })
}

/// The length of the header copy with this magic number, if it is one and the length is plausible.
fn size_said(bytes: &[u8], magic: &[u8]) -> Option<usize> {
    let block = Block(bytes);
    let size = u64::from_be_bytes(block.array(8)?);
    let is_it = bytes.starts_with(magic) && block.array(6)? == [0, 2] && SIZES.contains(&size);
    is_it.then_some(size as usize)
}

/// One complete copy of a version 2 header, and its length.
fn parse(bytes: &[u8], magic: &[u8]) -> Option<(LuksSuper, u64)> {
    let size = size_said(bytes, magic)?;
    let block = Block(bytes.get(..size)?);
    let mut hash = Sha256::new();
    hash.update(block.slice(0, CHECKSUM_AT)?);
    hash.update([0; CHECKSUM_BYTES]);
    hash.update(block.0.get(CHECKSUM_AT + CHECKSUM_BYTES..)?);
    let is_right = block.text(72, 32)? == "sha256"
        && hash.finalize().as_slice() == block.slice(CHECKSUM_AT, 32)?;
    if !is_right {
        return None;
    }
    let json = block.text(BINARY_BYTES, size - BINARY_BYTES)?;
    let area: Json = serde_json::from_str(&json).ok()?;
    let found = LuksSuper {
        uuid: block.text(168, 40)?.parse().ok()?,
        label: block.text(24, 48).filter(|label| !label.is_empty()),
        subsystem: block.text(208, 48).filter(|subsystem| !subsystem.is_empty()),
        header: Header::Whole,
        slots: slots(&area),
        discards: area.config.flags.iter().any(|flag| flag == "allow-discards"),
        sequence: u64::from_be_bytes(block.array(16)?),
        fingerprint: Sha256::digest(&json).into(),
    };
    Some((found, size as u64))
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    keyslots: BTreeMap<String, Slot>,
    #[serde(default)]
    tokens: BTreeMap<String, Token>,
    #[serde(default)]
    config: Config,
}

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct Slot {
    kdf: Option<Kdf>,
}

#[derive(Deserialize)]
struct Kdf {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, alias = "time")]
    iterations: u64,
}

#[derive(Deserialize)]
struct Token {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    keyslots: Vec<String>,
}

/// Those that open the volume: slots without key derivation belong to a reencryption.
fn slots(json: &Json) -> Vec<KeySlot> {
    let slot = |(number, slot): (&String, &Slot)| {
        let kdf = slot.kdf.as_ref()?;
        let token = json.tokens.values().find(|token| token.keyslots.contains(number));
        Some(KeySlot {
            number: number.parse().ok()?,
            stretched_by: kdf.kind.clone(),
            iterations: kdf.iterations,
            token: token.map(|token| token.kind.clone()),
        })
    };
    json.keyslots.iter().filter_map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// As `cryptsetup luksFormat` of version 2.6 makes them, without its key areas.
    fn volume(sequence: [u64; 2]) -> Vec<u8> {
        let json = r#"{"keyslots":{"0":{"type":"luks2","kdf":{"type":"pbkdf2","hash":"sha256","iterations":1000,"salt":""}},
            "1":{"type":"luks2","kdf":{"type":"argon2id","time":4,"memory":65536,"cpus":2,"salt":""}}},
            "tokens":{"0":{"type":"systemd-tpm2","keyslots":["1"]}}}"#;
        let copy = |magic: &[u8], sequence: u64| {
            let mut bytes = vec![0; 0x4000];
            let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
            put(0, magic);
            put(6, &[0, 2]);
            put(8, &0x4000_u64.to_be_bytes());
            put(16, &sequence.to_be_bytes());
            put(24, b"braid:data");
            put(72, b"sha256");
            put(168, b"3f2a91bc-0000-4000-8000-000000000001");
            put(208, b"braid:3f2a91bc-0000-4000-8000-000000000002");
            put(4096, json.as_bytes());
            let sum = Sha256::digest(&bytes);
            bytes[CHECKSUM_AT..CHECKSUM_AT + 32].copy_from_slice(&sum);
            bytes
        };
        [copy(MAGIC, sequence[0]), copy(MAGIC_SECOND, sequence[1]), vec![0; 0x40_0000]].concat()
    }

    fn read_back(bytes: &[u8]) -> Option<LuksSuper> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        fs::write(&file, bytes).unwrap();
        let found = read(&file).unwrap();
        assert_eq!(of(bytes), found);
        found
    }

    #[test]
    fn a_header_tells_its_volume_and_its_keys() {
        let found = read_back(&volume([3, 3])).unwrap();
        assert_eq!(found.label.as_deref(), Some("braid:data"));
        let subsystem = "braid:3f2a91bc-0000-4000-8000-000000000002";
        assert_eq!(found.subsystem.as_deref(), Some(subsystem));
        assert_eq!(found.uuid.to_string(), "3f2a91bc-0000-4000-8000-000000000001");
        assert_eq!((found.header, found.sequence), (Header::Whole, 3));
        let slots = found.slots.iter().map(|slot| {
            (slot.number, slot.stretched_by.as_str(), slot.iterations, slot.token.as_deref())
        });
        let expected = [(0, "pbkdf2", 1000, None), (1, "argon2id", 4, Some("systemd-tpm2"))];
        assert_eq!(slots.collect::<Vec<_>>(), expected);
        assert!(found.slots[0].is_barely_stretched() && !found.slots[1].is_barely_stretched());
    }

    #[test]
    fn either_copy_tells_when_the_other_is_damaged_and_the_newer_one_counts() {
        for at in [0, 5000, 0x4000, 0x4000 + 5000] {
            let mut bytes = volume([3, 3]);
            bytes[at] ^= 1;
            let found = read_back(&bytes).unwrap();
            assert_eq!((found.header, found.slots.len()), (Header::Damaged, 2), "{at}");
        }
        assert_eq!(read_back(&volume([3, 4])).unwrap().sequence, 4);
        let mut bytes = volume([3, 3]);
        (bytes[5000], bytes[0x4000 + 5000]) = (1, 1);
        assert_eq!(read_back(&bytes), None);
        assert_eq!(read_back(&[0; 0x41_0000]), None);
        assert_eq!(read_back(b"LUKS\xba\xbe\0\x02"), None);
    }
}
