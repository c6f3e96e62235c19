/// The highest timestamp that a peer has put into an initiation; kept by the
/// responder for every peer.
///
/// A replayed initiation carries a timestamp that was seen. As in the
/// WireGuard paper, section 5.1, the times of two peers are never compared,
/// only the order of one peer's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatestTimestamp(u64);

/// An initiation that is older than one already answered, or the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an initiation that was already answered, or is older than one that was")]
pub struct StaleTimestamp;

impl LatestTimestamp {
    /// Takes note of a timestamp, to be done for every authentic initiation
    /// before it is answered.
    ///
    /// # Errors
    ///
    /// [`StaleTimestamp`] if it is not higher than all before.
    pub fn advance(&mut self, timestamp: u64) -> Result<(), StaleTimestamp> {
        if timestamp <= self.0 {
            return Err(StaleTimestamp);
        }
        self.0 = timestamp;
        Ok(())
    }
}
