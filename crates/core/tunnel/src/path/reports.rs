//! Up to when the peer has told what came to it. Its reports come by whichever path
//! is quickest; when that one fails they come by slower ones. What they don't tell
//! until then may still have arrived: other paths aren't silent because of that.

use super::liveness::LEAST_SILENCE;
use super::rtt::WindowedMin;
use braid_units::Time;
use std::time::Duration;

/// How long it's remembered how late reports came. Ours.
const MEMORY: Duration = Duration::from_secs(10);
/// No report is waited for longer, however late some came. Ours; not measured apart.
const LATEST: Duration = Duration::from_millis(500);

/// The peer's reports, by whatever path they come.
#[derive(Debug)]
pub struct Reports {
    /// How long they take, in microseconds of the difference of both clocks.
    soonest: WindowedMin,
    /// The same of those that told something new, negative.
    latest: WindowedMin,
    told_until: Time,
    spread: Duration,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            soonest: WindowedMin::new(MEMORY),
            latest: WindowedMin::new(MEMORY),
            told_until: Time::ZERO,
            spread: Duration::ZERO,
        }
    }
}

impl Reports {
    /// One came that was written at this moment of the peer's clock, in
    /// microseconds.
    pub fn on_report(&mut self, written_us: i64, now: Time) {
        let took = now.as_micros() as i64 - written_us;
        self.soonest.update(took, now);
        let soonest = self.soonest.get().unwrap_or(took);
        let until = now.saturating_sub(micros(took - soonest));
        // A copy that comes later tells nothing new, and isn't waited for.
        if until > self.told_until {
            self.told_until = until;
            self.latest.update(-took, now);
        }
        let latest = self.latest.get().map_or(took, |latest| -latest);
        self.spread = micros(latest - soonest).min(LATEST);
    }

    /// When a path is silent whose news were overdue at `due`: at once if a report
    /// came that would have had them; else when the latest would have come.
    pub fn missed_at(&self, due: Time) -> Time {
        if self.has_told(self.settles_at(due)) { due } else { due + self.spread }
    }

    /// A report written so late settles what was overdue at `due`, which is so long
    /// after it was expected.
    pub fn settles_at(&self, due: Time) -> Time {
        due.saturating_sub(LEAST_SILENCE)
    }

    /// A report came that was written at this moment or later.
    pub fn has_told(&self, at: Time) -> bool {
        self.told_until >= at
    }
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports each 20 ms until `until`, that take so long; the peer's clock is 7 s
    /// ahead.
    fn hear(reports: &mut Reports, from: u64, until: u64, took: u64) {
        for ms in (from..until).step_by(20) {
            let written_us = (ms as i64 + 7_000) * 1000;
            reports.on_report(written_us, Time::from_millis(ms + took));
        }
    }

    #[test]
    fn a_report_without_news_shows_silence_at_once() {
        let mut reports = Reports::default();
        hear(&mut reports, 0, 1000, 5);
        let due = Time::from_millis(1000);
        assert_eq!(reports.missed_at(due), due);
    }

    #[test]
    fn while_reports_come_by_a_slower_way_their_news_are_waited_for() {
        let mut reports = Reports::default();
        hear(&mut reports, 0, 1000, 5);
        // The quick way fails: the next to come was written 250 ms ago.
        hear(&mut reports, 1000, 1200, 250);
        let due = Time::from_millis(1400);
        assert_eq!(reports.missed_at(due), due + Duration::from_millis(245));
        hear(&mut reports, 1200, 1500, 250);
        assert_eq!(reports.missed_at(due), due);
    }

    #[test]
    fn copies_that_come_later_are_not_waited_for() {
        let mut reports = Reports::default();
        for ms in (0..1000).step_by(20) {
            hear(&mut reports, ms, ms + 1, 5);
            if ms >= 400 {
                hear(&mut reports, ms - 400, ms - 399, 400);
            }
        }
        let due = Time::from_millis(2000);
        assert_eq!(reports.missed_at(due), due);
    }
}
