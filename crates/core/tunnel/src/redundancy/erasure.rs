//! Erasure coding of realtime chunks: one XOR parity over a group of chunks
//! mends the loss of any one of them, without a round trip.
//!
//! Groups can be interleaved, so that chunks that follow each other on a path,
//! which are often lost together, fall into different groups.

mod decoder;
mod encoder;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, Recovered};
pub use encoder::{Encoder, OutgoingParity};

/// Most chunks that one parity may cover.
pub const MAX_GROUP: usize = 32;

/// Bytes of a parity's body before the sum: a check of what is recovered.
const CHECK_LEN: usize = 4;
/// Names a chunk: which bytes of which packet of which flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// The flow's number.
    pub flow: u16,
    /// The packet's number in the flow, as the wire carries it.
    pub sequence: u32,
    /// Bytes from the packet's start.
    pub offset: u32,
}

/// A chunk that a parity covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The chunk.
    pub id: SourceId,
    /// Its coded length in bytes.
    pub len: u16,
}

/// How many chunks share a parity, 1 to [`MAX_GROUP`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupSize(u8);

impl GroupSize {
    /// `count` chunks a parity; `None` if it's zero or above [`MAX_GROUP`].
    pub fn new(count: u8) -> Option<Self> {
        (1..=MAX_GROUP).contains(&usize::from(count)).then_some(GroupSize(count))
    }
    /// The number of chunks.
    pub fn get(self) -> u8 {
        self.0
    }
}

/// The parity of a group. Its members differ from each other, and its body fits
/// the longest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    members: Vec<Member>,
    body: Vec<u8>,
}

/// Why a received parity makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParityError {
    /// It covers no chunk or too many.
    #[error("a parity covers {0} chunks; 1 to {MAX_GROUP} are allowed")]
    Members(usize),
    /// It covers a chunk twice.
    #[error("a parity covers a chunk twice")]
    Duplicate,
    /// Its body doesn't fit its members.
    #[error("a parity's body has {found} bytes; its chunks want {wanted}")]
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes that the longest member asks for.
        wanted: usize,
    },
}

impl Parity {
    /// A parity from what the wire carried.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn new(members: Vec<Member>, body: Vec<u8>) -> Result<Self, ParityError> {
        if members.is_empty() || members.len() > MAX_GROUP {
            return Err(ParityError::Members(members.len()));
        }
        if members.iter().enumerate().any(|(i, a)| members.iter().skip(i + 1).any(|b| a.id == b.id))
        {
            return Err(ParityError::Duplicate);
        }
        let longest = members.iter().map(|m| usize::from(m.len)).max().unwrap_or(0);
        let wanted = CHECK_LEN + longest;
        if body.len() != wanted {
            return Err(ParityError::Length { found: body.len(), wanted });
        }
        Ok(Parity { members, body })
    }

    /// The chunks covered.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Bytes for the wire: a check of 4 bytes and the chunks' sum.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Adds (or takes away, it's the same) a chunk to a parity's body.
fn fold(body: &mut [u8], member: Member, bytes: &[u8]) {
    let check = check(member, bytes);
    for (sum, byte) in body.iter_mut().zip(check.iter().chain(bytes)) {
        *sum ^= byte;
    }
}

/// A check that isn't linear over XOR, as a CRC would be, so that it betrays a
/// sum of the wrong chunks: FNV-1a of 64 bits (RFC 9923), folded. It guards
/// against mix-ups; against forgery guards the datagram's AEAD tag.
fn check(member: Member, bytes: &[u8]) -> [u8; CHECK_LEN] {
    let SourceId { flow, sequence, offset } = member.id;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    mix(&flow.to_be_bytes());
    mix(&sequence.to_be_bytes());
    mix(&offset.to_be_bytes());
    mix(bytes);
    ((hash >> 32) as u32 ^ hash as u32).to_be_bytes()
}
