//! When to check the host's network: soon after notifications, periodically, and again after
//! failures. Pure.

use std::time::{Duration, Instant};

/// How soon a peer that came or went changes the default route.
pub const TICK: Duration = Duration::from_millis(500);
/// A DHCP client changes several things one after the other: wait for all.
const SETTLE: Duration = Duration::from_millis(50);
/// Check interval for changes that the kernel doesn't report (settings below /proc/sys).
const EVERY: Duration = Duration::from_secs(5);
/// Retry interval after failures: files, memory or a port may be available again.
const RETRY: Duration = Duration::from_secs(3);
const RETRY_MOST: Duration = Duration::from_secs(60);

/// Decides when to check next.
pub struct Schedule {
    /// When recent notifications have settled, if any.
    settled: Option<Instant>,
    /// The last check.
    looked: Option<Instant>,
    /// When to retry what failed, if anything.
    retry: Option<Instant>,
    /// Pause after the next failure.
    pause: Duration,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { settled: None, looked: None, retry: None, pause: RETRY }
    }
}

impl Schedule {
    /// How long nothing needs to be done, without other news.
    pub fn wait(&self, now: Instant) -> Duration {
        self.settled.map_or(TICK, |at| at.saturating_duration_since(now))
    }

    /// Notes that something on the host has changed.
    pub fn news(&mut self, now: Instant) {
        self.settled.get_or_insert(now + SETTLE);
    }

    /// Whether to check now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        if self.looked.is_none_or(|at| now.saturating_duration_since(at) >= EVERY) {
            self.news(now);
        }
        [self.settled, self.retry].into_iter().flatten().any(|at| now >= at)
    }

    /// A check begins.
    pub fn begin(&mut self, now: Instant) {
        *self = Schedule { settled: None, looked: Some(now), retry: None, pause: self.pause };
    }

    /// Something failed, and should be tried again; each time in a row after a longer
    /// pause.
    pub fn failed(&mut self, now: Instant) {
        if self.retry.is_none() {
            self.retry = Some(now + self.pause);
            self.pause = (self.pause * 2).min(RETRY_MOST);
        }
    }

    /// A check has ended.
    pub fn done(&mut self) {
        if self.retry.is_none() {
            self.pause = RETRY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_looked_at_when_they_have_settled_and_otherwise_now_and_then() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.begin(start);
        schedule.done();
        assert_eq!(schedule.wait(start), TICK);
        assert!(!schedule.is_due(start + TICK));
        schedule.news(start + TICK);
        schedule.news(start + TICK + SETTLE / 2);
        assert_eq!(schedule.wait(start + TICK), SETTLE, "later news don't put it off");
        assert!(!schedule.is_due(start + TICK + SETTLE / 2));
        let settled = start + TICK + SETTLE;
        assert!(schedule.is_due(settled));
        schedule.begin(settled);
        assert!(!schedule.is_due(settled + EVERY - TICK));
        assert!(!schedule.is_due(settled + EVERY));
        assert!(schedule.is_due(settled + EVERY + SETTLE), "without any news");
    }

    #[test]
    fn what_fails_in_a_row_is_tried_ever_less_often_until_all_goes_well() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..6 {
            schedule.begin(now);
            schedule.failed(now);
            schedule.failed(now);
            schedule.done();
            let at = schedule.retry.unwrap();
            pauses.push(at.duration_since(now).as_secs());
            assert!(schedule.is_due(at));
            now = at;
        }
        assert_eq!(pauses, [3, 6, 12, 24, 48, 60]);
        schedule.begin(now);
        schedule.done();
        schedule.begin(now);
        schedule.failed(now);
        assert_eq!(schedule.retry, Some(now + RETRY));
    }
}
