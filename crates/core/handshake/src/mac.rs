//! BLAKE2s (RFC 7693) in the uses that the handshake makes of it.

use crate::PublicKey;
use crate::message::MAC_LEN;
use blake2::digest::consts::{U16, U32};
use blake2::digest::{Digest, FixedOutput, Mac};
use blake2::{Blake2s256, Blake2sMac};

/// The key of mac1 in messages to the owner of `receiver`.
pub(crate) fn mac1_key(receiver: &PublicKey) -> [u8; 32] {
    labelled_hash(b"braid v1 mac1 key", receiver.as_bytes())
}

/// The key that seals cookies made by the owner of `responder`.
pub(crate) fn cookie_sealing_key(responder: &PublicKey) -> [u8; 32] {
    labelled_hash(b"braid v1 cookie key", responder.as_bytes())
}

/// BLAKE2s-128 of `message` with `key`.
pub(crate) fn mac(key: &[u8], message: &[u8]) -> [u8; MAC_LEN] {
    keyed(key, message).finalize_fixed().into()
}

/// Whether `expected` is the MAC of `message`; takes the same time if not.
pub(crate) fn mac_is_right(key: &[u8], message: &[u8], expected: &[u8; MAC_LEN]) -> bool {
    keyed(key, message).verify(expected.into()).is_ok()
}

/// A key for the purpose named by `label`, derived from a uniform secret:
/// keyed BLAKE2s-256 as the pseudo-random function.
pub(crate) fn derive_key(secret: &[u8; 32], label: &[u8]) -> [u8; 32] {
    let mut function = new_keyed::<Blake2sMac<U32>>(secret);
    Mac::update(&mut function, label);
    function.finalize_fixed().into()
}

/// BLAKE2s-256 of `bytes`, for the purpose named by `label`.
pub(crate) fn labelled_hash(label: &[u8], bytes: &[u8]) -> [u8; 32] {
    Blake2s256::new().chain_update(label).chain_update(bytes).finalize().into()
}

fn keyed(key: &[u8], message: &[u8]) -> Blake2sMac<U16> {
    let mut function = new_keyed::<Blake2sMac<U16>>(key);
    Mac::update(&mut function, message);
    function
}

fn new_keyed<M: Mac + blake2::digest::KeyInit>(key: &[u8]) -> M {
    <M as Mac>::new_from_slice(key).expect("keys here have 16 or 32 bytes, BLAKE2s takes up to 32")
}
