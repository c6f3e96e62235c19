//! Reassembles the beginning of a stream from pieces in any order.

use std::collections::BTreeMap;

/// The contiguous first bytes, and later pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    bytes: Vec<u8>,
    later: BTreeMap<usize, Vec<u8>>,
    held: usize,
}

/// Maximum bytes kept of a stream.
const MOST: usize = 16 << 10;
/// Maximum pieces that wait for an earlier one.
const MOST_PIECES: usize = 32;

impl Stream {
    /// Adds the piece at `offset`. Returns whether the contiguous beginning has grown.
    pub(crate) fn insert(&mut self, offset: usize, piece: &[u8]) -> bool {
        if offset.checked_add(piece.len()).is_none_or(|end| end > MOST) || piece.is_empty() {
            return false;
        }
        let before = self.bytes.len();
        if offset > before {
            let room = self.later.len() < MOST_PIECES && self.held + piece.len() <= MOST;
            if room && !self.later.contains_key(&offset) {
                self.held += piece.len();
                self.later.insert(offset, piece.to_vec());
            }
            return false;
        }
        self.append(offset, piece);
        while let Some((&offset, _)) = self.later.first_key_value()
            && offset <= self.bytes.len()
            && let Some((_, piece)) = self.later.pop_first()
        {
            self.held -= piece.len();
            self.append(offset, &piece);
        }
        self.bytes.len() > before
    }

    pub(crate) fn beginning(&self) -> &[u8] {
        &self.bytes
    }

    fn append(&mut self, offset: usize, piece: &[u8]) {
        let known = self.bytes.len() - offset;
        self.bytes.extend_from_slice(piece.get(known..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_become_the_stream() {
        let mut stream = Stream::default();
        assert!(!stream.insert(6, b"ghi"));
        assert!(!stream.insert(3, b"de"));
        assert!(stream.insert(0, b"abcd"));
        assert_eq!(stream.beginning(), b"abcde");
        assert!(!stream.insert(1, b"bc"), "known already");
        assert!(stream.insert(4, b"ef"));
        assert_eq!(stream.beginning(), b"abcdefghi");
    }

    #[test]
    fn no_more_is_kept_than_a_beginning() {
        let mut stream = Stream::default();
        assert!(!stream.insert(MOST, b"a") && !stream.insert(usize::MAX, b"a"));
        for offset in 1..200 {
            stream.insert(offset * 100, &[0; 90]);
        }
        assert!(stream.later.len() <= MOST_PIECES && stream.held <= MOST);
    }
}
