//! Batches of datagrams in a byte stream.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | length of each datagram of the batch but the last, which may be shorter; not 0 |
//! | 2 | length of the batch, 1 to [`LARGEST`] |
//! | … | the datagrams, one after another |
//!
//! Numbers are big-endian. A batch may hold one datagram.

use braid_linux::udp::LARGEST_BATCH;

/// Maximum size of a batch, bytes.
pub const LARGEST: usize = LARGEST_BATCH;
/// Bytes before each batch.
pub const HEAD: usize = 4;

/// A batch in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Length of each datagram except the last.
    pub segment: u16,
    /// The datagrams.
    pub contents: &'a [u8],
}

/// The stream contains an invalid frame; nothing after it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is broken")]
pub struct Broken;

/// The head of a batch of `len` bytes; `None` if it can't be in a stream.
pub fn head(segment: u16, len: usize) -> Option<[u8; HEAD]> {
    if segment == 0 || !(1..=LARGEST).contains(&len) {
        return None;
    }
    let ([a, b], [c, d]) = (segment.to_be_bytes(), u16::try_from(len).ok()?.to_be_bytes());
    Some([a, b, c, d])
}

/// Splits a stream into frames.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self { bytes: vec![0; 2 * (HEAD + LARGEST)], start: 0, end: 0 }
    }

    /// Where the next bytes go; never empty. Call [`Self::filled`] with how many were written.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// States how many bytes were written to the [room](Self::room).
    pub fn filled(&mut self, len: usize) {
        self.end = (self.end + len).min(self.bytes.len());
    }

    /// The next batch; `None` until more data arrives. If it is called until `None`, [`Self::room`]
    /// always has room for a whole batch.
    ///
    /// # Errors
    /// [`Broken`] if no valid batch begins here.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Broken> {
        let waiting = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some(&[a, b, c, d]) = waiting.first_chunk::<HEAD>() else { return Ok(None) };
        let (segment, len) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]).into());
        head(segment, len).ok_or(Broken)?;
        let Some(contents) = waiting.get(HEAD..HEAD + len) else { return Ok(None) };
        self.start += HEAD + len;
        Ok(Some(Frame { segment, contents }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(decoder: &mut Decoder, mut stream: &[u8], most: usize) -> Vec<(u16, Vec<u8>)> {
        let mut found = Vec::new();
        while !stream.is_empty() {
            let room = decoder.room();
            let len = most.min(room.len()).min(stream.len());
            let (now, later) = stream.split_at(len);
            room[..len].copy_from_slice(now);
            decoder.filled(len);
            stream = later;
            while let Some(frame) = decoder.next_frame().unwrap() {
                found.push((frame.segment, frame.contents.to_vec()));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn batches_come_out_as_they_went_in(
            batches in prop::collection::vec((1_u16.., prop::collection::vec(any::<u8>(), 1..3000)), 1..20),
            most in 1_usize..4000,
        ) {
            let mut stream = Vec::new();
            for (segment, contents) in &batches {
                stream.extend(head(*segment, contents.len()).unwrap());
                stream.extend(contents);
            }
            prop_assert_eq!(decode(&mut Decoder::new(), &stream, most), batches);
        }

        #[test]
        fn garbage_ends_or_waits(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
            let mut decoder = Decoder::new();
            let len = bytes.len();
            decoder.room()[..len].copy_from_slice(&bytes);
            decoder.filled(len);
            while let Ok(Some(frame)) = decoder.next_frame() {
                prop_assert!(frame.segment > 0 && !frame.contents.is_empty());
            }
        }
    }

    #[test]
    fn a_batch_of_the_largest_size_passes_in_small_pieces() {
        let mut stream = head(1400, LARGEST).unwrap().to_vec();
        stream.extend(vec![9; LARGEST]);
        let found = decode(&mut Decoder::new(), &stream, 1000);
        assert_eq!(found, [(1400, vec![9; LARGEST])]);
        assert_eq!(head(1400, LARGEST + 1), None);
        assert_eq!(head(0, 1), None);
    }
}
