//! What a tunnel tells of itself: events, and counters of what belongs to no peer.

use crate::id::{LinkId, PeerId};
use crate::path::liveness::PathState;
use crate::peer::Referral;
use braid_handshake::{EnrolmentRefusal, PublicKey};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Events that nobody fetches must not fill the memory: those of some hundred peers whose
/// paths all change at once. Ours; not measured.
const MOST: usize = 1024;

/// Events until they are fetched, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Event>);

impl Events {
    /// One more. Of too many the oldest goes: what came later says how things are.
    pub fn push(&mut self, event: Event) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// The oldest one.
    pub fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}

/// Something worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Keys were agreed on with the peer (again), and it has shown that it has
    /// them.
    Handshake {
        /// The peer.
        peer: PeerId,
        /// It had restarted, or it's the first time.
        anew: bool,
    },
    /// The peer said goodbye.
    Closed {
        /// The peer.
        peer: PeerId,
    },
    /// A home that isn't known yet has introduced itself by a token that is open or has
    /// expired. It tries again until it is a peer.
    Introduced {
        /// The token's public key.
        token: PublicKey,
        /// The home's own.
        home: PublicKey,
        /// Where it came from.
        from: SocketAddr,
    },
    /// Somebody has used a token that lets nobody in any more, and was told so.
    Refused {
        /// The token's public key.
        token: PublicKey,
        /// Why.
        refusal: EnrolmentRefusal,
        /// Where that came from.
        from: SocketAddr,
    },
    /// The peer doesn't let us in by the token that we have.
    NotEnrolled {
        /// The peer.
        peer: PeerId,
        /// Why.
        refusal: EnrolmentRefusal,
    },
    /// From now on another peer serves some addresses.
    Moved {
        /// Whose addresses they are.
        owner: PeerId,
        /// Who served them.
        from: PeerId,
        /// Who does now.
        to: PeerId,
    },
    /// A home says who serves it, or is taken on after a while.
    Served {
        /// The home.
        peer: PeerId,
        /// It is this end, which has room for it.
        here: bool,
    },
    /// A concentrator says by which others we may be served too, all of them.
    Referred {
        /// The concentrator.
        peer: PeerId,
        /// The others.
        referrals: Vec<Referral>,
    },
    /// What is thought of a path changed.
    Path {
        /// The peer.
        peer: PeerId,
        /// The path's link.
        link: LinkId,
        /// The path.
        path: u8,
        /// What is thought of it now.
        state: PathState,
    },
}

/// Counters of what belongs to no peer.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct TunnelCounters {
    /// Datagrams that aren't ours or of no session.
    pub strange: u64,
    /// Data datagrams that didn't open.
    pub forged: u64,
    /// Data datagrams seen before.
    pub replayed: u64,
    /// Handshake messages refused.
    pub refused_handshakes: u64,
    /// Of those, initiations that weren't even looked at: there were too many.
    pub unread_handshakes: u64,
    /// Inner packets for which there is no peer.
    pub unroutable: u64,
}

impl std::ops::AddAssign for TunnelCounters {
    fn add_assign(&mut self, other: Self) {
        let Self { strange, forged, replayed, refused_handshakes, unread_handshakes, unroutable } =
            other;
        self.strange += strange;
        self.forged += forged;
        self.replayed += replayed;
        self.refused_handshakes += refused_handshakes;
        self.unread_handshakes += unread_handshakes;
        self.unroutable += unroutable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_events_that_nobody_fetches_the_newest_are_kept() {
        let mut events = Events::default();
        let closed = |number| Event::Closed { peer: PeerId(number) };
        for number in 0..MOST as u32 + 3 {
            events.push(closed(number));
        }
        let kept: Vec<Event> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(kept.len(), MOST);
        assert_eq!(kept[0], closed(3));
        assert_eq!(kept[MOST - 1], closed(MOST as u32 + 2));
    }
}
