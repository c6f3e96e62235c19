//! Bulk data keeps to one path for a while where the processor is the limit, and
//! not the links: which of them takes the next bytes makes no difference then,
//! but each change costs a batch cut short, a call to send and one to receive,
//! and a report of its own.

use super::Peer;
use super::schedule::{Arrival, Choice, Item};
use crate::config::Mode;
use braid_units::Time;
use std::time::Duration;

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
        if let Some(choice) = self.continue_turn(item, bytes, now) {
            return Some(choice);
        }
        let Choice { path, rival } = self.choose(item, bytes, None, now)?;
        if !self.paths.get(path).is_some_and(|path| path.is_swift()) {
            self.turn = None;
            return Some(Choice { path, rival });
        }
        self.turn = Some(Turn { path, rival: rival.place, until: now + LENGTH });
        Some(Choice { path, rival: rival.handicapped(WORTH_A_CHANGE) })
    }

    fn continue_turn(&self, item: Item, bytes: u64, now: Time) -> Option<Choice> {
        let turn = self.turn.filter(|turn| now < turn.until)?;
        let path = self.paths.get(turn.path)?;
        let rival = match self.paths.get(turn.rival) {
            Some(rival) => Arrival { us: rival.arrival_us(bytes, now), place: turn.rival },
            None => Arrival::NEVER,
        };
        let choice = Choice { path: turn.path, rival: rival.handicapped(WORTH_A_CHANGE) };
        (path.is_swift() && self.remains(choice, item, bytes, now)).then_some(choice)
    }
}
