use braid_disks::superblock::luks;
use braid_pool::luks::{Header, pool_of_label, pool_of_subsystem};
use sha2::{Digest, Sha256};

/// The shortest copy of a header, and its binary part (LUKS2 On-Disk Format Specification, 2.1).
const COPY: usize = 0x4000;
const BINARY: usize = 4096;
/// The part of the binary header that is read, without the checksum.
const HEAD: usize = 256;
const CHECKSUM_AT: usize = 0x1c0;

/// A header's binary part and its JSON, as two copies with valid checksums; the first byte says
/// which copies exist, and by how much the second is newer. Either describes the volume if the
/// other is damaged.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn luks(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let _ = luks::of(rest);
    let (head, json) = rest.split_at(rest.len().min(HEAD));
    let first = copy(*b"LUKS\xba\xbe", head, json, 0);
    let second = copy(*b"SKUL\xba\xbe", head, json, kind >> 2);
    let nothing = vec![0; COPY];
    let one = luks::of(&[&first[..], &nothing].concat());
    let other = luks::of(&[&nothing[..], &second].concat());
    for found in one.iter().chain(&other) {
        assert_eq!(found.header, Header::Damaged, "half of it");
        let _ = found.label.as_deref().and_then(pool_of_label);
        let _ = found.subsystem.as_deref().and_then(pool_of_subsystem);
    }
    let is_there = [kind & 1 == 0, kind & 2 == 0];
    let first = if is_there[0] { first } else { nothing.clone() };
    let second = if is_there[1] { second } else { nothing };
    let found = luks::of(&[first, second].concat());
    let tells = is_there[0] && one.is_some() || is_there[1] && other.is_some();
    assert_eq!(found.is_some(), tells);
    if let Some(found) = found {
        let same = one.zip(other).is_some_and(|(one, other)| one.sequence == other.sequence);
        assert_eq!(found.header == Header::Whole, is_there == [true; 2] && same);
    }
}

fn copy(magic: [u8; 6], head: &[u8], json: &[u8], newer: u8) -> Vec<u8> {
    let mut copy = vec![0; COPY];
    let mut put = |at: usize, bytes: &[u8]| copy[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, head);
    put(0, &magic);
    put(6, &[0, 2]);
    put(8, &(COPY as u64).to_be_bytes());
    put(72, b"sha256\0");
    put(BINARY, &json[..json.len().min(COPY - BINARY)]);
    // The last byte of the sequence number, which is big-endian.
    copy[23] = copy[23].wrapping_add(newer);
    let sum = Sha256::digest(&copy);
    copy[CHECKSUM_AT..CHECKSUM_AT + sum.len()].copy_from_slice(&sum);
    copy
}
