//! What is done about packets of which nothing is heard: sent by others too when they
//! are late, and taken for lost when the path is silent.

use super::liveness::VARIATIONS;
use super::reports::Reports;
use super::sent::{Fate, SentPacket};
use super::settled::Settled;
use super::{Controller, Path};
use braid_units::Time;
use std::time::Duration;

/// What a path may be slower than at its best before it's thought silent. Ours; not measured
/// apart.
const SLOWNESS: Duration = Duration::from_millis(100);

/// Of that the part that the round trip's variation may be, since it counts
/// [`VARIATIONS`] times.
const VARIATION_DIVISOR: u32 = 4;

/// As above, before nothing more is kept for a path: less, as nothing is lost by it. Ours.
const LATE_VARIATIONS: u32 = 2;

/// Feedback intervals in which nothing was acknowledged, before what is late goes again
/// by the same path: one may be due just now. Ours.
const QUIET_INTERVALS: u32 = 2;

/// Feedback is late when it's overdue by this: timers and scheduling of both
/// ends. Ours; not measured apart.
const OVERDUE_MARGIN: Duration = Duration::from_millis(10);

/// Whether other paths can send again what is late on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// No other works.
    None,
    /// Other data waits for them.
    Busy,
    /// Send queues are empty: they have room to spare.
    Free,
}

/// When a path's loss detection next has something to do.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// If nothing comes of it until then.
    pub at: Option<Time>,
    /// Sooner when a report comes that was written at this moment or later.
    pub settled_at: Option<Time>,
}

impl Path {
    /// Timers of loss detection that are due.
    pub fn on_timeout(
        &mut self,
        now: Time,
        feedback: Duration,
        others: Others,
        reports: &Reports,
        settled: &mut Settled,
    ) {
        if self.loss.timer().is_some_and(|at| now >= at) {
            self.detect_losses(now, settled);
        }
        let oldest = self.sent.oldest_watched().map(|(_, packet)| *packet);
        let overdue = self.news_overdue_at(oldest.as_ref(), feedback, others);
        if overdue.is_some_and(|due| now >= reports.missed_at(due)) {
            self.liveness.suspect(now);
            self.counters.suspected += 1;
            self.blame_sizes(now);
            self.abandon_flight(settled);
        } else {
            while self.overdue_at(feedback, others).is_some_and(|at| now >= at) {
                self.reinject(settled);
            }
        }
        self.sent.forget_settled(now);
    }

    /// If small datagrams pass from now on, it was the flight's sizes that didn't.
    fn blame_sizes(&mut self, now: Time) {
        for (_, packet) in self.sent.in_flight().filter(|(_, packet)| !packet.mtu_probe) {
            self.mtu.on_datagram_lost(packet.size, now);
        }
    }

    /// When loss detection next has something to do.
    pub fn deadlines(&self, feedback: Duration, others: Others, reports: &Reports) -> Deadlines {
        let oldest = self.sent.oldest_watched().map(|(_, packet)| packet);
        let overdue = self.news_overdue_at(oldest, feedback, others);
        let suspect = overdue.map(|due| reports.missed_at(due));
        let losses = [self.loss.timer(), suspect, self.overdue_at(feedback, others)];
        Deadlines {
            at: losses.into_iter().flatten().min(),
            settled_at: overdue.map(|due| reports.settles_at(due)),
        }
    }

    /// All that is in flight is taken for lost: the path is silent, or gone.
    pub fn abandon_flight(&mut self, settled: &mut Settled) {
        while let Some((number, packet)) = self.sent.oldest_in_flight() {
            let packet = *packet;
            if !packet.reinjected {
                settled.lost.extend(self.sent.frames(&packet));
            }
            if packet.mtu_probe {
                self.mtu.on_probe_lost(packet.size, packet.sent_at);
            }
            self.sent.settle(number, Fate::Lost);
        }
        self.loss.clear_timer();
    }

    /// When there should have been news of the path. Where there is no other, what is late
    /// most likely waits in its own queue: to send it again would make that longer.
    fn news_overdue_at(
        &self,
        oldest: Option<&SentPacket>,
        feedback: Duration,
        others: Others,
    ) -> Option<Time> {
        let oldest = oldest.map(|packet| packet.sent_at);
        let (round_trip, variation) = match others {
            Others::None => (self.rtt.smoothed(), self.rtt.variation()),
            _ => (self.expected_rtt(), self.bounded_variation()),
        };
        self.liveness.overdue_at(oldest, round_trip, variation, feedback)
    }

    /// After how long feedback is expected. A path that was slow just now isn't
    /// waited for that long: others are quicker.
    fn expected_rtt(&self) -> Duration {
        self.rtt.smoothed().min(self.rtt.base() + SLOWNESS)
    }

    fn bounded_variation(&self) -> Duration {
        self.rtt.variation().min(SLOWNESS / VARIATION_DIVISOR)
    }

    /// When a packet's feedback is late enough to send its frames by another
    /// path too (the probe timeout of RFC 9002, section 6.2, spent on another
    /// path). While the others are busy, only the oldest packet's; what is sent
    /// twice by others with room costs nothing, and may be just what the flow's
    /// window is stuck on (Raiciu et al., NSDI 2012, section 4.2).
    fn overdue_at(&self, feedback: Duration, others: Others) -> Option<Time> {
        if !self.liveness.is_up() {
            return None;
        }
        let (_, packet) = self.sent.oldest_sent_once()?;
        let oldest_again = self.sent.oldest_watched().is_some_and(|(_, p)| p.reinjected);
        if others != Others::Free && oldest_again {
            return None;
        }
        // A shorter margin on tracked links, so that brief stalls are detected.
        let margin = match others {
            Others::Free if self.congestion.is_tracking() => OVERDUE_MARGIN,
            _ => (self.bounded_variation() * VARIATIONS).max(OVERDUE_MARGIN),
        };
        let overdue = packet.sent_at + self.expected_rtt() + feedback + margin;
        Some(match others {
            // By this path again: of no use while what it holds is arriving.
            Others::None => {
                let quiet = feedback * QUIET_INTERVALS;
                overdue.max(self.liveness.last_progress() + quiet + margin)
            }
            Others::Busy | Others::Free => overdue,
        })
    }

    /// It has been silent for longer than usual, so it may take nothing for longer than
    /// its models say.
    pub fn is_late(&self, feedback: Duration, now: Time) -> bool {
        let margin = (self.bounded_variation() * LATE_VARIATIONS).max(OVERDUE_MARGIN);
        self.sent.oldest_watched().is_some_and(|(_, packet)| {
            let answered = packet.sent_at + self.expected_rtt();
            now > answered.max(self.liveness.last_progress()) + feedback + margin
        })
    }

    fn reinject(&mut self, settled: &mut Settled) {
        let Some((number, packet)) = self.sent.oldest_sent_once() else { return };
        let packet = *packet;
        settled.lost.extend(self.sent.frames(&packet));
        self.sent.note_reinjected(number);
    }

    /// All that is in flight is to be sent by others too. It may have arrived
    /// though: that it's lost is for acknowledgements to tell.
    pub fn reinject_flight(&mut self, settled: &mut Settled) {
        while self.sent.oldest_sent_once().is_some() {
            self.reinject(settled);
        }
    }
}
