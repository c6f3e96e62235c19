//! Bulk data keeps to one path for a while where the processor may be the limit,
//! and not the links: which of them takes the next bytes makes no difference
//! then, but each change costs a batch cut short, a call to send and one to
//! receive, and a report of its own. Where the links are the limit the pacer ends
//! a turn.

use super::scheduler::{Arrival, Choice, Item, Scheduler};
use crate::config::Mode;
use crate::path::Controller;
use crate::peer::paths::PathSet;
use braid_units::{Rate, Time};
use std::time::Duration;

/// From this on a path keeps its turn: so much is more than a home's links bring
/// as a rule, and less than a small router's processor can take.
const KEPT_FROM: Rate = Rate::from_mbit(500);
/// After this the paths are compared again.
const LENGTH: Duration = Duration::from_millis(200);
/// By so much another path may be better meanwhile: more than batches and
/// reports take on a busy machine, less than a receiver notices. One that stands
/// still is left when so much is on its way.
const WORTH_A_CHANGE: Duration = Duration::from_millis(2);

/// The path that bulk data keeps to for now, if it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Affinity(Option<Turn>);

/// A path's turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    path: usize,
    /// The best of the others when it began.
    rival: usize,
    until: Time,
}

impl Scheduler {
    /// The path for what is next in the queue, and who comes after it.
    pub(super) fn choose_for_queue(
        &mut self,
        paths: &PathSet,
        item: Item,
        bytes: u64,
        now: Time,
    ) -> Option<Choice> {
        let keeps = matches!(item, Item::Bulk { .. }) && self.heuristics.path_affinity;
        if !keeps || self.mode == Mode::Overflow {
            return self.choose(paths, item, bytes, None, now);
        }
        let turn = self.affinity.0;
        if let Some(turn) = turn.filter(|turn| now < turn.until)
            && let Some(choice) = self.prefer(paths, (turn.path, turn.rival), item, bytes, now)
        {
            return Some(choice);
        }
        let best = self.choose(paths, item, bytes, None, now)?;
        let holder = turn.filter(|turn| turn.path != best.path);
        let kept =
            holder.and_then(|turn| self.prefer(paths, (turn.path, best.path), item, bytes, now));
        let begun = || Choice { rival: best.rival.handicapped(WORTH_A_CHANGE), ..best };
        let held = kept.or_else(|| keeps_turns(paths, best.path).then(begun));
        self.affinity = Affinity(held.map(|Choice { path, rival }| Turn {
            path,
            rival: rival.place,
            until: now + LENGTH,
        }));
        Some(held.unwrap_or(best))
    }

    /// The path of this place, unless `rival` is worth a change.
    fn prefer(
        &self,
        paths: &PathSet,
        (path, rival): (usize, usize),
        item: Item,
        bytes: u64,
        now: Time,
    ) -> Option<Choice> {
        let rival = match paths.get(rival) {
            Some(path) => Arrival { us: path.arrival_us(bytes, now), place: rival },
            None => Arrival::NEVER,
        };
        let choice = Choice { path, rival: rival.handicapped(WORTH_A_CHANGE) };
        (keeps_turns(paths, path) && self.remains(paths, choice, item, bytes, now))
            .then_some(choice)
    }
}

fn keeps_turns(paths: &PathSet, path: usize) -> bool {
    paths.get(path).is_some_and(|path| path.congestion.pacing_rate() > KEPT_FROM)
}
