//! Which path the next bytes take: earliest delivery.
//!
//! Each chunk goes where it will arrive first, counting the path's queue, rate
//! and one-way delay; a path is skipped while waiting for better ones is
//! quicker (ECF, CoNEXT 2017; BLEST, IFIP Networking 2016): while all of these
//! together bring what waits before it would arrive by that path. So do repairs:
//! a link that has nothing to do is no reason to hold a stream up.

use crate::config::Mode;
use crate::entry::FLOWS;
use crate::heuristics::Heuristics;
use crate::path::{Controller, Path};
use crate::peer::paths::{Candidates, PathSet};
use braid_units::Time;
use std::time::Duration;

/// A backlog this old shows a flow that uses all it gets: a full packet takes as long at
/// 1 Mbit/s. Ours; not measured apart.
const ELASTIC_AFTER: Duration = Duration::from_millis(12);
/// It's taken for one this long: loss-based senders pause for less. Ours; not measured apart.
const ELASTIC_FOR: Duration = Duration::from_secs(1);
/// Mode `overflow`: a queue this old counts as "full". Ours; not measured apart.
const OVERFLOW_AFTER: Duration = Duration::from_millis(10);
/// Urgent packets may have so many times a path's window in flight: they are few. Ours.
const URGENT_WINDOWS: u64 = 2;

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peer) enum Item {
    /// Small and not to wait: doesn't ask the pacer.
    Urgent,
    /// Something sent before that others wait for: where it arrives first.
    Repair {
        /// Bytes that are to be sent again.
        backlog: u64,
    },
    /// A flow's bytes.
    Bulk {
        /// Bytes it has waiting.
        backlog: u64,
        /// How long it has had some.
        waited: Duration,
        /// It fills whatever it gets.
        elastic: bool,
    },
}

/// A path that was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Its place.
    pub path: usize,
    /// What is sent by the best of the others.
    pub rival: Arrival,
}

/// When what is sent by the path of this place would arrive: earlier ones are
/// better, of equals the one of the first path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrival {
    pub us: i64,
    pub place: usize,
}

impl Arrival {
    /// By no path.
    pub const NEVER: Self = Self { us: i64::MAX, place: usize::MAX };

    /// As if it were later by `by`.
    pub fn handicapped(self, by: Duration) -> Self {
        Self { us: self.us.saturating_add(by.as_micros() as i64), ..self }
    }
}

/// Chooses paths.
#[derive(Debug)]
pub(in crate::peer) struct Scheduler {
    /// How packets are spread.
    pub mode: Mode,
    /// Of each flow: until when it counts as one that uses all it gets.
    elastic_until: Vec<Time>,
    heuristics: Heuristics,
}

impl Scheduler {
    /// Spreads packets by `mode`.
    pub fn new(mode: Mode, heuristics: Heuristics) -> Self {
        Self { mode, elastic_until: Vec::new(), heuristics }
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self) {
        self.elastic_until = Vec::new();
    }

    /// Whether `flow` counts as elastic, from its backlog.
    pub fn see_backlog(&mut self, flow: u16, waited: Duration, now: Time) -> bool {
        if self.elastic_until.is_empty() {
            self.elastic_until.resize(FLOWS, Time::ZERO);
        }
        let Some(until) = self.elastic_until.get_mut(usize::from(flow)) else { return false };
        if waited >= ELASTIC_AFTER {
            *until = now + ELASTIC_FOR;
        }
        now < *until
    }

    /// Whether it counts as elastic.
    pub fn is_elastic(&self, flow: u16, now: Time) -> bool {
        self.elastic_until.get(usize::from(flow)).is_some_and(|until| now < *until)
    }

    /// The path for `item` now, not by path number `except`. `None`: wait.
    pub fn choose_path(
        &self,
        paths: &PathSet,
        item: Item,
        bytes: u64,
        except: Option<u8>,
        now: Time,
    ) -> Option<usize> {
        self.choose(paths, item, bytes, except, now).map(|choice| choice.path)
    }

    /// As [`Self::choose_path`], and who comes next.
    pub(super) fn choose(
        &self,
        paths: &PathSet,
        item: Item,
        bytes: u64,
        except: Option<u8>,
        now: Time,
    ) -> Option<Choice> {
        let waited = match item {
            Item::Bulk { waited, .. } => waited,
            _ => Duration::ZERO,
        };
        let candidates = match (except, self.mode) {
            (None, mode) if mode != Mode::Overflow => paths.usable(),
            _ => paths.candidates(except, self.tier_limit(paths, waited, now)),
        };
        // By estimated arrival: the best path, the second, and the best that may
        // send now. Of equals the first one, as they come in order.
        let (mut best, mut second, mut choice) = (Arrival::NEVER, Arrival::NEVER, Arrival::NEVER);
        for (place, path) in candidates.of(paths) {
            let arrival = Arrival { us: path.arrival_us(bytes, now), place };
            if arrival.us < best.us {
                (best, second) = (arrival, best);
            } else if arrival.us < second.us {
                second = arrival;
            }
            if arrival.us < choice.us && may_take(path, item, now) {
                choice = arrival;
            }
        }
        let path = Some(choice.place).filter(|_| choice != Arrival::NEVER)?;
        if choice == best {
            return Some(Choice { path, rival: second });
        }
        let waits = match item {
            Item::Urgent => false,
            Item::Repair { .. } | Item::Bulk { elastic: true, .. }
                if !self.heuristics.waits_for_best =>
            {
                false
            }
            // Waiting for the quicker paths brings all that waits there by then.
            Item::Repair { backlog } | Item::Bulk { backlog, .. } => {
                let steady_only = !matches!(item, Item::Bulk { elastic: false, .. })
                    && self.heuristics.elastic_flows;
                let quicker = Quicker { than: choice, steady_only };
                quicker.bring(paths, candidates, bytes, now) > backlog
            }
        };
        (!waits).then_some(Choice { path, rival: best })
    }

    /// Whether `item` still goes by the path chosen at this moment, of which only
    /// that path has changed: it's compared with its rival alone.
    pub(super) fn remains(
        &self,
        paths: &PathSet,
        choice: Choice,
        item: Item,
        bytes: u64,
        now: Time,
    ) -> bool {
        let Some(path) = paths.get(choice.path) else { return false };
        if self.mode != Mode::Overflow {
            let (rival, place) = (choice.rival, choice.path);
            let leads = Arrival { us: path.arrival_us(bytes, now), place } < rival;
            if leads && may_take(path, item, now) {
                return true;
            }
            let takes = |place| paths.get(place).is_some_and(|p| may_take(p, item, now));
            if !leads && paths.usable().contains(rival.place) && takes(rival.place) {
                return false;
            }
        }
        self.choose_path(paths, item, bytes, None, now) == Some(choice.path)
    }

    /// The highest tier that may be used now.
    fn tier_limit(&self, paths: &PathSet, waited: Duration, now: Time) -> u8 {
        if self.mode != Mode::Overflow {
            return u8::MAX;
        }
        let mut tiers: Vec<u8> =
            paths.up().filter(|p| !p.policy.standby).map(|p| p.policy.tier).collect();
        tiers.sort_unstable();
        tiers.dedup();
        for &tier in &tiers {
            let free = paths.iter().any(|p| p.policy.tier == tier && p.is_available(now));
            if free || waited < OVERFLOW_AFTER {
                return tier;
            }
        }
        tiers.last().copied().unwrap_or(u8::MAX)
    }
}

/// The paths by which what is sent arrives earlier, some of which take nothing just now.
struct Quicker {
    than: Arrival,
    /// Of a path whose rate changes all the time, or that has fallen silent, nothing can
    /// be foretold.
    steady_only: bool,
}

impl Quicker {
    /// So many bytes come by all of them together until then.
    fn bring(&self, paths: &PathSet, candidates: Candidates, bytes: u64, now: Time) -> u64 {
        let mut sum = 0;
        for (_, path) in candidates.of(paths) {
            let earlier = self.than.us.saturating_sub(path.arrival_us(bytes, now));
            if earlier > 0 && (!self.steady_only || is_steady(path, paths, now)) {
                let time = Duration::from_micros(earlier.unsigned_abs());
                sum = path.congestion.bandwidth().bytes_in(time).saturating_add(sum);
            }
        }
        sum
    }
}

/// Whether the path's models foretell when it takes more.
fn is_steady(path: &Path, paths: &PathSet, now: Time) -> bool {
    !path.congestion.is_tracking() && !path.is_late(paths.feedback_interval(), now)
}

/// Whether what is sent by the path now leaves now.
fn may_take(path: &Path, item: Item, now: Time) -> bool {
    match item {
        Item::Urgent => path.sent.in_flight_bytes() < path.congestion.window() * URGENT_WINDOWS,
        _ => path.is_available(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LinkConfig;
    use crate::id::LinkId;
    use crate::path::sent::{Fate, SentPacket};
    use crate::peer::timers::TimerTable;
    use std::net::SocketAddr;

    const NOW: Time = Time::from_millis(10);
    const BULK: Item = Item::Bulk { backlog: 100_000, waited: Duration::ZERO, elastic: true };

    /// Paths of these tiers, all of which work.
    fn paths(tiers: &[u8]) -> PathSet {
        let (mut paths, mut timers) =
            (PathSet::new(Duration::from_secs(60), Heuristics::ALL), TimerTable::default());
        let remote = SocketAddr::from(([192, 0, 2, 1], 51_820));
        for (link, &tier) in (0..).zip(tiers) {
            let config = LinkConfig { tier, ..LinkConfig::default() };
            paths.open(LinkId(link), remote, &config, &mut timers, NOW);
        }
        for path in &mut paths {
            path.liveness.on_acked(NOW, NOW);
        }
        paths.summarize(&mut timers);
        paths
    }

    /// As much as its window takes is on its way by the path.
    fn fill(paths: &mut PathSet, place: usize) {
        let path = &mut paths[place];
        while path.sent.in_flight_bytes() < path.congestion.window() {
            path.on_sent(SentPacket::new(NOW, 1200, Fate::InFlight), 0, false, NOW);
        }
    }

    #[test]
    fn of_equal_paths_the_first_is_taken_and_then_that_with_less_on_its_way() {
        let (scheduler, mut paths) =
            (Scheduler::new(Mode::Adaptive, Heuristics::ALL), paths(&[0, 0]));
        let choose = |paths: &PathSet| scheduler.choose_path(paths, BULK, 1400, None, NOW);
        assert_eq!(choose(&paths), Some(0));
        fill(&mut paths, 0);
        assert_eq!(choose(&paths), Some(1));
        fill(&mut paths, 1);
        assert_eq!(choose(&paths), None, "bulk waits for a window");
        let urgent = scheduler.choose_path(&paths, Item::Urgent, 100, None, NOW);
        assert!(urgent.is_some(), "what is urgent doesn't");
    }

    #[test]
    fn copies_avoid_the_path_of_the_first() {
        let (scheduler, paths) = (Scheduler::new(Mode::Adaptive, Heuristics::ALL), paths(&[0, 0]));
        let copy = scheduler.choose_path(&paths, Item::Urgent, 100, Some(0), NOW);
        assert_eq!(copy, Some(1));
    }

    #[test]
    fn overflow_takes_the_next_tier_only_when_the_first_is_full_and_data_waits() {
        let (scheduler, mut paths) =
            (Scheduler::new(Mode::Overflow, Heuristics::ALL), paths(&[1, 0]));
        let choose = |paths: &PathSet, waited| {
            let item = Item::Bulk { backlog: 100_000, waited, elastic: true };
            scheduler.choose_path(paths, item, 1400, None, NOW)
        };
        assert_eq!(choose(&paths, OVERFLOW_AFTER), Some(1));
        fill(&mut paths, 1);
        assert_eq!(choose(&paths, Duration::ZERO), None);
        assert_eq!(choose(&paths, OVERFLOW_AFTER), Some(0));
    }

    #[test]
    fn a_flow_with_a_backlog_is_elastic_for_a_while() {
        let mut scheduler = Scheduler::new(Mode::Adaptive, Heuristics::ALL);
        assert!(!scheduler.see_backlog(3, ELASTIC_AFTER / 2, NOW));
        assert!(scheduler.see_backlog(3, ELASTIC_AFTER, NOW));
        assert!(scheduler.is_elastic(3, NOW + ELASTIC_FOR / 2));
        assert!(!scheduler.is_elastic(3, NOW + ELASTIC_FOR));
        assert!(!scheduler.is_elastic(4, NOW));
    }
}
