//! What must be known of a path that is no more: it may come again.

use super::{Path, PathCounters, PathPolicy};
use crate::id::LinkId;
use crate::path::received::ReceivedPackets;
use crate::path::sent::SentPackets;
use braid_handshake::ReplayWindow;

/// A path that is no more. Its packet numbers are used up in both directions,
/// whatever link or address has its number next: no nonce may be used twice,
/// and nothing be taken twice.
#[derive(Debug)]
pub struct ClosedPath {
    /// Its number.
    pub id: u8,
    /// Our link that it was on.
    pub link: LinkId,
    /// The largest packet number that came by it.
    pub largest_received: Option<u64>,
    next_number: u64,
    policy: PathPolicy,
    counters: PathCounters,
}

impl ClosedPath {
    /// Datagrams that really were lost.
    pub fn lost(&self) -> u64 {
        self.counters.lost.saturating_sub(self.counters.spurious)
    }
}

impl From<Path> for ClosedPath {
    fn from(path: Path) -> Self {
        Self {
            id: path.id,
            link: path.link,
            largest_received: path.received.largest(),
            next_number: path.sent.next_number(),
            policy: path.policy,
            counters: path.counters,
        }
    }
}

impl Path {
    /// Goes on with the numbers of the path that had this one's number before.
    pub fn continue_from(&mut self, closed: &ClosedPath) {
        self.sent = SentPackets::starting_at(closed.next_number);
        if let Some(largest) = closed.largest_received {
            self.received = ReceivedPackets::up_to(largest);
            self.replay = ReplayWindow::up_to(largest);
        }
        self.policy = closed.policy;
        self.set_cap(closed.policy.cap);
        if closed.link == self.link {
            self.counters = closed.counters;
        }
    }
}
