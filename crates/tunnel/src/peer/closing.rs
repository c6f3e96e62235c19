//! Paths come to an end: their link is gone, or nothing came by them for long.

use super::Peer;
use crate::path::closed::ClosedPath;
use braid_units::Time;

impl Peer {
    /// Closes the paths of these numbers. What they had in flight is sent again
    /// by others.
    pub(super) fn close(&mut self, ids: &[u8]) {
        if ids.is_empty() {
            return;
        }
        self.settle(|peer, settled| {
            for mut path in peer.paths.extract_if(.., |p| ids.contains(&p.id)) {
                path.abandon_flight(settled);
                peer.closed_paths.push(ClosedPath::from(path));
            }
        });
        self.chores_at = Time::ZERO;
        // They name paths by their places, which are others now. Modes of the
        // kernel's bonding repair nothing.
        self.feedback_copy = None;
        self.turn = None;
        if let Some(bonded) = self.bonded.take() {
            self.recycle(bonded.packet.bytes);
        }
    }

    /// Closes the paths that the peer seems to have left: they don't work, and
    /// nothing came by them for long. The one that was heard last stays: it says
    /// where the peer was.
    pub(super) fn close_left_paths(&mut self, now: Time) {
        if !self.config.endpoints.is_empty() {
            return; // Our own links: ours to say.
        }
        let last = self.paths.iter().max_by_key(|p| p.hearing.last()).map(|p| p.id);
        let silent = self.paths.iter().filter(|p| !p.liveness.is_up() && Some(p.id) != last);
        let due = |heard_at: Time| heard_at + self.path_expiry;
        self.next_closing =
            silent.clone().map(|p| due(p.hearing.last())).filter(|at| *at > now).min();
        let left: Vec<u8> = silent.filter(|p| due(p.hearing.last()) <= now).map(|p| p.id).collect();
        self.close(&left);
    }
}
