//! When which peer has something to do. A peer's time changes with nearly
//! every packet, mostly to a later one, so that is only noted; the queue learns
//! of it when the earlier one has come.

use crate::id::PeerId;
use braid_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The peers' deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BinaryHeap<Reverse<(Time, PeerId)>>,
    /// By their places among this worker's peers.
    peers: Vec<Timer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timer {
    /// When it is to be called.
    wanted: Option<Time>,
    /// Its place in the queue; other entries of it there are void.
    queued: Option<Time>,
}

impl Timers {
    /// From now on the peer is to be called at `at`, or not at all.
    pub fn set(&mut self, id: PeerId, at: Option<Time>) {
        let index = id.place();
        if self.peers.len() <= index {
            self.peers.resize(index + 1, Timer::default());
        }
        let Some(timer) = self.peers.get_mut(index) else { return };
        timer.wanted = at;
        if let Some(at) = at
            && timer.queued.is_none_or(|queued| at < queued)
        {
            timer.queued = Some(at);
            self.queue.push(Reverse((at, id)));
        }
    }

    /// When to look again at the latest: no peer is to be called earlier.
    pub fn next(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// A peer whose time has come, once.
    pub fn pop_due(&mut self, now: Time) -> Option<PeerId> {
        while let Some(&Reverse((at, id))) = self.queue.peek() {
            if at > now {
                return None;
            }
            self.queue.pop();
            let Some(timer) = self.peers.get_mut(id.place()) else { continue };
            if timer.queued != Some(at) {
                continue;
            }
            timer.queued = timer.wanted.filter(|wanted| *wanted > now);
            match timer.queued {
                Some(later) => self.queue.push(Reverse((later, id))),
                None if timer.wanted.take().is_some() => return Some(id),
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Worker;
    use proptest::prelude::*;
    use std::num::NonZeroU8;

    #[test]
    fn a_peer_of_any_worker_takes_the_room_of_its_place() {
        for worker in Worker::all(NonZeroU8::MAX) {
            let mut timers = Timers::default();
            let peer = worker.peer(3);
            timers.set(peer, Some(Time::from_millis(1)));
            assert_eq!(timers.peers.len(), 4);
            assert_eq!(timers.pop_due(Time::from_millis(1)), Some(peer));
        }
    }

    proptest! {
        /// Against the plain way: a list that is searched.
        #[test]
        fn each_peer_is_called_when_it_last_wished(
            steps in prop::collection::vec((0u32..5, prop::option::of(0u64..40), 0u64..5), 0..200),
        ) {
            let mut timers = Timers::default();
            let mut plain = std::collections::BTreeMap::new();
            let mut now = 0;
            for (id, at, pass) in steps {
                timers.set(PeerId(id), at.map(|after| Time::from_millis(now + after)));
                plain.remove(&id);
                plain.extend(at.map(|after| (id, now + after)));
                now += pass;
                let expected: Vec<u32> =
                    plain.extract_if(.., |_, at| *at <= now).map(|(id, _)| id).collect();
                let time = Time::from_millis(now);
                let mut called: Vec<u32> =
                    std::iter::from_fn(|| timers.pop_due(time)).map(|id| id.0).collect();
                called.sort_unstable();
                prop_assert_eq!(called, expected);
                let soonest = plain.values().min().copied().map(Time::from_millis);
                prop_assert!(soonest.is_none_or(|at| timers.next().is_some_and(|n| n <= at)));
            }
            // Void entries don't pile up.
            prop_assert!(timers.queue.len() <= 205);
        }
    }
}
