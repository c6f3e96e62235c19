//! When something is due. What is found out by looking at all paths is noted
//! and looked for again when it may have changed, not with every packet: what a
//! packet costs must not grow with the number of links.

use super::schedule::Candidates;
use super::{IN_USE, Peer};
use crate::path::{Others, Path};
use braid_units::Time;
use std::time::Duration;

/// Feedback interval bounds: often enough to see a path die, seldom enough to
/// cost little.
const FEEDBACK: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis(20);

/// Shorter pauses in what comes by a path say nothing: links have as much
/// jitter.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// What the paths have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survey {
    feedback: Duration,
    /// A stream that comes by a path is missed after this.
    pause: Duration,
    /// Plaintext bytes of the shortest datagrams; none when no path works.
    pub least_room: Option<usize>,
    /// More than one works.
    several: bool,
    /// The paths to choose from, whatever their tier.
    pub candidates: Candidates,
    /// Those of them that bulk data takes.
    pub bulk: Candidates,
}

impl Default for Survey {
    fn default() -> Self {
        let feedback = *FEEDBACK.end() / 2;
        Self {
            feedback,
            pause: pause_for(feedback),
            least_room: None,
            several: false,
            candidates: Candidates::default(),
            bulk: Candidates::default(),
        }
    }
}

impl Peer {
    /// Notes what the paths have in common.
    pub(super) fn look_at_paths(&mut self) {
        let least = self.paths_up().filter(|p| p.rtt.is_known()).map(|p| p.rtt.base()).min();
        let feedback =
            (least.unwrap_or(*FEEDBACK.end()) / 2).clamp(*FEEDBACK.start(), *FEEDBACK.end());
        let least_room = self.paths_up().map(|p| p.room()).min();
        if feedback < self.survey.feedback {
            // What was noted of the paths' timers may be too late now.
            self.losses_at = Time::ZERO;
        }
        let several = self.paths_up().nth(1).is_some();
        let candidates = self.find_candidates(None, u8::MAX);
        let bulk = self.quick_enough(candidates);
        let pause = pause_for(feedback);
        self.survey = Survey { feedback, pause, least_room, several, candidates, bulk };
    }

    /// How often feedback is sent, from the paths' round-trip times.
    pub(crate) fn feedback_interval(&self) -> Duration {
        self.survey.feedback
    }

    /// [`Self::poll_transmit`] would find nothing: with many peers most have one
    /// datagram at a time, and asking twice costs as much as sending.
    pub(crate) fn is_done(&self, now: Time) -> bool {
        now < self.chores_at
            && self.feedback_copy.is_none()
            && self.entry.is_empty()
            && self.repairs.is_empty()
            && self.duplicates.is_empty()
            && self.parities.is_empty()
            && self.bonded.is_none()
            && self.bonding.is_empty()
    }

    /// Earliest moment at which something is due. To be asked when
    /// [`Self::poll_transmit`] has nothing more.
    pub(crate) fn deadline(&mut self, now: Time) -> Option<Time> {
        let mut soonest = self.losses_at;
        let mut note = |at: Option<Time>| soonest = at.map_or(soonest, |at| at.min(soonest));
        for kind in &self.deadlines {
            note(kind.front().and_then(|(at, _)| self.working.when(*at)));
        }
        note(self.exit.expires_at(self.patience()).and_then(|at| self.hearing.when(at)));
        note(self.encoder.next_deadline());
        note(self.acks.release_at());
        note(self.next_rest(now));
        note(self.next_closing);
        self.others_at = soonest;
        soonest = self.next_departure(now).map_or(soonest, |at| at.min(soonest));
        // Without keys nothing can be sent.
        if self.sessions.can_send(now) {
            soonest = soonest.min(self.chores_at);
        }
        (soonest < Time::FAR_FUTURE).then_some(soonest)
    }

    /// A report, a probe or data is to be sent, and nothing else is due.
    pub(super) fn only_sending_is_due(&self, now: Time) -> bool {
        now < self.others_at.min(self.losses_at).min(self.upkeep_at)
    }

    /// What other paths are to one of several.
    pub(super) fn other_paths(&self) -> Others {
        match (self.survey.several, self.spare) {
            (false, _) => Others::None,
            (true, true) => Others::Free,
            (true, false) => Others::Busy,
        }
    }

    /// Notes when a path next takes something for lost or late.
    pub(super) fn look_for_losses(&mut self) {
        (self.losses_at, self.settled_at) = (Time::FAR_FUTURE, Time::FAR_FUTURE);
        for index in 0..self.paths.len() {
            self.note_losses_of(index);
        }
    }

    /// What was just sent or acknowledged by this path may be lost earlier than
    /// anything else.
    pub(super) fn note_losses_of(&mut self, index: usize) {
        let (feedback, others) = (self.survey.feedback, self.other_paths());
        let Some(path) = self.paths.get(index) else { return };
        let deadlines = path.deadlines(feedback, others, &self.reports);
        self.losses_at = deadlines.at.map_or(self.losses_at, |at| at.min(self.losses_at));
        self.settled_at =
            deadlines.settled_at.map_or(self.settled_at, |at| at.min(self.settled_at));
    }

    /// A report came that was written at this moment of the peer's clock.
    pub(super) fn note_report(&mut self, written_us: i64, now: Time) {
        self.reports.on_report(written_us, now);
        // Of other paths it may be the last word.
        if self.reports.has_told(self.settled_at) {
            self.look_for_losses();
        }
    }

    /// When the next report or probe is due.
    pub(super) fn next_chore(&self, now: Time) -> Time {
        let (interval, idle) = (self.feedback_interval(), self.idle_probe(now));
        let chores = self.paths.iter().flat_map(|p| {
            [
                p.received.report_at(interval),
                p.probe_at(idle),
                self.ask_at(p),
                if p.liveness.is_up() { p.mtu.next_deadline() } else { None },
            ]
        });
        chores.flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// A stream that comes by a path is missed after this.
    pub(super) fn pause(&self) -> Duration {
        self.survey.pause
    }

    /// When to ask whether a path by which a stream came still works: the peer
    /// doesn't know where we are when our address has changed.
    pub(super) fn ask_at(&self, path: &Path) -> Option<Time> {
        let behind_nat = !self.config.endpoints.is_empty();
        path.hearing.ask_at(self.pause()).filter(|_| behind_nat && path.liveness.is_up())
    }

    /// Idle paths are probed: often enough to keep a NAT's mapping, and while
    /// the tunnel is in use, to know which paths work.
    pub(super) fn idle_probe(&self, now: Time) -> Option<Duration> {
        if now - self.last_used < IN_USE {
            return Some(Duration::from_millis(500));
        }
        self.config.keepalive
    }
}

fn pause_for(feedback: Duration) -> Duration {
    (feedback * 3).max(LEAST_PAUSE)
}
