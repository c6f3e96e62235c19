//! Reports of what has come go to the peer.

use super::datagram::Datagram;
use super::{PathState, Peer, Transmit};
use crate::path::Path;
use braid_units::Time;
use std::time::Duration;

/// Quick paths are reported on each millisecond or more often: when a report is
/// lost others follow, and copies of all would be half of what is sent back. With
/// one each millisecond a sender by eight links without a limit made 4 % more
/// calls to send.
const COPIES_APART: Duration = Duration::from_millis(4);

impl Peer {
    /// One datagram with the reports of all paths, by the path that gets them
    /// there soonest, and a copy by the second: feedback must not die with a
    /// path. What it has no room for follows at once in another.
    pub(super) fn poll_feedback(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(index) = self.feedback_copy.take() {
            if self.paths.get(index).is_some_and(|p| p.liveness.is_up())
                && let Some(transmit) = self.send_feedback(index, now, out)
            {
                self.feedback_sent(now);
                return Some(transmit);
            }
            self.feedback_sent(now);
        }
        let interval = self.feedback_interval();
        let due =
            self.paths.iter().filter_map(|p| p.received.report_at(interval)).any(|at| at <= now);
        if !due {
            return None;
        }
        // Of paths that don't work, one by which something came has the best
        // chance: answering always by the quickest of old, which may stay dark,
        // would keep both ends from seeing that another is back.
        let promise = |p: &Path| match p.liveness.is_up() {
            true => 0,
            false if p.received.has_news() => 1,
            false => 2,
        };
        let (mut first, mut second) = (None, None);
        for (index, path) in self.paths.iter().enumerate() {
            if path.state() == PathState::LinkDown {
                continue;
            }
            let new = Some((promise(path), path.arrival_us(100, now), index));
            if first.is_none() || new < first {
                (first, second) = (new, first);
            } else if second.is_none() || new < second {
                second = new;
            }
        }
        let first = first.map(|(_, _, index)| index);
        let Some(transmit) = first.and_then(|first| self.send_feedback(first, now, out)) else {
            // There's no way: the next report will say it.
            for path in self.paths.iter_mut().filter(|p| p.received.has_news()) {
                path.received.on_reported(now);
            }
            return None;
        };
        let copies = now >= self.copied_at + COPIES_APART;
        match second {
            Some((_, _, second)) if copies => {
                self.feedback_copy = Some(second);
                self.copied_at = now;
            }
            _ => self.feedback_sent(now),
        }
        Some(transmit)
    }

    fn send_feedback(&mut self, index: usize, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
        for i in 0..self.paths.len() {
            let left = datagram.left(out);
            let path = &mut self.paths[i];
            if path.received.has_news() {
                path.received.write_report(path.id, now, left, out);
            }
        }
        self.write_control(&mut datagram, out);
        if datagram.is_empty(out) {
            out.truncate(datagram.start);
            return None;
        }
        self.send_single(datagram, false, now, out)
    }

    fn feedback_sent(&mut self, now: Time) {
        for path in self.paths.iter_mut().filter(|p| p.received.is_written()) {
            path.received.on_reported(now);
        }
    }
}
