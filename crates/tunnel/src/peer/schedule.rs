//! Which path the next bytes take: earliest delivery.
//!
//! Each chunk goes where it will arrive first, counting the path's queue, rate
//! and one-way delay; a path is skipped while waiting for a better one is
//! quicker (ECF, CoNEXT 2017; BLEST, IFIP Networking 2016), unless the flow
//! has shown that it fills whatever it gets.

use super::Peer;
use super::narrowing::PathFacts;
use crate::config::Mode;
use crate::path::{Controller, Path};
use braid_units::Time;
use std::time::Duration;

/// A backlog this old shows a flow that uses all it gets...
const ELASTIC_AFTER: Duration = Duration::from_millis(12);
/// ...and it's taken for one this long.
const ELASTIC_FOR: Duration = Duration::from_secs(1);
/// Mode `overflow`: a queue this old counts as "full".
const OVERFLOW_AFTER: Duration = Duration::from_millis(10);
/// A path this far behind the quickest is left alone while that works: what it
/// brings comes when the sender has given it up, or TCP has.
const LATEST_BEHIND: Duration = Duration::from_millis(500);
/// Urgent packets and repairs may exceed a path's window by this factor.
const URGENT_WINDOWS: u64 = 2;

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Small and not to wait: doesn't ask the pacer.
    Urgent,
    /// Something sent before that others wait for: where it arrives first.
    Repair,
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

/// Paths by their places, of which there are [`MAX_PATHS`](super::MAX_PATHS) at
/// the most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidates(u64);

impl Candidates {
    fn of(self, paths: &[Path]) -> impl Iterator<Item = (usize, &Path)> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some((place, paths.get(place)?))
        })
    }

    fn contains(self, place: usize) -> bool {
        u32::try_from(place)
            .is_ok_and(|place| self.0.checked_shr(place).is_some_and(|s| s & 1 == 1))
    }
}

impl Peer {
    /// Whether `flow` counts as elastic, from its backlog.
    pub(super) fn is_elastic(&mut self, flow: u16, waited: Duration, now: Time) -> bool {
        let Some(until) = self.elastic_until.get_mut(usize::from(flow)) else { return false };
        if waited >= ELASTIC_AFTER {
            *until = now + ELASTIC_FOR;
        }
        now < *until
    }

    /// The path for `item` now, not by path number `except`. `None`: wait.
    pub(super) fn choose_path(
        &self,
        item: Item,
        bytes: u64,
        except: Option<u8>,
        now: Time,
    ) -> Option<usize> {
        self.choose(item, bytes, except, now).map(|choice| choice.path)
    }

    /// As [`Self::choose_path`], and who comes next.
    pub(super) fn choose(
        &self,
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
            (None, mode) if mode != Mode::Overflow => self.candidates_for(item),
            _ => self.find_candidates(except, self.tier_limit(waited, now)),
        };
        // By estimated arrival: the best path, the second, and the best that may
        // send now. Of equals the first one, as they come in order.
        let (mut best, mut second, mut choice) = (Arrival::NEVER, Arrival::NEVER, Arrival::NEVER);
        for (place, path) in candidates.of(&self.paths) {
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
            Item::Bulk { elastic: true, .. } | Item::Urgent | Item::Repair => false,
            // Waiting for the best path brings all that waits there by then.
            Item::Bulk { backlog, .. } => {
                let drain = self.paths[best.place].congestion.bandwidth().time_for(backlog);
                choice.us > best.us + drain.as_micros() as i64
            }
        };
        (!waits).then_some(Choice { path, rival: best })
    }

    /// Whether `item` still goes by the path chosen at this moment, of which only
    /// that path has changed: it's compared with its rival alone.
    pub(super) fn remains(&self, choice: Choice, item: Item, bytes: u64, now: Time) -> bool {
        let Some(path) = self.paths.get(choice.path) else { return false };
        if self.mode != Mode::Overflow {
            let (rival, place) = (choice.rival, choice.path);
            let leads = Arrival { us: path.arrival_us(bytes, now), place } < rival;
            if leads && may_take(path, item, now) {
                return true;
            }
            let takes = |place| self.paths.get(place).is_some_and(|p| may_take(p, item, now));
            if !leads && self.candidates_for(item).contains(rival.place) && takes(rival.place) {
                return false;
            }
        }
        self.choose_path(item, bytes, None, now) == Some(choice.path)
    }

    /// The paths to choose from for `item`, where tiers don't count.
    fn candidates_for(&self, item: Item) -> Candidates {
        match item {
            Item::Bulk { .. } => self.survey.bulk,
            Item::Urgent | Item::Repair => self.survey.candidates,
        }
    }

    /// The paths to choose from: those that work, but no standby beside others,
    /// no tier above the limit, none that is far too late.
    pub(super) fn find_candidates(&self, except: Option<u8>, tier_limit: u8) -> Candidates {
        let usable = |p: &Path| p.liveness.is_up() && Some(p.id) != except;
        let primary = self.paths.iter().any(|p| usable(p) && !p.wish.standby);
        let wished = |p: &Path| usable(p) && p.wish.standby != primary && p.wish.tier <= tier_limit;
        let delays = self.paths.iter().filter(|p| wished(p));
        let quickest = delays.filter_map(|p| p.congestion.base_delay_us()).min();
        let late = |p: &Path| {
            let behind = p.congestion.base_delay_us().zip(quickest).map(|(own, best)| own - best);
            behind.is_some_and(|behind| behind > LATEST_BEHIND.as_micros() as i64)
        };
        let places = self.paths.iter().zip(0..);
        let fit = places.filter(|(p, _)| wished(p) && !late(p));
        Candidates(fit.fold(0, |set, (_, place): (_, u32)| set | 1 << place))
    }

    /// Those of `candidates` that bulk data takes: it leaves paths alone that are
    /// slower than what was found best, unless no other works.
    pub(super) fn quick_enough(&self, candidates: Candidates) -> Candidates {
        let Some(limit) = self.narrowing.limit() else { return candidates };
        let quick = candidates.of(&self.paths).filter(|(_, path)| path.rtt.base() <= limit);
        let quick = Candidates(quick.fold(0, |set, (place, _)| set | 1 << place));
        if quick.0 == 0 { candidates } else { quick }
    }

    /// Looks whether slow paths make the whole slower.
    pub(super) fn watch_for_slow_paths(&mut self, now: Time) {
        let mut narrowing = std::mem::take(&mut self.narrowing);
        let facts = self.survey.candidates.of(&self.paths).map(|(_, path)| PathFacts {
            base_rtt: path.rtt.base(),
            rate: path.congestion.bandwidth(),
        });
        narrowing.look(now, self.entry.is_empty(), self.counters.accepted_bytes, facts);
        self.narrowing = narrowing;
    }

    /// The highest tier that may be used now.
    fn tier_limit(&self, waited: Duration, now: Time) -> u8 {
        if self.mode != Mode::Overflow {
            return u8::MAX;
        }
        let mut tiers: Vec<u8> = self
            .paths
            .iter()
            .filter(|p| p.liveness.is_up() && !p.wish.standby)
            .map(|p| p.wish.tier)
            .collect();
        tiers.sort_unstable();
        tiers.dedup();
        for &tier in &tiers {
            let free = self.paths.iter().any(|p| p.wish.tier == tier && p.is_available(now));
            if free || waited < OVERFLOW_AFTER {
                return tier;
            }
        }
        tiers.last().copied().unwrap_or(u8::MAX)
    }

    /// When a path will next be free, if something waits for one.
    pub(super) fn next_departure(&self, now: Time) -> Option<Time> {
        if self.entry.is_empty() && self.repairs.is_empty() {
            return None;
        }
        let only_bulk = self.repairs.is_empty();
        let places = if only_bulk { self.survey.bulk } else { self.survey.candidates };
        let paths = places.of(&self.paths);
        let free = paths.filter_map(|(_, path)| path.release_at(now)).min()?;
        Some(self.waits_for_more(now).map_or(free, |until| until.max(free)))
    }
}

/// Whether what is sent by the path now leaves now.
fn may_take(path: &Path, item: Item, now: Time) -> bool {
    match item {
        Item::Urgent => path.sent.in_flight_bytes() < path.congestion.window() * URGENT_WINDOWS,
        _ => path.is_available(now),
    }
}
