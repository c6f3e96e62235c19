//! How much a link's capacity changes, as its queue shows it.
//!
//! The queue of a steady link changes too: it grows when more is sent than the
//! link takes, and shrinks when the sender pauses. So it's compared with the queue
//! that would be had the link the rate that it was taken to have when the packets
//! left, as a filter's innovation is; only what that doesn't explain counts.

use braid_units::Rate;
use std::time::Duration;

/// More than this isn't counted of one change: the longest queue target.
const MOST: Duration = Duration::from_millis(150);
/// Changes over which the mean is taken, exponentially. Ours; not measured apart.
const MEAN: u32 = 8;

/// What the rounds' queues told so far.
#[derive(Debug)]
pub struct QueueInnovation {
    mean: Duration,
    /// The queue when it was noted before.
    noted: Duration,
    /// The queue that would be now.
    expected: Duration,
    /// The least of that since the round began.
    least_expected: Option<Duration>,
    /// The estimates of the link's rate when this round began and the one before:
    /// what is acknowledged now left in that.
    estimate: Rate,
    estimate_before: Rate,
}

impl QueueInnovation {
    /// A link of which nothing is known but a first guess of its rate.
    pub fn new(estimate: Rate) -> Self {
        Self {
            mean: Duration::ZERO,
            noted: Duration::ZERO,
            expected: Duration::ZERO,
            least_expected: None,
            estimate,
            estimate_before: estimate,
        }
    }

    /// The mean change from round to round that what was sent doesn't explain.
    pub fn mean(&self) -> Duration {
        self.mean
    }

    /// A round begins.
    pub fn start_round(&mut self, estimate: Rate) {
        self.estimate_before = std::mem::replace(&mut self.estimate, estimate);
        self.least_expected = None;
    }

    /// `bytes` more arrived, the newest of them sent so long after the newest
    /// before: they make the queue longer, the time makes it shorter.
    pub fn on_delivery(&mut self, bytes: u64, sent_within: Duration) {
        let longer = self.expected + self.estimate_before.time_for(bytes);
        self.expected = longer.saturating_sub(sent_within);
        let least = self.least_expected.map_or(self.expected, |d| d.min(self.expected));
        self.least_expected = Some(least);
    }

    /// The round ended, `queue` was the least one. While the link is `followed` its
    /// estimate changes with it, and would explain everything.
    pub fn on_round(&mut self, queue: Duration, followed: bool) {
        self.note(queue, self.least_expected.filter(|_| !followed));
    }

    /// The round of a link that isn't followed ends early, since the queue is as it
    /// is now.
    pub fn on_sudden(&mut self, queue: Duration) {
        self.note(queue, Some(self.expected));
    }

    fn note(&mut self, queue: Duration, expected: Option<Duration>) {
        let change = queue.abs_diff(self.noted);
        let unexplained = expected.map_or(change, |e| change.min(queue.abs_diff(e)));
        self.mean = (self.mean * (MEAN - 1) + unexplained.min(MOST)) / MEAN;
        self.noted = queue;
        self.expected = queue;
    }
}
