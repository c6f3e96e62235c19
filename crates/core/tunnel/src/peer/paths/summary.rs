//! What the paths have in common. It's found out by looking at all of them, noted,
//! and looked for again when it may have changed, not with every packet: what a
//! packet costs must not grow with the number of links.

use super::PathSet;
use crate::path::Path;
use crate::path::liveness::SILENT_INTERVALS;
use crate::peer::timers::{Timer, TimerTable};
use braid_units::Time;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Feedback interval bounds: often enough to see a path die, seldom enough to
/// cost little. Half a round trip lies between: then news are a quarter of one old in the mean.
/// Ours; not measured apart.
const FEEDBACK: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(20);
/// The interval is the least round trip by this.
const FEEDBACK_DIVISOR: u32 = 2;
/// Shorter pauses in what comes by a path say nothing: links have as much
/// jitter. Ours; not measured apart.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// What the paths have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub feedback: Duration,
    /// A stream that comes by a path is missed after this.
    pause: Duration,
    /// Plaintext bytes of the shortest datagrams; none when no path works.
    least_room: Option<usize>,
    /// More than one works.
    pub several: bool,
    /// The paths to choose from, whatever their tier.
    candidates: Candidates,
}

impl Default for Summary {
    fn default() -> Self {
        let feedback = *FEEDBACK.end() / FEEDBACK_DIVISOR;
        Self {
            feedback,
            pause: pause_for(feedback),
            least_room: None,
            several: false,
            candidates: Candidates::default(),
        }
    }
}

/// Paths by their places, of which there are [`MAX_PATHS`](super::MAX_PATHS) at
/// the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates(u64);

impl Candidates {
    /// These paths with their places.
    pub fn of(self, paths: &[Path]) -> impl Iterator<Item = (usize, &Path)> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Some((place, paths.get(place)?))
        })
    }

    /// Whether the path of this place is one.
    pub fn contains(self, place: usize) -> bool {
        u32::try_from(place)
            .is_ok_and(|place| self.0.checked_shr(place).is_some_and(|s| s & 1 == 1))
    }
}

impl PathSet {
    /// Notes what the paths have in common.
    pub fn summarize(&mut self, timers: &mut TimerTable) {
        let least = self.up().filter(|p| p.rtt.is_known()).map(|p| p.rtt.base()).min();
        let feedback = (least.unwrap_or(*FEEDBACK.end()) / FEEDBACK_DIVISOR)
            .clamp(*FEEDBACK.start(), *FEEDBACK.end());
        let least_room = self.up().map(Path::room).min();
        if feedback < self.summary.feedback {
            // What was noted of the paths' timers may be too late now.
            timers.fire(Timer::Loss);
        }
        let several = self.up().nth(1).is_some();
        let candidates = self.candidates(None, u8::MAX);
        let pause = pause_for(feedback);
        self.summary = Summary { feedback, pause, least_room, several, candidates };
    }

    /// How often feedback is sent, from the paths' round-trip times.
    pub fn feedback_interval(&self) -> Duration {
        self.summary.feedback
    }

    /// A stream that comes by a path is missed after this.
    pub fn pause(&self) -> Duration {
        self.summary.pause
    }

    /// Plaintext bytes of the shortest datagrams; none when no path works.
    pub fn least_room(&self) -> Option<usize> {
        self.summary.least_room
    }

    /// The paths to choose from, whatever their tier.
    pub fn usable(&self) -> Candidates {
        self.summary.candidates
    }

    /// The paths to choose from: those that work, but no standby beside others,
    /// no tier above the limit, nor number `except`.
    pub fn candidates(&self, except: Option<u8>, tier_limit: u8) -> Candidates {
        let usable = |p: &Path| p.liveness.is_up() && Some(p.id) != except;
        let primary = self.iter().any(|p| usable(p) && !p.policy.standby);
        let eligible =
            |p: &Path| usable(p) && p.policy.standby != primary && p.policy.tier <= tier_limit;
        let places = self.iter().zip(0..);
        let fit = places.filter(|(p, _)| eligible(p));
        Candidates(fit.fold(0, |set, (_, place): (_, u32)| set | 1 << place))
    }

    /// When the next report or probe is due. `reports_at`: those that are due wait until then;
    /// `idle`: after so long idle paths are
    /// probed; `asks`: we ask by paths by which a stream stopped.
    pub fn next_control(
        &self,
        reports_at: Option<Time>,
        idle: Option<Duration>,
        asks: bool,
    ) -> Option<Time> {
        let interval = self.feedback_interval();
        let deadlines = self.iter().flat_map(|p| {
            [
                reports_at.or_else(|| p.received.report_at(interval)),
                p.probe_at(idle),
                self.ask_at(p, asks),
                if p.liveness.is_up() { p.mtu.next_deadline() } else { None },
            ]
        });
        deadlines.flatten().min()
    }

    /// When to ask whether a path by which a stream came still works: the peer
    /// doesn't know where we are when our address has changed. Only the side that
    /// may sit behind a NAT `asks`.
    pub fn ask_at(&self, path: &Path, asks: bool) -> Option<Time> {
        path.inbound.ask_at(self.pause()).filter(|_| asks && path.liveness.is_up())
    }
}

fn pause_for(feedback: Duration) -> Duration {
    (feedback * SILENT_INTERVALS).max(LEAST_PAUSE)
}
