//! When a disk counts as empty. Recognising nothing on it isn't enough: a damaged filesystem, an
//! encrypted disk without a header or raw data have no signature either. Emptiness has to be
//! proved: the disk is read where filesystems and RAIDs keep copies of their metadata, at both
//! ends, and at places spread over all of it, and is blank there.

mod places;
mod resemblance;

pub use places::{Extent, places};

use super::Content;
use std::collections::BTreeSet;

/// Proof that a disk was read and found blank. Only [`examine`] makes one, and none comes from a
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blank(());

/// What was read at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing but 0x00.
    Zeroes,
    /// Nothing but 0xFF: erased flash that was never written.
    Ones,
    /// Anything else.
    Bytes {
        /// Where the first block that isn't blank begins, in bytes from the disk's start.
        at: u64,
        /// What these bytes resemble.
        resemble: &'static str,
        /// Whether that is a format's magic number, not a guess from the bytes' appearance.
        known: bool,
    },
    /// The contents can't be known.
    Unread {
        /// What stood in the way.
        why: String,
    },
}

/// Number of different finds that are reported.
const TOLD: usize = 3;

impl Reading {
    /// What `bytes`, read at `place`, are.
    pub fn of(place: Extent, bytes: &[u8]) -> Reading {
        // All bytes equal their predecessor: memcmp(3) is fast even without compiler optimisation.
        let all = |value: u8| match bytes {
            [] => true,
            [first, rest @ ..] => *first == value && bytes.starts_with(rest),
        };
        if (bytes.len() as u64) < place.length {
            return Reading::Unread { why: "the disk ended before its size".to_owned() };
        }
        if all(0) {
            return Reading::Zeroes;
        }
        if all(0xff) {
            return Reading::Ones;
        }
        let found = resemblance::of(bytes);
        let at = place.start + found.at as u64;
        Reading::Bytes { at, resemble: found.what, known: found.known }
    }
}

/// Reads a disk of `size_bytes` at all [`places`].
///
/// # Errors
/// What the disk carries; also when that is unknown, since a place couldn't be read.
pub fn examine(size_bytes: u64, mut read: impl FnMut(Extent) -> Reading) -> Result<Blank, Content> {
    let places = places(size_bytes);
    let mut found = Finds::default();
    places.iter().for_each(|place| found.add(*place, read(*place)));
    match found.told() {
        None if places.is_empty() => Err(unknown("there is nothing to read")),
        None => Ok(Blank(())),
        Some(what) => Err(unknown(&what)),
    }
}

fn unknown(what: &str) -> Content {
    Content::Unknown { what: format!("unknown content: {what}") }
}

#[derive(Default)]
struct Finds {
    known: Vec<(u64, &'static str)>,
    guessed: Vec<(u64, &'static str)>,
    unread: Vec<(u64, String)>,
    zeroes: Option<u64>,
    ones: Option<u64>,
}

impl Finds {
    fn add(&mut self, place: Extent, reading: Reading) {
        match reading {
            Reading::Zeroes => _ = self.zeroes.get_or_insert(place.start),
            Reading::Ones => _ = self.ones.get_or_insert(place.start),
            Reading::Bytes { at, resemble, known: true } => self.known.push((at, resemble)),
            Reading::Bytes { at, resemble, known: false } => self.guessed.push((at, resemble)),
            Reading::Unread { why } => self.unread.push((place.start, why)),
        }
    }

    /// The most telling first; nothing for a blank disk.
    fn told(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let first_of_each = self.known.iter().chain(&self.guessed);
        let first_of_each = first_of_each.filter(|(_, what)| seen.insert(*what));
        let mut told: Vec<String> =
            first_of_each.take(TOLD).map(|(at, what)| format!("{what} at byte {at}")).collect();
        if let Some((at, why)) = self.unread.first() {
            told.push(format!("byte {at} and what follows could not be read: {why}"));
        }
        if let (true, Some(zeroes), Some(ones)) = (told.is_empty(), self.zeroes, self.ones) {
            told.push(format!("all zeroes at byte {zeroes}, all ones at byte {ones}"));
        }
        (!told.is_empty()).then(|| told.join(", "))
    }
}

#[cfg(test)]
mod tests;
