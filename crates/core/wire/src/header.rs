use crate::Malformed;
use crate::integer::put_u24;

/// Bytes before the sealed frames of a data datagram.
pub const HEADER_LEN: usize = 8;
/// Bytes of the AEAD tag behind them.
pub const TAG_LEN: usize = 16;
/// Session indices are 24 bits long in data datagrams.
pub const MAX_SESSION_INDEX: u32 = 0x00ff_ffff;

/// What a datagram's first byte says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// Handshake initiation (crate `braid-handshake`).
    Initiation,
    /// Handshake response.
    Response,
    /// Cookie reply.
    CookieReply,
    /// Sealed frames.
    Data,
}

impl DatagramKind {
    /// `None` for what isn't ours.
    #[inline]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        Some(match datagram.first()? {
            1 => Self::Initiation,
            2 => Self::Response,
            3 => Self::CookieReply,
            4 => Self::Data,
            _ => return None,
        })
    }
}

/// The clear (but authenticated) start of a data datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The receiver's index of the session, 24 bits.
    pub receiver: u32,
    /// The path within the session.
    pub path: u8,
    /// The low 24 bits of the path's packet number.
    pub packet_number: u32,
}

impl DataHeader {
    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [_, r0, r1, r2] = self.receiver.to_be_bytes();
        let [_, p0, p1, p2] = self.packet_number.to_be_bytes();
        [4, r0, r1, r2, self.path, p0, p1, p2]
    }

    /// Appends the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(4);
        put_u24(out, self.receiver);
        out.push(self.path);
        put_u24(out, self.packet_number);
    }

    /// Reads the header of a datagram of kind [`DatagramKind::Data`].
    ///
    /// # Errors
    /// [`Malformed::Truncated`] when it is shorter than header and tag,
    /// [`Malformed::UnknownFrame`] when it is of another kind.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        if datagram.len() < HEADER_LEN + TAG_LEN {
            return Err(Malformed::Truncated);
        }
        let Some(&[kind, r0, r1, r2, path, p0, p1, p2]) = datagram.first_chunk() else {
            return Err(Malformed::Truncated);
        };
        if kind != 4 {
            return Err(Malformed::UnknownFrame);
        }
        Ok(Self {
            receiver: u32::from_be_bytes([0, r0, r1, r2]),
            path,
            packet_number: u32::from_be_bytes([0, p0, p1, p2]),
        })
    }
}
