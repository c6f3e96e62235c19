//! Debounces an up/down state: reports it when it is certain, and not repeatedly.

use std::collections::VecDeque;
use std::time::Duration;

/// The reported up/down state of something. Times are since an arbitrary moment.
#[derive(Debug)]
pub struct Steady {
    patience: Patience,
    told: Told,
    is_up: bool,
    since: Duration,
    changes: VecDeque<Duration>,
    flapping: bool,
}

/// What was last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Up,
    Down,
    Flapping,
}

/// How long a state must last before it is reported.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Before it counts as down.
    pub down: Duration,
    /// Before it counts as up again.
    pub up: Duration,
}

/// A change to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is down.
    Down,
    /// It is up, for the first time.
    First,
    /// It is up again.
    Up,
    /// It is flapping: no more is reported until it is stable.
    Flapping,
}

/// This many changes within [`CALM`] count as flapping.
const FLAPPING: usize = 6;
const CALM: Duration = Duration::from_secs(600);

impl Steady {
    /// Nothing known yet at `now`.
    pub fn new(patience: Patience, now: Duration) -> Steady {
        Steady {
            patience,
            told: Told::Nothing,
            is_up: false,
            since: now,
            changes: VecDeque::new(),
            flapping: false,
        }
    }

    /// Takes the current state; returns a change to report.
    pub fn observe(&mut self, is_up: bool, now: Duration) -> Option<Change> {
        if is_up != self.is_up {
            (self.is_up, self.since) = (is_up, now);
            // The first time up doesn't count as a change.
            if self.told != Told::Nothing {
                self.changes.push_back(now);
            }
        }
        while self.changes.front().is_some_and(|at| now.saturating_sub(*at) > CALM) {
            self.changes.pop_front();
        }
        while self.changes.len() > FLAPPING {
            self.changes.pop_front();
        }
        if self.flapping {
            self.flapping = !self.changes.is_empty();
        } else if self.changes.len() >= FLAPPING {
            self.flapping = true;
            self.told = Told::Flapping;
            return Some(Change::Flapping);
        }
        let patience = if is_up { self.patience.up } else { self.patience.down };
        let is_certain = now.saturating_sub(self.since) >= patience;
        let news = if is_up { Told::Up } else { Told::Down };
        if self.flapping || !is_certain || self.told == news {
            return None;
        }
        Some(match (std::mem::replace(&mut self.told, news), is_up) {
            (_, false) => Change::Down,
            (Told::Nothing, true) => Change::First,
            (_, true) => Change::Up,
        })
    }

    /// Whether nothing has been certain yet.
    pub fn was_never_told(&self) -> bool {
        self.told == Told::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { down: Duration::from_secs(3), up: Duration::from_secs(5) };

    /// The reported changes and their seconds, for a sequence of states.
    fn told(seconds: impl IntoIterator<Item = bool>) -> Vec<(u64, Change)> {
        let mut steady = Steady::new(PATIENCE, Duration::ZERO);
        let seconds = seconds.into_iter().zip(0..);
        let observe = |(is_up, at)| Some((at, steady.observe(is_up, Duration::from_secs(at))?));
        seconds.filter_map(observe).collect()
    }

    fn lasting(parts: &[(bool, usize)]) -> Vec<bool> {
        parts.iter().flat_map(|(is_up, count)| vec![*is_up; *count]).collect()
    }

    #[test]
    fn a_moment_is_not_told() {
        let seconds = lasting(&[(true, 20), (false, 2), (true, 20), (false, 1), (true, 20)]);
        assert_eq!(told(seconds), [(5, Change::First)]);
    }

    #[test]
    fn down_and_up_are_told_once_each() {
        let seconds = lasting(&[(true, 20), (false, 100), (true, 100)]);
        assert_eq!(told(seconds), [(5, Change::First), (23, Change::Down), (125, Change::Up)]);
    }

    #[test]
    fn what_never_came_up_is_down() {
        assert_eq!(told(vec![false; 100]), [(3, Change::Down)]);
    }

    #[test]
    fn what_comes_and_goes_is_told_once_until_it_rests() {
        let mut seconds = lasting(&[(true, 20)]);
        for _ in 0..100 {
            seconds.extend(lasting(&[(false, 10), (true, 10)]));
        }
        seconds.extend(vec![false; 1000]);
        let told = told(seconds);
        let changes: Vec<Change> = told.iter().map(|(_, change)| *change).collect();
        use Change::{Down, First, Flapping, Up};
        assert_eq!(changes, [First, Down, Up, Down, Up, Down, Flapping, Down]);
        let rested = told.last().map(|(at, _)| *at).unwrap();
        assert!((2000 + 600..2000 + 640).contains(&rested), "{rested}");
    }
}
