//! Leaves slow paths alone where they make the whole slower.
//!
//! What a stream's slowest path brings, all that came before it waits for, and a
//! sender's window is bounded (a receiver's memory, or the window that its
//! congestion control has come to). When such a sender pauses although the paths
//! have room, its rate is its window over the slowest path's round trip: without
//! that path it may be higher. BLEST (IFIP Networking 2016) predicts this packet
//! by packet from TCP's window, which a tunnel doesn't see; here it's tried, and
//! kept if it's true.

use braid_units::{Rate, Time};
use std::time::Duration;

/// A window of observation, in round trips of the slowest path; and at least.
const WINDOW_ROUND_TRIPS: u32 = 4;
const SHORTEST_WINDOW: Duration = Duration::from_millis(400);
/// Looks that a window needs for a verdict.
const LOOKS: u32 = 8;
/// A sender pauses that has nothing waiting for more than this share of the
/// time...
const PAUSES: f64 = 0.1;
/// ...and uses all it gets when it is less than this one.
const BUSY: f64 = 0.02;
/// One that still grows, as in slow start and after a loss, will need all paths:
/// it has come to its end when its rate grew by less than this in each of so
/// many windows.
const GROWTH: f64 = 1.1;
const FLAT_WINDOWS: u32 = 2;
/// The quicker paths have to promise so much more than there is now: estimates
/// err, and a window that still grows will want the others soon.
const GAIN: f64 = 1.3;
/// A sender that takes less than this part of what the quicker paths carry gets
/// them anyway, as its packets arrive there first; a trickle would seem to pause
/// all the time.
const USED: f64 = 0.2;
/// A path that brought back less than this isn't worth its delay.
const WORTH: f64 = 1.05;
/// The quicker paths are no more what they were below this part of it.
const CHANGED: f64 = 0.8;
/// The first time until the slow paths are tried again, doubled each time they
/// bring nothing.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What is known of a path that could be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFacts {
    pub base_rtt: Duration,
    pub rate: Rate,
}

/// Which paths are quick enough.
#[derive(Debug, Default)]
pub(super) struct SlowPathExclusion {
    began: Time,
    accepted: u64,
    looks: u32,
    /// How long nothing waited.
    idle: Duration,
    /// The last look, and whether nothing waited then.
    looked: (Time, bool),
    state: State,
    /// The last window's rate, and in how many in a row it paused and hadn't
    /// grown.
    last: Rate,
    flat: u32,
    /// Until the slow paths are tried again.
    retry: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// All are used.
    #[default]
    Wide,
    /// No path is used whose round trip is longer than `limit`.
    Narrow { limit: Duration, sum: Rate, before: Rate, until: Time },
    /// All are used, to see whether that gives more than `narrow`.
    Trial { narrow: Rate, windows: u32 },
}

impl SlowPathExclusion {
    /// Paths with a longer round trip are left alone by bulk data.
    pub fn limit(&self) -> Option<Duration> {
        match self.state {
            State::Narrow { limit, .. } => Some(limit),
            State::Wide | State::Trial { .. } => None,
        }
    }

    /// To be called often: whether nothing waits at the entry now, how many bytes
    /// it has accepted in all, and the paths.
    pub fn look(
        &mut self,
        now: Time,
        idle: bool,
        accepted: u64,
        paths: impl Iterator<Item = PathFacts> + Clone,
    ) {
        self.looks += 1;
        // Looks come more often while something is to be sent.
        let (before, was_idle) = std::mem::replace(&mut self.looked, (now, idle));
        if was_idle {
            self.idle += now - before;
        }
        let elapsed = now - self.began;
        if elapsed < SHORTEST_WINDOW {
            return; // Most looks end here: the paths aren't asked.
        }
        let slowest = paths.clone().map(|path| path.base_rtt).max().unwrap_or_default();
        let window = (slowest * WINDOW_ROUND_TRIPS).max(SHORTEST_WINDOW);
        if elapsed < window {
            return;
        }
        let rate = Rate::from_bytes_in(accepted - self.accepted, elapsed);
        let idle = self.idle.as_secs_f64() / elapsed.as_secs_f64();
        // After a pause the window says nothing.
        let usable = self.looks >= LOOKS && elapsed < window * 2;
        (self.began, self.accepted, self.looks, self.idle) = (now, accepted, 0, Duration::ZERO);
        let Some(rate) = rate.filter(|rate| usable && *rate > Rate::ZERO) else {
            // What begins now may be another sender.
            self.state = State::Wide;
            return;
        };
        let flat = idle > PAUSES && rate < self.last.scaled(GROWTH);
        self.flat = if flat { self.flat + 1 } else { 0 };
        self.last = rate;
        self.state = self.judge(now, rate, idle, paths);
    }

    fn judge(
        &mut self,
        now: Time,
        rate: Rate,
        idle: f64,
        paths: impl Iterator<Item = PathFacts> + Clone,
    ) -> State {
        match self.state {
            State::Wide if self.flat >= FLAT_WINDOWS => {
                self.narrower(now, rate, paths).unwrap_or(State::Wide)
            }
            State::Wide => State::Wide,
            State::Narrow { limit, sum, before, until } => {
                let quick = paths.filter(|path| path.base_rtt <= limit).map(|path| path.rate);
                let changed = total(quick) < sum.scaled(CHANGED);
                let worse = idle < BUSY && rate < before;
                let over = rate < sum.scaled(USED);
                if changed || worse || over {
                    self.retry = Duration::ZERO;
                    State::Wide
                } else if idle < BUSY && now >= until {
                    State::Trial { narrow: rate, windows: 0 }
                } else {
                    State::Narrow { limit, sum, before, until }
                }
            }
            // In the first window the change is under way.
            State::Trial { narrow, windows: 0 } => State::Trial { narrow, windows: 1 },
            State::Trial { narrow, .. } if rate > narrow.scaled(WORTH) => {
                self.retry = Duration::ZERO;
                State::Wide
            }
            State::Trial { .. } => {
                self.retry = (self.retry * 2).clamp(FIRST_RETRY, LAST_RETRY);
                self.narrower(now, rate, paths).unwrap_or(State::Wide)
            }
        }
    }

    /// The set of the quickest paths that promises most, if that is clearly more
    /// than `rate`.
    fn narrower(
        &self,
        now: Time,
        rate: Rate,
        paths: impl Iterator<Item = PathFacts> + Clone,
    ) -> Option<State> {
        let slowest = paths.clone().map(|path| path.base_rtt).max()?;
        let promise = |limit: Duration| {
            let sum = total(paths.clone().filter(|p| p.base_rtt <= limit).map(|p| p.rate));
            let window = slowest.as_secs_f64() / limit.as_secs_f64().max(1e-6);
            (sum.min(rate.scaled(window)), sum)
        };
        let limits = paths.clone().map(|path| path.base_rtt).filter(|limit| *limit < slowest);
        let (limit, (promised, sum)) = limits
            .map(|limit| (limit, promise(limit)))
            .max_by_key(|(limit, (promised, _))| (*promised, *limit))?;
        let gains = promised >= rate.scaled(GAIN) && rate >= sum.scaled(USED);
        gains.then_some(State::Narrow { limit, sum, before: rate, until: now + self.retry })
    }
}

fn total(rates: impl Iterator<Item = Rate>) -> Rate {
    Rate::from_bytes_per_sec(rates.map(|rate| rate.bytes_per_sec()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [(u64, u64); 3] = [(26, 235), (67, 65), (109, 33)];

    /// Lets `rate` megabits a second in for `windows` windows; `idle` of ten
    /// looks find nothing waiting.
    fn watch(
        exclusion: &mut SlowPathExclusion,
        clock: &mut (Time, u64),
        rate: u64,
        idle: u64,
        windows: u64,
    ) {
        let step = Duration::from_millis(10);
        for look in 0..windows * 44 {
            clock.0 += step;
            clock.1 += Rate::from_mbit(rate).bytes_in(step);
            let facts = PATHS.iter().map(|&(rtt, mbit)| PathFacts {
                base_rtt: Duration::from_millis(rtt),
                rate: Rate::from_mbit(mbit),
            });
            exclusion.look(clock.0, look % 10 < idle, clock.1, facts);
        }
    }

    fn start() -> (SlowPathExclusion, (Time, u64)) {
        let mut exclusion = SlowPathExclusion::default();
        let mut clock = (Time::ZERO, 0);
        watch(&mut exclusion, &mut clock, 190, 0, 2);
        (exclusion, clock)
    }

    #[test]
    fn a_sender_that_pauses_loses_the_path_it_waits_for() {
        let (mut exclusion, mut clock) = start();
        assert_eq!(exclusion.limit(), None);
        watch(&mut exclusion, &mut clock, 190, 4, 4);
        // 235 by the quickest alone, 300 by two of them: 190 × 109 / 67 is more.
        assert_eq!(exclusion.limit(), Some(Duration::from_millis(67)));
    }

    #[test]
    fn one_that_pauses_no_more_gets_all_paths_to_try_and_keeps_them_if_they_bring_more() {
        let (mut exclusion, mut clock) = start();
        watch(&mut exclusion, &mut clock, 190, 4, 4);
        watch(&mut exclusion, &mut clock, 295, 0, 1);
        assert_eq!(exclusion.limit(), None);
        watch(&mut exclusion, &mut clock, 330, 0, 4);
        assert_eq!(exclusion.limit(), None);
    }

    #[test]
    fn paths_that_bring_nothing_are_tried_ever_more_rarely() {
        let (mut exclusion, mut clock) = start();
        watch(&mut exclusion, &mut clock, 190, 4, 4);
        let mut narrow = 0;
        for _ in 0..60 {
            let (rate, idle) = if exclusion.limit().is_some() { (295, 0) } else { (190, 4) };
            narrow += u32::from(exclusion.limit().is_some());
            watch(&mut exclusion, &mut clock, rate, idle, 1);
        }
        assert!((40..58).contains(&narrow), "narrow in {narrow} of 60 windows");
    }

    #[test]
    fn a_trickle_keeps_all_paths_and_so_does_what_comes_after_a_pause() {
        let (mut exclusion, mut clock) = start();
        watch(&mut exclusion, &mut clock, 1, 9, 20);
        assert_eq!(exclusion.limit(), None);
        watch(&mut exclusion, &mut clock, 190, 4, 4);
        assert!(exclusion.limit().is_some());
        watch(&mut exclusion, &mut clock, 1, 9, 2);
        assert_eq!(exclusion.limit(), None);
        watch(&mut exclusion, &mut clock, 190, 4, 4);
        assert!(exclusion.limit().is_some());
        clock.0 += Duration::from_secs(5);
        watch(&mut exclusion, &mut clock, 190, 0, 1);
        assert_eq!(exclusion.limit(), None);
    }

    #[test]
    fn what_fills_all_paths_or_hardly_gains_keeps_them() {
        let (mut exclusion, mut clock) = start();
        watch(&mut exclusion, &mut clock, 320, 0, 8);
        assert_eq!(exclusion.limit(), None);
        watch(&mut exclusion, &mut clock, 260, 3, 8);
        assert_eq!(exclusion.limit(), None);
    }
}
