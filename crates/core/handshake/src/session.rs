use crate::mac::derive_key;
use crate::noise::Noise;
use crate::{Aead, AeadOffer, HandshakeError, Hello, SessionIndex};
use ring::aead::{Aad, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of the tag that follows every sealed payload.
pub const TAG_LEN: usize = MAX_TAG_LEN;

/// A session: what both sides have when a handshake is done.
#[derive(Debug)]
pub struct Established {
    /// The index by which the peer knows the session; packets to it carry it.
    pub remote_index: SessionIndex,
    /// What the peer said.
    pub hello: Hello,
    /// The cipher that both agreed on.
    pub aead: Aead,
    /// For packets to the peer.
    pub seal: SealingKey,
    /// For packets from the peer.
    pub open: OpeningKey,
}

/// Seals the packets of one direction of a session.
///
/// A packet's nonce is its path's number (32 bits) and the packet number (64
/// bits), little-endian: every path has packet numbers of its own. **A pair
/// of path and packet number must be used only once with a key**, and no more
/// pairs than [`Aead::reject_after_packets`].
pub struct SealingKey(LessSafeKey);

/// Opens the packets of the other direction. It does not notice replays; that
/// is what [`ReplayWindow`](crate::ReplayWindow) is for.
pub struct OpeningKey(LessSafeKey);

/// A packet that this session's peer did not seal so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet that is forged, damaged or sealed with another key")]
pub struct Forged;

impl SealingKey {
    /// Encrypts `payload` in place and returns the tag over it and `header`.
    ///
    /// # Panics
    ///
    /// If `payload` has 64 GiB or more.
    pub fn seal(
        &self,
        path: u8,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce(path, packet_number), Aad::from(header), payload)
            .expect("a datagram is far below the limit of 64 GiB");
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }
}

impl OpeningKey {
    /// Decrypts in place what [`SealingKey::seal`] made of a payload,
    /// followed by the tag; returns the payload.
    ///
    /// # Errors
    ///
    /// [`Forged`] if path, packet number, header, payload or tag are not what
    /// the peer sealed. The contents of `payload_and_tag` are undefined then.
    pub fn open<'a>(
        &self,
        path: u8,
        packet_number: u64,
        header: &[u8],
        payload_and_tag: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        self.0
            .open_in_place(nonce(path, packet_number), Aad::from(header), payload_and_tag)
            .map_err(|_| Forged)
    }
}

/// Which side of the handshake this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Initiator,
    Responder,
}

impl Established {
    /// Makes the session of a finished handshake, in which this side offered
    /// `offer` and the other said `hello`.
    pub(crate) fn new(
        noise: &mut Noise,
        side: Side,
        remote_index: SessionIndex,
        offer: AeadOffer,
        hello: Hello,
    ) -> Result<Self, HandshakeError> {
        let aead = offer.agree(hello.aead);
        let secrets = noise.direction_secrets()?;
        let (to_peer, from_peer) = match side {
            Side::Initiator => (secrets.initiator_to_responder, secrets.responder_to_initiator),
            Side::Responder => (secrets.responder_to_initiator, secrets.initiator_to_responder),
        };
        let seal = SealingKey(packet_key(aead, &to_peer));
        let open = OpeningKey(packet_key(aead, &from_peer));
        Ok(Established { remote_index, hello, aead, seal, open })
    }
}

/// The key is derived anew because Noise means its own for its own transport
/// messages, and so that no two AEADs ever share one.
fn packet_key(aead: Aead, secret: &[u8; 32]) -> LessSafeKey {
    let label = format!("braid v1 packet key, {}", aead.name());
    let key = Zeroizing::new(derive_key(secret, label.as_bytes()));
    LessSafeKey::new(
        UnboundKey::new(aead.algorithm(), &*key).expect("both AEADs take keys of 32 bytes"),
    )
}

fn nonce(path: u8, packet_number: u64) -> Nonce {
    let mut bytes = [path, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&packet_number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(redacted)")
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpeningKey(redacted)")
    }
}
