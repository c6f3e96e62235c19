//! A rolling hash over blocks of a stream, so that two ends can compare prefixes by 32 bytes.

/// Streams are cut into blocks of this size; only the last may be shorter.
pub const BLOCK: usize = 128 * 1024;

/// The hash of all blocks so far: BLAKE3 of the previous hash and the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain([u8; 32]);

impl Chain {
    /// With one more block.
    #[must_use]
    pub fn after(self, block: &[u8]) -> Chain {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(block);
        Chain(*hasher.finalize().as_bytes())
    }

    /// As bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// From bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Chain {
        Chain(bytes)
    }
}
