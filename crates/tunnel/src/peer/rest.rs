//! A peer that isn't in use gives back the memory that speed asks for: a
//! concentrator has many that sleep.

use super::{IN_USE, Peer};
use crate::outgoing::OutgoingPackets;
use crate::path::Controller;
use braid_units::Time;

impl Peer {
    /// When to look whether it's idle, if that's still to come.
    pub(super) fn next_rest(&self, now: Time) -> Option<Time> {
        let at = self.last_used + IN_USE;
        (!self.rests && at > now).then_some(at)
    }

    /// Gives memory back if nothing has passed for a while and nothing is
    /// under way.
    pub(super) fn rest_if_idle(&mut self, now: Time) {
        let idle = now - self.last_used >= IN_USE
            && self.entry.is_empty()
            && self.acks.is_empty()
            && self.outgoing.bytes() == 0
            && self.repairs.is_empty()
            && self.duplicates.is_empty();
        if !idle || self.rests {
            return;
        }
        self.rests = true;
        self.entry.rest();
        self.acks.rest();
        self.places.rest();
        self.cutting = Vec::new();
        self.elastic_until = Vec::new();
        self.deadlines = Default::default();
        self.repairs.shrink_to_fit();
        self.duplicates.shrink_to_fit();
        self.settled = Default::default();
        self.freed.shrink_to_fit();
        self.coded = Vec::new();
        self.parity_scratch = Vec::new();
        for path in &mut self.paths {
            path.sent.rest();
            path.received.rest();
            path.congestion.on_idle();
        }
        // Keys that are remembered somewhere must not come to mean others.
        if self.paths.iter().all(|path| path.sent.has_no_frames()) {
            self.outgoing = OutgoingPackets::default();
        }
    }
}
