//! Whom a concentrator takes on: as many homes as it is for, decided when a home says that it is
//! served here. One for whom there is no room hears so at once and goes to another; one that knows
//! no other says its word again, and is served all the same.

use braid_units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A home that has said nothing so long after it connected has one concentrator. Ours, as
/// `SAYS_WITHIN` of what is announced.
const SAYS_WITHIN: Duration = Duration::from_secs(1);
/// One that was refused and hasn't gone knows no other, though it doesn't say so (older versions).
/// Longer than a home waits for others in the beginning. Ours.
const GOES_WITHIN: Duration = Duration::from_secs(3);
/// How often it is looked whether there is room again for those that were refused. Ours.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// The one count of homes served, of all workers together, and how many there may be.
#[derive(Debug)]
pub struct Room {
    capacity: AtomicU32,
    served: AtomicU32,
}

impl Default for Room {
    /// Without a limit.
    fn default() -> Room {
        Room::new(u32::MAX)
    }
}

impl Room {
    /// For so many homes, of whom none is here yet.
    pub fn new(capacity: u32) -> Room {
        Room { capacity: AtomicU32::new(capacity), served: AtomicU32::new(0) }
    }

    /// For so many from now on. Those that are here stay, however few it is for.
    pub fn set_capacity(&self, capacity: u32) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// How many are served now.
    pub fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }

    /// How many more there is room for.
    pub fn free(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed).saturating_sub(self.served())
    }

    /// Of two that want the last place one gets it: nothing else depends on the count, so no
    /// stronger order than the counter's own is needed.
    fn take(&self, beyond: bool) -> bool {
        let capacity = if beyond { u32::MAX } else { self.capacity.load(Ordering::Relaxed) };
        let one_more = |served: u32| (served < capacity).then(|| served.saturating_add(1));
        self.served.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn give_back(&self) {
        let one_less = |served: u32| served.checked_sub(1);
        let _ = self.served.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }
}

/// What becomes of a home that has said who serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is served here.
    Here,
    /// It says so, but there is no room: it is to be told.
    Refused,
    /// Another one serves it.
    Elsewhere,
}

/// One worker's homes.
#[derive(Debug)]
pub struct Residents<K> {
    room: Arc<Room>,
    served: BTreeSet<K>,
    /// Those that are taken on then, unless they have spoken.
    waiting: BTreeMap<K, Waiting>,
    due: BTreeSet<(Time, K)>,
    /// Those that were told that there is no room, and when it is looked again.
    refused: BTreeSet<K>,
    look_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    refused: bool,
}

impl<K: Ord + Copy> Residents<K> {
    /// Of nobody yet.
    pub fn new(room: Arc<Room>) -> Self {
        Self {
            room,
            served: BTreeSet::new(),
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            refused: BTreeSet::new(),
            look_at: Time::ZERO,
        }
    }

    /// A home has connected, and has said nothing yet. One that is served and begins anew stays.
    pub fn connect(&mut self, home: K, now: Time) {
        if !self.served.contains(&home) && !self.waiting.contains_key(&home) {
            self.wait(home, Waiting { until: now + SAYS_WITHIN, refused: false });
        }
    }

    /// A home has said whether it is served `here`; not what it had said before. Who says again
    /// that it is, after it was refused, knows no other.
    pub fn hear(&mut self, home: K, here: bool, now: Time) -> Admitted {
        if !here {
            self.give_back(home);
            return Admitted::Elsewhere;
        }
        if self.served.contains(&home) {
            return Admitted::Here;
        }
        let knows_no_other = self.stop_waiting(home).is_some_and(|it| it.refused);
        if self.room.take(knows_no_other) {
            self.served.insert(home);
            self.refused.remove(&home);
            return Admitted::Here;
        }
        self.wait(home, Waiting { until: now + GOES_WITHIN, refused: true });
        self.turn_away(home, now);
        Admitted::Refused
    }

    /// If the last place is taken, turns these homes away before they come in vain. Returns those
    /// to be told, which are neither served here nor turned away already.
    pub fn turn_away_if_full(&mut self, homes: impl IntoIterator<Item = K>, now: Time) -> Vec<K> {
        if self.room.free() > 0 {
            return Vec::new();
        }
        let untold = |home: &K| !self.served.contains(home) && !self.refused.contains(home);
        let untold: Vec<K> = homes.into_iter().filter(untold).collect();
        for home in &untold {
            self.turn_away(*home, now);
        }
        untold
    }

    /// The home is gone: there are no keys with it any more.
    pub fn leave(&mut self, home: K) {
        self.give_back(home);
        self.refused.remove(&home);
    }

    /// Whether the home has been taken on.
    pub fn serves(&self, home: K) -> bool {
        self.served.contains(&home)
    }

    /// Whether it was told that there is no room, and nothing else since.
    pub fn has_turned_away(&self, home: K) -> bool {
        self.refused.contains(&home)
    }

    /// Whether it has said that it is served here, was refused, and has not gone yet.
    pub fn is_refused(&self, home: K) -> bool {
        self.waiting.get(&home).is_some_and(|it| it.refused)
    }

    /// When [`Self::take_due`] and [`Self::welcome`] are to be called.
    pub fn deadline(&self) -> Option<Time> {
        let look = (!self.refused.is_empty()).then_some(self.look_at);
        self.due.first().map(|(at, _)| *at).into_iter().chain(look).min()
    }

    /// Takes one on that hasn't spoken for so long that it has no other concentrator. One that
    /// isn't `connected` can't have spoken.
    pub fn take_due(&mut self, connected: impl Fn(K) -> bool, now: Time) -> Option<K> {
        while let Some((_, home)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Waiting { refused, .. } = self.stop_waiting(home)?;
            if !connected(home) {
                self.wait(home, Waiting { until: now + GOES_WITHIN, refused });
                continue;
            }
            self.room.take(true);
            self.served.insert(home);
            self.refused.remove(&home);
            return Some(home);
        }
        None
    }

    /// Those that were refused and may come now, no more than there is room for.
    pub fn welcome(&mut self, now: Time) -> Vec<K> {
        if self.refused.is_empty() || now < self.look_at {
            return Vec::new();
        }
        self.look_at = now + LOOKED_EVERY;
        let free = usize::try_from(self.room.free()).unwrap_or(usize::MAX);
        let gone = self.refused.iter().filter(|home| !self.waiting.contains_key(home));
        let welcome: Vec<K> = gone.take(free).copied().collect();
        for home in &welcome {
            self.refused.remove(home);
        }
        welcome
    }

    /// Something else is said to the home than that there is no room.
    pub fn forget_refusal(&mut self, home: K) {
        self.refused.remove(&home);
    }

    fn turn_away(&mut self, home: K, now: Time) {
        if self.refused.is_empty() {
            self.look_at = now + LOOKED_EVERY;
        }
        self.refused.insert(home);
    }

    fn give_back(&mut self, home: K) {
        self.stop_waiting(home);
        if self.served.remove(&home) {
            self.room.give_back();
        }
    }

    fn wait(&mut self, home: K, waiting: Waiting) {
        self.due.insert((waiting.until, home));
        self.waiting.insert(home, waiting);
    }

    fn stop_waiting(&mut self, home: K) -> Option<Waiting> {
        let waiting = self.waiting.remove(&home)?;
        self.due.remove(&(waiting.until, home));
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn of_two_that_want_the_last_place_one_gets_it_whichever_workers_have_them() {
        let room = Arc::new(Room::new(2));
        let mut workers = [Residents::new(room.clone()), Residents::new(room.clone())];
        assert_eq!(workers[0].hear(1, true, at(0)), Admitted::Here);
        assert_eq!(workers[1].hear(2, true, at(0)), Admitted::Here);
        assert_eq!(workers[0].hear(3, true, at(0)), Admitted::Refused);
        assert_eq!(workers[1].hear(4, true, at(0)), Admitted::Refused);
        assert_eq!((room.served(), room.free()), (2, 0));
        assert_eq!(workers[0].hear(1, true, at(5)), Admitted::Here, "it is served already");
        assert_eq!(workers[1].hear(2, false, at(9)), Admitted::Elsewhere);
        assert_eq!(workers[0].hear(5, true, at(9)), Admitted::Here);
        assert_eq!(room.served(), 2);
    }

    #[test]
    fn who_knows_no_other_says_it_again_or_nothing_and_is_served_all_the_same() {
        let room = Arc::new(Room::new(1));
        let mut homes = Residents::new(room.clone());
        homes.hear(1, true, at(0));
        assert_eq!(homes.hear(2, true, at(0)), Admitted::Refused);
        assert_eq!(homes.hear(3, true, at(0)), Admitted::Refused);
        assert!(homes.is_refused(2) && !homes.serves(2));
        assert_eq!(homes.hear(2, true, at(100)), Admitted::Here);
        assert_eq!(homes.take_due(|_| true, at(2999)), None);
        assert_eq!(homes.take_due(|_| false, at(3000)), None, "it can't say anything");
        assert_eq!(homes.take_due(|_| true, at(5999)), None);
        assert_eq!(homes.take_due(|_| true, at(6000)), Some(3));
        assert_eq!((room.served(), homes.take_due(|_| true, at(9000))), (3, None));
        // It has gone meanwhile, and comes again: it is asked anew.
        homes.hear(3, false, at(9000));
        assert_eq!(homes.hear(3, true, at(9000)), Admitted::Refused);
    }

    #[test]
    fn one_that_says_nothing_is_served_after_a_while_and_one_that_stands_by_is_not() {
        let room = Arc::new(Room::new(5));
        let mut homes = Residents::new(room.clone());
        homes.connect(1, at(0));
        homes.connect(2, at(0));
        homes.hear(2, false, at(20));
        assert_eq!((room.served(), homes.deadline()), (0, Some(at(1000))));
        assert_eq!(homes.take_due(|_| true, at(1000)), Some(1));
        assert_eq!(homes.take_due(|_| true, at(1000)), None);
        // It begins anew, and is where it was.
        homes.connect(1, at(2000));
        assert_eq!((room.served(), homes.deadline()), (1, None));
        homes.leave(1);
        assert_eq!(room.served(), 0);
    }

    #[test]
    fn those_that_were_refused_hear_when_there_is_room_no_more_than_it_is_for() {
        let mut homes = Residents::new(Arc::new(Room::new(2)));
        for home in 1..=5 {
            homes.hear(home, true, at(0));
        }
        for home in 3..=5 {
            homes.hear(home, false, at(50));
        }
        assert_eq!((homes.welcome(at(1000)), homes.deadline()), (vec![], Some(at(2000))));
        homes.hear(1, false, at(1500));
        assert_eq!(homes.welcome(at(1900)), vec![], "not yet");
        assert_eq!(homes.welcome(at(2000)), [3]);
        homes.forget_refusal(4);
        homes.hear(2, false, at(2500));
        assert_eq!((homes.welcome(at(3000)), homes.deadline()), (vec![5], None));
    }

    #[test]
    fn once_the_last_place_is_taken_others_are_told_once() {
        let mut homes = Residents::new(Arc::new(Room::new(2)));
        homes.hear(1, true, at(0));
        assert_eq!(homes.turn_away_if_full([1, 3, 4], at(0)), vec![], "there is room");
        homes.hear(2, true, at(0));
        homes.hear(3, true, at(0));
        assert_eq!(homes.turn_away_if_full([1, 2, 3, 4], at(0)), [4]);
        assert_eq!(homes.turn_away_if_full([1, 2, 3, 4], at(0)), vec![], "it knows");
        assert!(homes.has_turned_away(4) && !homes.is_refused(4));
    }

    proptest! {
        /// Whatever happens: the count is that of the homes that are served, none is taken on
        /// beyond the room at its first word, and none waits for ever.
        #[test]
        fn the_count_is_right_and_nobody_waits_for_ever(
            steps in prop::collection::vec((0u8..5, 0u32..12, 0u64..900), 0..300),
        ) {
            let room = Arc::new(Room::new(4));
            let mut workers = [Residents::new(room.clone()), Residents::new(room.clone())];
            let mut now = at(0);
            for (what, home, wait) in steps {
                let worker = &mut workers[home as usize % 2];
                match what {
                    0 => worker.connect(home, now),
                    1 => worker.leave(home),
                    2 => assert_eq!(worker.hear(home, false, now), Admitted::Elsewhere),
                    _ => {
                        let new = !worker.serves(home) && !worker.is_refused(home);
                        let before = room.served();
                        let admitted = worker.hear(home, true, now);
                        if new {
                            prop_assert_eq!(admitted == Admitted::Here, before < 4);
                        }
                    }
                }
                now += Duration::from_millis(wait);
                for worker in &mut workers {
                    while worker.take_due(|home| home != 3, now).is_some() {}
                    worker.welcome(now);
                    prop_assert!(worker.due.iter().all(|(at, _)| *at > now));
                    prop_assert_eq!(worker.due.len(), worker.waiting.len());
                    prop_assert!(worker.deadline().is_none_or(|at| at > now));
                }
                let served = workers.iter().map(|it| it.served.len()).sum::<usize>();
                prop_assert_eq!(served, room.served() as usize);
            }
        }
    }
}
