use crate::mac::labelled_hash;
use crate::{PresharedKey, PrivateKey};
use rand_core::CryptoRng;
use std::fmt;
use zeroize::ZeroizeOnDrop;

/// What lets one home in, once: it is handed to the home by somebody, and both
/// ends make of it the key under which the home introduces its own, and a
/// pre-shared key. Erased from memory when dropped.
#[derive(Clone, ZeroizeOnDrop)]
pub struct EnrolmentToken([u8; EnrolmentToken::LEN]);

/// Why a home that introduces itself is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnrolmentRefusal {
    /// Another home was let in with this token.
    Used,
    /// The token was valid until a time that is over.
    Expired,
}

impl EnrolmentToken {
    /// Bytes: as hard to guess as the keys.
    pub const LEN: usize = 16;

    /// A new one from `rng` (see [`crate::os_random`]).
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; Self::LEN];
        rng.fill_bytes(&mut bytes);
        EnrolmentToken(bytes)
    }

    /// The token made of `bytes`.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        EnrolmentToken(bytes)
    }

    /// Its bytes, for the line that is handed over.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The key under which the home introduces its own.
    pub fn key(&self) -> PrivateKey {
        PrivateKey::from_bytes(&labelled_hash(b"braid v1 enrolment key", &self.0))
    }

    /// The secret that both ends share from then on.
    pub fn preshared_key(&self) -> PresharedKey {
        PresharedKey::from_bytes(&labelled_hash(b"braid v1 enrolment psk", &self.0))
    }
}

impl fmt::Debug for EnrolmentToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnrolmentToken(redacted)")
    }
}

impl EnrolmentRefusal {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Used => 1,
            Self::Expired => 2,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Used),
            2 => Some(Self::Expired),
            _ => None,
        }
    }
}

impl fmt::Display for EnrolmentRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Used => "another router has joined with this join line",
            Self::Expired => "this join line has expired",
        })
    }
}
