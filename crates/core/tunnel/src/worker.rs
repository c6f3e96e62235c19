//! Several tunnels that are one to the outside: each on a processor of its own, with peers of
//! its own, no lock between them. They share a key, addresses and the device; what comes to one
//! and is another's is handed over. Which is whose is in the number itself: a peer's has its
//! worker's in front, a session's index, divided by how many workers there are, leaves it. So
//! whoever steers datagrams need not know any session.

use crate::id::{LinkId, PeerId};
use braid_inner::InnerPacket;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;

/// Of a peer's number so many bits are its place among its worker's peers.
const PLACE_BITS: u32 = 24;

/// Which of how many workers a tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    number: u8,
    count: NonZeroU8,
}

/// What belongs to another worker.
#[derive(Debug)]
pub enum Handover {
    /// A datagram of a session or handshake of its.
    Datagram {
        /// By which link it came.
        link: LinkId,
        /// Whose it is.
        remote: SocketAddr,
        /// To which of our addresses, where that is known.
        local: Option<IpAddr>,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// A packet for a peer of its.
    Packet(InnerPacket),
}

impl Worker {
    /// The only one.
    pub const ALONE: Worker = Worker { number: Self::FIRST, count: NonZeroU8::MIN };
    /// The one that lets initiations in, so that floods of them have one budget; calls to peers
    /// are its, too.
    pub const FIRST: u8 = 0;

    /// Datagrams of sessions begin with this byte...
    pub const SESSION_KIND: u8 = 4;
    /// ...and at this place have the byte by which [`Self::of_session`] goes.
    pub const SESSION_BYTE: u8 = 3;

    /// So many, the first one first.
    pub fn all(count: NonZeroU8) -> impl Iterator<Item = Worker> {
        (0..count.get()).map(move |number| Worker { number, count })
    }

    /// From 0 on.
    pub fn number(self) -> u8 {
        self.number
    }

    /// Whether it is [`Self::FIRST`].
    pub fn is_first(self) -> bool {
        self.number == Self::FIRST
    }

    /// Whose session has this index: its last byte counts, as that is the one that a steering
    /// program reads.
    pub fn of_session(self, index: u32) -> u8 {
        index as u8 % self.count
    }

    pub(crate) fn has_session(self, index: u32) -> bool {
        self.of_session(index) == self.number
    }

    /// The number of the peer at this place among the worker's.
    pub(crate) fn peer(self, place: u32) -> PeerId {
        PeerId(u32::from(self.number) << PLACE_BITS | place)
    }

    /// The place of a peer of this worker; beyond all places for one of another's.
    #[inline]
    pub(crate) fn place(self, peer: PeerId) -> usize {
        (peer.0 ^ u32::from(self.number) << PLACE_BITS) as usize
    }
}

impl PeerId {
    /// The number of the worker whose peer it is.
    pub fn worker(self) -> u8 {
        (self.0 >> PLACE_BITS) as u8
    }

    /// Its place among the peers of its worker, from 0.
    #[inline]
    pub(crate) fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_wire::DataHeader;

    #[test]
    fn the_byte_that_steers_is_the_one_that_counts() {
        for receiver in [0, 1, 255, 256, 0x0012_3456, 0x00ff_ffff] {
            let bytes = DataHeader { receiver, path: 1, packet_number: 2 }.to_bytes();
            assert_eq!(bytes[0], Worker::SESSION_KIND);
            assert_eq!(bytes[usize::from(Worker::SESSION_BYTE)], receiver as u8);
        }
    }

    #[test]
    fn numbers_say_whose_they_are() {
        for count in [1, 2, 3, 64].map(|count| NonZeroU8::new(count).unwrap()) {
            let workers: Vec<Worker> = Worker::all(count).collect();
            for worker in &workers {
                assert_eq!(worker.peer(7).worker(), worker.number());
                assert_eq!(worker.place(worker.peer(7)), 7);
                for other in workers.iter().filter(|other| *other != worker) {
                    assert!(other.place(worker.peer(7)) >= 1 << PLACE_BITS);
                }
            }
            for index in [0, 255, 256, 0x00ff_ffff, 12345] {
                let having = workers.iter().filter(|worker| worker.has_session(index)).count();
                assert_eq!(having, 1);
            }
        }
        assert!(Worker::ALONE.is_first() && Worker::ALONE.peer(3) == PeerId(3));
    }
}
