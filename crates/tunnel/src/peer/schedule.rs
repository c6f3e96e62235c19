//! Which path the next bytes take: earliest delivery.
//!
//! Each chunk goes where it will arrive first, counting the path's queue, rate
//! and one-way delay; a path is skipped while waiting for a better one is
//! quicker (ECF, CoNEXT 2017; BLEST, IFIP Networking 2016), unless the flow
//! has shown that it fills whatever it gets.

use super::Peer;
use crate::config::Mode;
use crate::path::Path;
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
        let waited = match item {
            Item::Bulk { waited, .. } => waited,
            _ => Duration::ZERO,
        };
        let allowed = |path: &Path| match item {
            Item::Urgent => path.sent.in_flight_bytes() < path.congestion.window() * URGENT_WINDOWS,
            _ => path.is_available(now),
        };
        let tier_limit = self.tier_limit(waited, now);
        // By estimated arrival: the best path, and the best that may send now.
        let (mut best, mut choice) = (None, None);
        for (index, path) in self.candidates(except, tier_limit) {
            let order = (path.arrival_us(bytes, now), index);
            if best.is_none_or(|best| order < best) {
                best = Some(order);
            }
            if choice.is_none_or(|choice| order < choice) && allowed(path) {
                choice = Some(order);
            }
        }
        let (best_arrival, best) = best?;
        let (arrival, choice) = choice?;
        if choice == best {
            return Some(choice);
        }
        match item {
            Item::Bulk { elastic: true, .. } | Item::Urgent | Item::Repair => Some(choice),
            // Waiting for the best path brings all that waits there by then.
            Item::Bulk { backlog, .. } => {
                let drain = self.paths[best].congestion.bandwidth().time_for(backlog);
                (arrival <= best_arrival + drain.as_micros() as i64).then_some(choice)
            }
        }
    }

    /// The paths to choose from, with their places: those that work, but no
    /// standby beside others, no tier above the limit, none that is far too late.
    fn candidates(
        &self,
        except: Option<u8>,
        tier_limit: u8,
    ) -> impl Iterator<Item = (usize, &Path)> {
        let usable = move |p: &Path| p.liveness.is_up() && Some(p.id) != except;
        let primary = self.paths.iter().any(|p| usable(p) && !p.wish.standby);
        let wished =
            move |p: &Path| usable(p) && p.wish.standby != primary && p.wish.tier <= tier_limit;
        let delays = self.paths.iter().filter(|p| wished(p));
        let quickest = delays.filter_map(|p| p.congestion.base_delay_us()).min();
        let late = move |p: &Path| {
            let behind = p.congestion.base_delay_us().zip(quickest).map(|(own, best)| own - best);
            behind.is_some_and(|behind| behind > LATEST_BEHIND.as_micros() as i64)
        };
        self.paths.iter().enumerate().filter(move |(_, p)| wished(p) && !late(p))
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
        let paths = self.candidates(None, u8::MAX);
        let free = paths.filter_map(|(_, path)| path.release_at(now)).min()?;
        Some(self.waits_for_more(now).map_or(free, |until| until.max(free)))
    }
}
