use ring::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};

/// The cipher of a session's data packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-256 in Galois/counter mode: the faster one where the CPU has
    /// instructions for it.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): fast on every CPU.
    ChaCha20Poly1305,
}

/// The AEADs that a peer offers for a session. ChaCha20-Poly1305 always is
/// among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AeadOffer {
    /// Only ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// AES-256-GCM too, because this peer does it fast.
    AesGcmToo,
}

impl AeadOffer {
    /// What suits the CPU that this runs on.
    pub fn of_this_cpu() -> Self {
        if aes_gcm_is_fast_here() { Self::AesGcmToo } else { Self::ChaCha20Poly1305 }
    }

    /// The AEAD that two peers with these offers use: AES-256-GCM if both do
    /// it fast.
    pub fn agree(self, other: Self) -> Aead {
        match (self, other) {
            (Self::AesGcmToo, Self::AesGcmToo) => Aead::Aes256Gcm,
            _ => Aead::ChaCha20Poly1305,
        }
    }

    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 0,
            Self::AesGcmToo => 1,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::ChaCha20Poly1305),
            1 => Some(Self::AesGcmToo),
            _ => None,
        }
    }
}

impl Aead {
    /// After this many packets sealed with a key, a new one should be agreed
    /// on: half of [`Self::reject_after_packets`] for AES-256-GCM, so that
    /// the other half lasts until the handshake is done; 2^60 packets for
    /// ChaCha20-Poly1305 (`REKEY_AFTER_MESSAGES` of the WireGuard paper).
    pub const fn rekey_after_packets(self) -> u64 {
        match self {
            Self::Aes256Gcm => 1 << 22,
            Self::ChaCha20Poly1305 => 1 << 60,
        }
    }

    /// After this many packets sealed with a key it must not be used any
    /// more: RFC 9001 section 6.6. For AES-256-GCM that is 2^23 packets of up
    /// to 2^16 bytes; ChaCha20-Poly1305 may seal 2^62.
    pub const fn reject_after_packets(self) -> u64 {
        match self {
            Self::Aes256Gcm => 1 << 23,
            Self::ChaCha20Poly1305 => 1 << 62,
        }
    }

    /// After this many forged packets tried with a key it must not be used
    /// any more: RFC 9001 section 6.6.
    pub const fn reject_after_forgeries(self) -> u64 {
        match self {
            Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }

    /// The name, as in RFCs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn aes_gcm_is_fast_here() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn aes_gcm_is_fast_here() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn aes_gcm_is_fast_here() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_is_used_only_where_both_do_it_fast() {
        use AeadOffer::*;
        assert_eq!(AesGcmToo.agree(AesGcmToo), Aead::Aes256Gcm);
        assert_eq!(AesGcmToo.agree(ChaCha20Poly1305), Aead::ChaCha20Poly1305);
        assert_eq!(ChaCha20Poly1305.agree(AesGcmToo), Aead::ChaCha20Poly1305);
        assert_eq!(ChaCha20Poly1305.agree(ChaCha20Poly1305), Aead::ChaCha20Poly1305);
    }
}
