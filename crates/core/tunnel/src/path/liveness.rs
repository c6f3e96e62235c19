//! Whether a path works, told by feedback that comes or is missing.

use braid_units::Time;
use std::time::Duration;

/// A path isn't suspected before feedback is overdue by this, however short its
/// interval: three of the longest.
pub const LEAST_SILENCE: Duration = Duration::from_millis(60);
/// Feedback intervals that may pass in silence: one report may be lost, and its copy. Ours;
/// not measured apart.
pub const SILENT_INTERVALS: u32 = 3;
/// Variations of the round trip that feedback may be late by (RFC 9002, section 6.2.1).
pub const VARIATIONS: u32 = 4;
/// A suspect path is called down after this: for people, who have seen a hiccup last less. Ours.
const DOWN_AFTER: Duration = Duration::from_secs(3);
/// An outage shorter than this doesn't put the path's capacity in question: mobile links stand
/// still for some hundred milliseconds and go on as before. Ours; not measured apart.
const SHORT_OUTAGE: Duration = Duration::from_millis(400);

/// While a path has been silent for less than the first it's probed each of the second: most
/// silences end within a second, and are known to within a short probe's pause then. Ours; not
/// measured apart...
const PROBE_EACH: [(Duration, Duration); 3] = [
    (Duration::from_millis(200), Duration::from_millis(12)),
    (Duration::from_secs(1), Duration::from_millis(50)),
    (Duration::from_secs(60), Duration::from_millis(200)),
];
/// ...and later each of this: some 100 bytes a second by a link that is down.
const PROBE_AT_LAST: Duration = Duration::from_secs(1);
/// Several datagrams that come together make one probe: those of the longest feedback interval.
const HEARD_BEFORE_PROBE: Duration = Duration::from_millis(20);

/// What is thought of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// New: nothing has come back yet.
    Unproven,
    /// It works.
    Up,
    /// Feedback is overdue: what's in flight was sent again by others.
    Suspect,
    /// Silent for seconds.
    Down,
    /// The link itself is down or has no address.
    LinkDown,
}

/// The liveness of one path.
#[derive(Debug)]
pub struct Liveness {
    state: PathState,
    since: Time,
    last_progress: Time,
    next_probe: Time,
    /// Whether it works is to be known, though nothing shows that it doesn't.
    asked: bool,
}

/// What a return to life means for the path's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// It was up all the time.
    None,
    /// After a hiccup.
    Short,
    /// After an outage, or for the first time.
    Long,
}

impl Liveness {
    /// A path opened at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            state: PathState::Unproven,
            since: now,
            last_progress: now,
            next_probe: now,
            asked: false,
        }
    }

    /// What is thought of it.
    pub fn state(&self) -> PathState {
        self.state
    }

    /// Since when.
    pub fn since(&self) -> Time {
        self.since
    }

    /// When something was acknowledged last, or it became what it is.
    pub fn last_progress(&self) -> Time {
        self.last_progress
    }

    /// It works.
    pub fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    /// A packet was acknowledged that was sent at `sent_at`, or could have been
    /// by when it arrived.
    pub fn on_acked(&mut self, sent_at: Time, now: Time) -> Return {
        self.last_progress = now;
        match self.state {
            PathState::Up => Return::None,
            PathState::LinkDown => Return::None,
            // What was on its way before the silence proves nothing.
            PathState::Suspect | PathState::Down if sent_at < self.since => Return::None,
            PathState::Unproven | PathState::Suspect | PathState::Down => {
                let short = self.state == PathState::Suspect && now - self.since < SHORT_OUTAGE;
                self.enter(PathState::Up, now);
                if short { Return::Short } else { Return::Long }
            }
        }
    }

    /// When news of a path that works are overdue, given when the oldest packet in
    /// flight was sent and the path's timing.
    pub fn overdue_at(
        &self,
        oldest_sent_at: Option<Time>,
        srtt: Duration,
        variation: Duration,
        feedback: Duration,
    ) -> Option<Time> {
        if self.state != PathState::Up {
            return None;
        }
        let expected = (oldest_sent_at? + srtt).max(self.last_progress);
        let silence = LEAST_SILENCE.max(feedback * SILENT_INTERVALS + variation * VARIATIONS);
        Some(expected + silence)
    }

    /// Feedback is overdue.
    pub fn suspect(&mut self, now: Time) {
        if self.state == PathState::Up {
            self.enter(PathState::Suspect, now);
        }
    }

    /// The link's carrier or address went or came.
    pub fn on_link(&mut self, up: bool, now: Time) {
        match (up, self.state) {
            (false, _) => self.enter(PathState::LinkDown, now),
            (true, PathState::LinkDown) => self.enter(PathState::Unproven, now),
            _ => {}
        }
    }

    /// Try it at once (its address changed, or everything else is down).
    pub fn probe_soon(&mut self, now: Time) {
        self.next_probe = self.next_probe.min(now);
    }

    /// Whether it works is to be known at once, also if it's believed to.
    pub fn ask(&mut self, now: Time) {
        self.asked = true;
        self.probe_soon(now);
    }

    /// Something came by it: a probe now will likely be answered.
    pub fn probe_soon_after_heard(&mut self, now: Time) {
        self.next_probe = self.next_probe.min(now + HEARD_BEFORE_PROBE);
    }

    /// When to send the next probe, if nothing else was sent for `idle`.
    pub fn probe_at(&self, last_sent: Time, idle: Option<Duration>) -> Option<Time> {
        match self.state {
            PathState::LinkDown => None,
            PathState::Up if self.asked => Some(self.next_probe),
            PathState::Up => Some((last_sent + idle?).max(self.next_probe)),
            _ => Some(self.next_probe),
        }
    }

    /// A probe was sent.
    pub fn on_probe(&mut self, now: Time) {
        self.asked = false;
        let silent_for = now - self.since;
        if self.state == PathState::Suspect && silent_for > DOWN_AFTER {
            self.state = PathState::Down;
        }
        let pause = PROBE_EACH.iter().find(|(silence, _)| silent_for < *silence);
        self.next_probe = now + pause.map_or(PROBE_AT_LAST, |(_, pause)| *pause);
    }

    fn enter(&mut self, state: PathState, now: Time) {
        self.state = state;
        self.since = now;
        self.next_probe = now;
        self.last_progress = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_fell_silent_is_asked_often_at_first_and_ever_less() {
        let at = |ms| Time::from_millis(1000) + Duration::from_millis(ms);
        let mut liveness = Liveness::new(Time::ZERO);
        liveness.on_acked(Time::ZERO, Time::ZERO);
        liveness.suspect(at(0));
        let mut probes = Vec::new();
        for ms in 0..5000 {
            if liveness.probe_at(at(0), None).is_some_and(|due| due <= at(ms)) {
                liveness.on_probe(at(ms));
                probes.push(ms);
            }
        }
        let within = |from, to| probes.iter().filter(|ms| (from..to).contains(*ms)).count();
        assert!((15..=20).contains(&within(0, 200)), "{probes:?}");
        assert!((14..=20).contains(&within(200, 1000)), "{probes:?}");
        assert!((18..=22).contains(&within(1000, 5000)), "{probes:?}");
    }
}
