/// The highest timestamp that a peer has put into an initiation; kept by the
/// responder for every peer.
///
/// A replayed initiation carries a timestamp that was seen. As in the
/// WireGuard paper, section 5.1, the times of two peers are never compared,
/// only the order of one peer's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatestTimestamp(u64);

/// The timestamps that an initiator puts into its initiations to one peer: by
/// the clock, but each above the one before and above what the peer says it
/// has seen. So it's a counter, for which the clock is but a good guess where
/// to begin, and a wrong clock costs one more round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTimestamp {
    used: u64,
}

/// The year 2262, where Linux's clocks end. Above it there is still room to
/// count, whatever a broken clock shows.
const LAST_CLOCK: u64 = u64::MAX / 2;

/// An initiation that is older than one already answered, or the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an initiation that was already answered, or is older than one that was")]
pub struct StaleTimestamp {
    /// The highest timestamp so far.
    pub latest: u64,
}

impl LatestTimestamp {
    /// Takes note of a timestamp, to be done for every authentic initiation
    /// before it is answered.
    ///
    /// # Errors
    ///
    /// [`StaleTimestamp`] if it is not higher than all before.
    pub fn advance(&mut self, timestamp: u64) -> Result<(), StaleTimestamp> {
        if timestamp <= self.0 {
            return Err(StaleTimestamp { latest: self.0 });
        }
        self.0 = timestamp;
        Ok(())
    }
}

impl NextTimestamp {
    /// The timestamp of the next initiation, by a clock that shows so many
    /// nanoseconds since 1970.
    pub fn take(&mut self, clock: u64) -> u64 {
        self.used = clock.min(LAST_CLOCK).max(self.used.saturating_add(1));
        self.used
    }

    /// The peer says that it has seen `latest`
    /// ([`HandshakeError::Stale`](crate::HandshakeError::Stale)).
    pub fn catch_up(&mut self, latest: u64) {
        self.used = self.used.max(latest);
    }
}
