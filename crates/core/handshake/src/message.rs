//! Handshake messages as bytes on the wire.
//!
//! All numbers are little-endian. Every message of a type has the same
//! length, so lengths tell an observer nothing and the parser is trivial.
//!
//! ```text
//! initiation, 416 bytes                  response, 352 bytes
//!   0  type = 1                            0  type = 2
//!   1  version = 1                         1  version = 1
//!   2  zero (2)                            2  zero (2)
//!   4  sender index (4)                    4  receiver index (4)
//!   8  Noise message 1 (376):              8  Noise message 2 (328):
//!        ephemeral key (32)                     ephemeral key (32)
//!        static key, sealed (48)                payload, sealed (280 + 16)
//!        payload, sealed (280 + 16)      336  mac1 (16)
//! 384  mac1 (16)
//! 400  mac2 (16)
//!
//! cookie reply, 64 bytes
//!   0  type = 3
//!   1  version = 1
//!   2  zero (2)
//!   4  receiver index (4)
//!   8  nonce (24)
//!  32  cookie, sealed (16 + 16)
//! ```
//!
//! Types from 4 on are not handshake messages. Both answers are smaller than
//! the initiation, so a responder can't be used to amplify traffic.
//!
//! The **payload** of both Noise messages is
//!
//! ```text
//!   0  sender index (4); in an initiation the same as in clear
//!   4  instance (8)
//!  12  timestamp, nanoseconds since 1970 or more (8)
//!  20  AEADs offered (1): 0 ChaCha20-Poly1305, 1 also AES-256-GCM
//!  21  zero (1)
//!  22  length of the parameters, 0 to 256 (2)
//!  24  parameters, filled up with zeros (256)
//! ```
//!
//! The parameters are items of a kind (1), a length (1) and a value, such as
//! those of [`Extensions`](crate::Extensions).
//!
//! The Noise handshake is `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` with the
//! prologue `braid tunnel, handshake version 1` and, where no pre-shared key
//! is set, one of 32 zero bytes.
//!
//! **mac1** is BLAKE2s-128 keyed with BLAKE2s-256(`braid v1 mac1 key` ‖
//! receiver's public key) over all bytes before it. It proves nothing but that
//! the sender knows the receiver's public key: whoever doesn't gets no answer.
//!
//! **mac2** is BLAKE2s-128 keyed with a cookie over all bytes before it, or
//! zero without a cookie. It proves that the sender receives at its address.
//! The response has none: it is looked at only if it names a session index
//! that the initiator has just chosen at random, so it can't be used to load
//! the initiator from elsewhere.
//!
//! The **cookie** is BLAKE2s-128 keyed with a secret of the responder, new
//! every two minutes, over the initiator's address and port. It is sealed by
//! XChaCha20-Poly1305 with the key BLAKE2s-256(`braid v1 cookie key` ‖
//! responder's public key) and the initiation's mac1 as additional data.

use crate::HandshakeError;
use std::fmt;

/// The version of the protocol, second byte of every handshake message.
pub const VERSION: u8 = 1;
/// First byte of an initiation.
pub const TYPE_INITIATION: u8 = 1;
/// First byte of a response.
pub const TYPE_RESPONSE: u8 = 2;
/// First byte of a cookie reply.
pub const TYPE_COOKIE_REPLY: u8 = 3;

/// Bytes of the payload inside a Noise message.
pub const PAYLOAD_LEN: usize = 280;
/// Bytes of an initiation.
pub const INITIATION_LEN: usize = HEADER_LEN + NOISE_1_LEN + 2 * MAC_LEN;
/// Bytes of a response.
pub const RESPONSE_LEN: usize = HEADER_LEN + NOISE_2_LEN + MAC_LEN;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = HEADER_LEN + COOKIE_NONCE_LEN + MAC_LEN + 16;

// No amplification.
const _: () = assert!(RESPONSE_LEN <= INITIATION_LEN && COOKIE_REPLY_LEN <= INITIATION_LEN);

/// The number by which a peer names one of its sessions or pending
/// handshakes; messages to that peer carry it. Chosen at random by the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionIndex(u32);

/// What kind of handshake message a datagram claims to be, and for whom;
/// enough to hand it to the right state machine. Nothing is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeMessage {
    /// For the [`Responder`](crate::Responder).
    Initiation,
    /// For the [`Initiation`](crate::Initiation) started with this index.
    Response {
        /// The initiator's session index.
        receiver: SessionIndex,
    },
    /// For the [`Initiation`](crate::Initiation) started with this index.
    CookieReply {
        /// The initiator's session index.
        receiver: SessionIndex,
    },
}

impl HandshakeMessage {
    /// Looks at a datagram's type, version and length.
    ///
    /// # Errors
    ///
    /// Says what is wrong if it is not a handshake message of this version.
    pub fn classify(datagram: &[u8]) -> Result<Self, HandshakeError> {
        match datagram.first() {
            Some(&TYPE_INITIATION) => InitiationBytes::parse(datagram).map(|_| Self::Initiation),
            Some(&TYPE_RESPONSE) => ResponseBytes::parse(datagram)
                .map(|response| Self::Response { receiver: response.receiver }),
            Some(&TYPE_COOKIE_REPLY) => CookieReplyBytes::parse(datagram)
                .map(|reply| Self::CookieReply { receiver: reply.receiver }),
            _ => Err(HandshakeError::UnknownType),
        }
    }
}

impl SessionIndex {
    /// The index `number`.
    pub const fn new(number: u32) -> Self {
        SessionIndex(number)
    }
    /// The index as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
    pub(crate) const fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
    pub(crate) const fn from_bytes(bytes: [u8; 4]) -> Self {
        SessionIndex(u32::from_le_bytes(bytes))
    }
}

impl fmt::Debug for SessionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionIndex({:08x})", self.0)
    }
}

impl fmt::Display for SessionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

pub(crate) const MAC_LEN: usize = 16;
pub(crate) const COOKIE_NONCE_LEN: usize = 24;
/// Type, version, two zeros and one session index.
const HEADER_LEN: usize = 8;
pub(crate) const NOISE_1_LEN: usize = 32 + (32 + 16) + (PAYLOAD_LEN + 16);
pub(crate) const NOISE_2_LEN: usize = 32 + (PAYLOAD_LEN + 16);

/// The parts of an initiation.
pub(crate) struct InitiationBytes<'a> {
    pub sender: SessionIndex,
    pub noise: &'a [u8],
    /// All that mac1 covers.
    pub before_mac1: &'a [u8],
    pub mac1: &'a [u8; MAC_LEN],
    /// All that mac2 covers.
    pub before_mac2: &'a [u8],
    pub mac2: &'a [u8; MAC_LEN],
}

impl<'a> InitiationBytes<'a> {
    pub fn parse(datagram: &'a [u8]) -> Result<Self, HandshakeError> {
        let mut reader = Reader::new(datagram, TYPE_INITIATION, INITIATION_LEN)?;
        let sender = reader.session_index()?;
        let noise = reader.bytes(NOISE_1_LEN)?;
        let before_mac1 = reader.read();
        let mac1 = reader.array()?;
        let before_mac2 = reader.read();
        let mac2 = reader.array()?;
        Ok(InitiationBytes { sender, noise, before_mac1, mac1, before_mac2, mac2 })
    }
}

/// The parts of a response.
pub(crate) struct ResponseBytes<'a> {
    pub receiver: SessionIndex,
    pub noise: &'a [u8],
    /// All that mac1 covers.
    pub before_mac1: &'a [u8],
    pub mac1: &'a [u8; MAC_LEN],
}

impl<'a> ResponseBytes<'a> {
    pub fn parse(datagram: &'a [u8]) -> Result<Self, HandshakeError> {
        let mut reader = Reader::new(datagram, TYPE_RESPONSE, RESPONSE_LEN)?;
        let receiver = reader.session_index()?;
        let noise = reader.bytes(NOISE_2_LEN)?;
        let before_mac1 = reader.read();
        let mac1 = reader.array()?;
        Ok(ResponseBytes { receiver, noise, before_mac1, mac1 })
    }
}

/// The parts of a cookie reply.
pub(crate) struct CookieReplyBytes<'a> {
    pub receiver: SessionIndex,
    pub nonce: &'a [u8; COOKIE_NONCE_LEN],
    pub sealed_cookie: &'a [u8; MAC_LEN],
    pub tag: &'a [u8; 16],
}

impl<'a> CookieReplyBytes<'a> {
    pub fn parse(datagram: &'a [u8]) -> Result<Self, HandshakeError> {
        let mut reader = Reader::new(datagram, TYPE_COOKIE_REPLY, COOKIE_REPLY_LEN)?;
        Ok(CookieReplyBytes {
            receiver: reader.session_index()?,
            nonce: reader.array()?,
            sealed_cookie: reader.array()?,
            tag: reader.array()?,
        })
    }
}

/// The first eight bytes of a message.
pub(crate) fn header(message_type: u8, index: SessionIndex) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = index.to_bytes();
    [message_type, VERSION, 0, 0, a, b, c, d]
}

/// Takes a datagram apart from front to back.
struct Reader<'a> {
    datagram: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the prefix and that the datagram has `expected` bytes.
    fn new(datagram: &'a [u8], message_type: u8, expected: usize) -> Result<Self, HandshakeError> {
        match *datagram {
            [first, ..] if first != message_type => return Err(HandshakeError::UnknownType),
            [_, version, ..] if version != VERSION => {
                return Err(HandshakeError::Version { found: version });
            }
            _ if datagram.len() != expected => {
                return Err(HandshakeError::Length { found: datagram.len(), expected });
            }
            _ => {}
        }
        let mut reader = Reader { datagram, rest: datagram };
        if *reader.array()? != [message_type, VERSION, 0, 0] {
            return Err(HandshakeError::Reserved);
        }
        Ok(reader)
    }

    fn session_index(&mut self) -> Result<SessionIndex, HandshakeError> {
        Ok(SessionIndex::from_bytes(*self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], HandshakeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(|| self.too_short(N))?;
        self.rest = rest;
        Ok(array)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], HandshakeError> {
        let (bytes, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| self.too_short(count))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// All bytes read so far.
    fn read(&self) -> &'a [u8] {
        self.datagram.get(..self.datagram.len() - self.rest.len()).unwrap_or_default()
    }

    fn too_short(&self, wanted: usize) -> HandshakeError {
        let found = self.datagram.len();
        HandshakeError::Length { found, expected: found - self.rest.len() + wanted }
    }
}
