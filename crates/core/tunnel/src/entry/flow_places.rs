//! Which queue a flow has: one of eight, so that two flows seldom share one (as
//! CAKE does it, 8-way set-associative; Høiland-Jørgensen et al., LANMAN 2018).
//! By plain hashing a ping beside fifty downloads would share with one of them
//! once in twenty times, and wait in its queue.

use super::FLOWS;
use braid_units::Time;
use std::num::NonZeroU64;
use std::time::Duration;

/// Places that a flow can have. As CAKE's set-associative
/// hash (Høiland-Jørgensen et al., LANMAN 2018).
const WAYS: usize = 8;
/// A place unused for so long has no packets on their way any more: a flow that
/// gets another one then keeps its order. Ours.
const UNUSED: Duration = Duration::from_secs(2);

/// The places of all flows.
#[derive(Debug, Default)]
pub struct FlowPlaces {
    /// Made when a flow first comes to them: most peers have few flows.
    sets: Vec<Option<Box<Set>>>,
}

#[derive(Debug, Default)]
struct Set {
    /// The flows' hashes; what has never been used has none.
    hashes: [Option<NonZeroU64>; WAYS],
    used: [Time; WAYS],
}

impl FlowPlaces {
    /// The place of the flow with this hash, which has a packet now, by a clock
    /// that stands still while nothing can be sent. A place that still has
    /// packets waiting isn't given to another flow.
    pub fn place(&mut self, hash: u64, now: Time, waiting: impl Fn(u16) -> bool) -> u16 {
        if self.sets.is_empty() {
            self.sets.resize_with(FLOWS / WAYS, || None);
        }
        let number = hash as usize % (FLOWS / WAYS);
        let Some(set) = self.sets.get_mut(number) else { return 0 };
        let set = set.get_or_insert_default();
        let first = number * WAYS;
        let way = set.way(hash, now, |way| waiting((first + way) as u16));
        (first + way) as u16
    }

    /// The place that the flow with this hash has.
    pub fn find(&self, hash: u64) -> Option<u16> {
        let number = hash as usize % (FLOWS / WAYS);
        let set = self.sets.get(number)?.as_deref()?;
        let way = set.hashes.iter().position(|&other| other == name(hash))?;
        Some((number * WAYS + way) as u16)
    }

    /// Forgets all flows.
    pub fn rest(&mut self) {
        self.sets = Vec::new();
    }
}

impl Set {
    fn way(&mut self, hash: u64, now: Time, waiting: impl Fn(usize) -> bool) -> usize {
        let name = name(hash);
        let known = self.hashes.iter().position(|&other| other == name);
        let free = || {
            let unused = |way: &usize| {
                self.hashes[*way].is_none() || now - self.used[*way] >= UNUSED && !waiting(*way)
            };
            (0..WAYS).filter(unused).min_by_key(|&way| self.used[way])
        };
        match known.or_else(free) {
            Some(way) => {
                (self.hashes[way], self.used[way]) = (name, now);
                way
            }
            // All are busy: it shares one.
            None => (hash >> 32) as usize % WAYS,
        }
    }
}

/// Two of all hashes are taken for one.
fn name(hash: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(hash).or(Some(NonZeroU64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Nothing waits anywhere.
    const NONE: fn(u16) -> bool = |_| false;

    /// Flows whose set is the same.
    fn colliding(number: u64) -> u64 {
        number << 40 | 5
    }

    #[test]
    fn eight_flows_of_a_set_share_nothing_and_keep_their_places() {
        let mut places = FlowPlaces::default();
        let first: Vec<u16> =
            (0..8).map(|n| places.place(colliding(n), Time::from_millis(n), NONE)).collect();
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 8);
        let again: Vec<u16> =
            (0..8).map(|n| places.place(colliding(n), Time::from_millis(900), NONE)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn a_ninth_shares_until_one_has_gone() {
        let mut places = FlowPlaces::default();
        let now = Time::from_millis(1000);
        let taken: Vec<u16> = (0..8).map(|n| places.place(colliding(n), now, NONE)).collect();
        let shared = places.place(colliding(8), now, NONE);
        assert!(taken.contains(&shared));
        let later = now + (UNUSED - Duration::from_millis(1));
        for n in (0..8).filter(|n| *n != 3) {
            places.place(colliding(n), later, NONE);
        }
        let waits = |place: u16| place == taken[3];
        assert_ne!(places.place(colliding(8), now + UNUSED, waits), taken[3]);
        assert_eq!(places.place(colliding(8), now + UNUSED, NONE), taken[3]);
        // The one that had it comes back to another.
        assert_ne!(places.place(colliding(0), now + UNUSED, NONE), taken[3]);
    }

    #[test]
    fn a_hundred_flows_hardly_share() {
        let mut places = FlowPlaces::default();
        let mix = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let distinct: HashSet<u16> =
            (0..100).map(|n| places.place(mix(n), Time::from_millis(1000), NONE)).collect();
        assert_eq!(distinct.len(), 100);
        assert!(distinct.iter().all(|&place| usize::from(place) < FLOWS));
    }
}
