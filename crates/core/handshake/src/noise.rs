//! The Noise handshake by the `snow` library, with this crate's keys, errors
//! and randomness.

use crate::message::PAYLOAD_LEN;
use crate::{HandshakeError, PresharedKey, PrivateKey, PublicKey};
use rand_core::CryptoRng;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

/// One side of a running handshake.
pub(crate) struct Noise(snow::HandshakeState);

/// The two secrets that a finished handshake leaves, one for each direction.
pub(crate) struct DirectionSecrets {
    pub initiator_to_responder: Zeroizing<[u8; 32]>,
    pub responder_to_initiator: Zeroizing<[u8; 32]>,
}

const PATTERN: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"braid tunnel, handshake version 1";
/// The token `psk2` comes last in message 2.
const PSK_POSITION: u8 = 2;

impl Noise {
    pub fn initiator(
        local: &PrivateKey,
        remote: &PublicKey,
        psk: Option<&PresharedKey>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, HandshakeError> {
        let state = builder(local, rng)
            .and_then(|builder| builder.remote_public_key(remote.as_bytes()))
            .and_then(|builder| builder.psk(PSK_POSITION, psk_bytes(psk)))
            .and_then(snow::Builder::build_initiator);
        state.map(Noise).map_err(HandshakeError::Noise)
    }

    pub fn responder(local: &PrivateKey, rng: &mut dyn CryptoRng) -> Result<Self, HandshakeError> {
        let state = builder(local, rng).and_then(snow::Builder::build_responder);
        state.map(Noise).map_err(HandshakeError::Noise)
    }

    /// Needed by the responder before it writes.
    pub fn set_psk(&mut self, psk: Option<&PresharedKey>) -> Result<(), HandshakeError> {
        self.0.set_psk(PSK_POSITION.into(), psk_bytes(psk)).map_err(HandshakeError::Noise)
    }

    /// The next message; it has `N` bytes.
    pub fn write<const N: usize>(
        &mut self,
        payload: &[u8; PAYLOAD_LEN],
    ) -> Result<[u8; N], HandshakeError> {
        let mut message = [0; N];
        match self.0.write_message(payload, &mut message) {
            Ok(written) if written == N => Ok(message),
            Ok(_) => Err(HandshakeError::Noise(snow::Error::Input)),
            Err(error) => Err(HandshakeError::Noise(error)),
        }
    }

    /// The payload of the other side's message. After an error the state is
    /// as before, so that the right message can still be read: snow restores
    /// the hash and chaining key, and the first token of a message replaces
    /// both the cipher key and the ephemeral.
    pub fn read(&mut self, message: &[u8]) -> Result<Zeroizing<[u8; PAYLOAD_LEN]>, HandshakeError> {
        let mut payload = Zeroizing::new([0; PAYLOAD_LEN]);
        match self.0.read_message(message, &mut *payload) {
            Ok(PAYLOAD_LEN) => Ok(payload),
            Ok(_) => Err(HandshakeError::BadHello),
            Err(snow::Error::Decrypt | snow::Error::Dh) => Err(HandshakeError::NotAuthentic),
            Err(snow::Error::State(_)) => Err(HandshakeError::Unexpected),
            Err(error) => Err(HandshakeError::Noise(error)),
        }
    }

    /// The initiator's identity, proved by its first message.
    pub fn remote_static(&self) -> Result<PublicKey, HandshakeError> {
        self.0
            .get_remote_static()
            .and_then(|key| key.try_into().ok())
            .map(PublicKey::claimed)
            .ok_or(HandshakeError::NotAuthentic)
    }

    /// What the finished handshake leaves; an error before that.
    pub fn direction_secrets(&mut self) -> Result<DirectionSecrets, HandshakeError> {
        if !self.0.is_handshake_finished() {
            return Err(HandshakeError::Unexpected);
        }
        let (first, second) = self.0.dangerously_get_raw_split();
        Ok(DirectionSecrets {
            initiator_to_responder: Zeroizing::new(first),
            responder_to_initiator: Zeroizing::new(second),
        })
    }
}

fn builder<'a>(
    local: &'a PrivateKey,
    rng: &mut dyn CryptoRng,
) -> Result<snow::Builder<'a>, snow::Error> {
    let mut ephemeral = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *ephemeral);
    snow::Builder::with_resolver(PATTERN.parse()?, Box::new(CallersRandomness(ephemeral)))
        .prologue(PROLOGUE)?
        .local_private_key(local.as_bytes())
}

fn psk_bytes(psk: Option<&PresharedKey>) -> &[u8; 32] {
    psk.map_or(&[0; 32], PresharedKey::as_bytes)
}

/// snow's own primitives, but the ephemeral key is made of 32 bytes that the
/// caller's generator gave.
struct CallersRandomness(Zeroizing<[u8; 32]>);

struct OneEphemeral(Option<Zeroizing<[u8; 32]>>);

impl CryptoResolver for CallersRandomness {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneEphemeral(Some(self.0.clone()))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl Random for OneEphemeral {
    /// Each side makes one ephemeral key; a second request would repeat it
    /// and so is refused.
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        match self.0.take() {
            Some(bytes) if bytes.len() == dest.len() => {
                dest.copy_from_slice(&*bytes);
                Ok(())
            }
            _ => Err(snow::Error::Rng),
        }
    }
}
