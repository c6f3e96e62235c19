//! Bulk data keeps to one path for a while where the processor may be the limit,
//! and not the links: which of them takes the next bytes makes no difference
//! then, but each change costs a batch cut short, a call to send and one to
//! receive, and a report of its own. Where the links are the limit the pacer ends
//! a turn.

use super::Peer;
use super::schedule::{Arrival, Choice, Item};
use crate::config::Mode;
use crate::path::Controller;
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

/// A path's turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    path: usize,
    /// The best of the others when it began.
    rival: usize,
    until: Time,
}

impl Peer {
    /// The path for what is next in the queue, and who comes after it.
    pub(super) fn choose_for_queue(&mut self, item: Item, bytes: u64, now: Time) -> Option<Choice> {
        if !matches!(item, Item::Bulk { .. }) || self.mode == Mode::Overflow {
            return self.choose(item, bytes, None, now);
        }
        if let Some(turn) = self.turn.filter(|turn| now < turn.until)
            && let Some(choice) = self.prefer(turn.path, turn.rival, item, bytes, now)
        {
            return Some(choice);
        }
        let best = self.choose(item, bytes, None, now)?;
        let holder = self.turn.filter(|turn| turn.path != best.path);
        let kept = holder.and_then(|turn| self.prefer(turn.path, best.path, item, bytes, now));
        let begun = || Choice { rival: best.rival.handicapped(WORTH_A_CHANGE), ..best };
        let held = kept.or_else(|| self.keeps_turns(best.path).then(begun));
        self.turn = held.map(|Choice { path, rival }| Turn {
            path,
            rival: rival.place,
            until: now + LENGTH,
        });
        Some(held.unwrap_or(best))
    }

    /// The path of this place, unless `rival` is worth a change.
    fn prefer(
        &self,
        path: usize,
        rival: usize,
        item: Item,
        bytes: u64,
        now: Time,
    ) -> Option<Choice> {
        let rival = match self.paths.get(rival) {
            Some(path) => Arrival { us: path.arrival_us(bytes, now), place: rival },
            None => Arrival::NEVER,
        };
        let choice = Choice { path, rival: rival.handicapped(WORTH_A_CHANGE) };
        (self.keeps_turns(path) && self.remains(choice, item, bytes, now)).then_some(choice)
    }

    fn keeps_turns(&self, path: usize) -> bool {
        self.paths.get(path).is_some_and(|path| path.congestion.pacing_rate() > KEPT_FROM)
    }
}
