//! Our sessions' indices: which peer's a datagram is.

use super::random::SplitMix;
use crate::id::PeerId;
use crate::index_map::IndexMap;
use crate::worker::Worker;
use braid_wire::MAX_SESSION_INDEX;

/// The sessions of all peers of this worker.
#[derive(Debug)]
pub(super) struct SessionTable {
    worker: Worker,
    peers: IndexMap<u32, PeerId>,
}

impl SessionTable {
    /// None; indices will be this worker's.
    pub fn new(worker: Worker) -> Self {
        Self { worker, peers: IndexMap::default() }
    }

    /// Whose session it is.
    #[inline]
    pub fn peer_of(&self, index: u32) -> Option<PeerId> {
        self.peers.get(&index).copied()
    }

    /// A random index of ours that no session has.
    pub fn new_index(&self, random: &mut SplitMix) -> u32 {
        loop {
            let index = (random.next() as u32) & MAX_SESSION_INDEX;
            if self.worker.has_session(index) && !self.peers.contains_key(&index) {
                return index;
            }
        }
    }

    /// From now on this index is of a session of the peer.
    pub fn insert(&mut self, index: u32, peer: PeerId) {
        self.peers.insert(index, peer);
    }

    /// These sessions are gone.
    pub fn remove(&mut self, indices: impl IntoIterator<Item = u32>) {
        for index in indices {
            self.peers.remove(&index);
        }
    }

    /// All of the peer's sessions are gone.
    pub fn forget(&mut self, peer: PeerId) {
        self.peers.retain(|_, of| *of != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU8;

    #[test]
    fn a_new_index_is_this_workers_and_no_sessions() {
        let worker = Worker::all(NonZeroU8::new(2).unwrap()).nth(1).unwrap();
        let (mut table, mut random) = (SessionTable::new(worker), SplitMix::new(7));
        let peer = PeerId(3);
        let indices: Vec<u32> = (0..1000)
            .map(|_| {
                let index = table.new_index(&mut random);
                assert!(worker.has_session(index) && table.peer_of(index).is_none());
                table.insert(index, peer);
                index
            })
            .collect();
        table.remove([indices[0]]);
        assert_eq!(table.peer_of(indices[0]), None);
        assert_eq!(table.peer_of(indices[1]), Some(peer));
        table.forget(peer);
        assert!(indices.iter().all(|index| table.peer_of(*index).is_none()));
    }
}
