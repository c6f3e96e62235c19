//! Mutations that are likely to reach something.

use fastrand::Rng;

/// Mutates one of `seeds`, more or less strongly.
pub fn mutate(seeds: &[Vec<u8>], max_len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.choice(seeds).cloned().unwrap_or_default();
    // Most inputs should differ little from well-formed ones.
    let changes = 1 << rng.u32(0..5);
    for _ in 0..rng.usize(1..=changes) {
        change(&mut bytes, seeds, rng);
    }
    bytes.truncate(max_len);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.usize(0..=bytes.len());
    match rng.u8(0..11) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.u8(0..8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.u8(..);
            }
        }
        2 => overwrite(bytes, at, edge(rng)),
        3 => bytes.truncate(at),
        4 => {
            let end = (at + rng.usize(1..20)).min(bytes.len());
            bytes.drain(at..end);
        }
        5 => {
            let noise: Vec<u8> = (0..rng.usize(1..10)).map(|_| rng.u8(..)).collect();
            bytes.splice(at..at, noise);
        }
        6 => {
            let run = vec![rng.u8(..); rng.usize(1..70)];
            bytes.splice(at..at, run);
        }
        7 => {
            let part = part(bytes, rng).to_vec();
            bytes.splice(at..at, part);
        }
        8 => {
            let other = rng.choice(seeds).map_or(&[][..], |seed| part(seed, rng)).to_vec();
            bytes.splice(at..at, other);
        }
        9 => {
            let word = rng.choice(seeds).map_or(&[][..], |seed| word(seed, rng)).to_vec();
            let old = word_at(bytes, at);
            bytes.splice(old, word);
        }
        _ => {
            let numbers: &[&[u8]] =
                &[b"0", b"-1", b"1", b"65536", b"4294967296", b"1e999", b"nan", b"", b"\"", b"99"];
            let old = word_at(bytes, at);
            bytes.splice(old, rng.choice(numbers).copied().unwrap_or_default().iter().copied());
        }
    }
}

/// A number of 1 to 8 bytes at which something may overflow.
fn edge(rng: &mut Rng) -> Vec<u8> {
    let power = 1u64.checked_shl(rng.u32(0..64)).unwrap_or(0);
    let number = power.wrapping_add(rng.u64(0..3)).wrapping_sub(1);
    let width = rng.usize(1..=8);
    let bytes = number.to_be_bytes();
    if rng.bool() { bytes[8 - width..].to_vec() } else { number.to_le_bytes()[..width].to_vec() }
}

fn overwrite(bytes: &mut [u8], at: usize, new: Vec<u8>) {
    for (old, new) in bytes.iter_mut().skip(at).zip(new) {
        *old = new;
    }
}

fn part<'a>(bytes: &'a [u8], rng: &mut Rng) -> &'a [u8] {
    let start = rng.usize(0..=bytes.len());
    let end = (start + rng.usize(1..120)).min(bytes.len());
    &bytes[start..end]
}

fn word<'a>(bytes: &'a [u8], rng: &mut Rng) -> &'a [u8] {
    &bytes[word_at(bytes, rng.usize(0..=bytes.len()))]
}

/// The letters and digits around a position.
fn word_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let start = bytes[..at].iter().rposition(|byte| !in_word(byte)).map_or(0, |place| place + 1);
    let end =
        bytes[at..].iter().position(|byte| !in_word(byte)).map_or(bytes.len(), |len| at + len);
    start..end
}
