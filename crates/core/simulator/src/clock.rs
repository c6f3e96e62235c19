use braid_units::Time;
use std::time::Duration;

/// How an end's clock differs from true (virtual) time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockSpec {
    /// It's ahead by this.
    pub offset: Duration,
    /// It runs faster by this many parts in a million.
    pub drift_ppm: i32,
}

impl ClockSpec {
    /// What the end's clock shows.
    pub fn local(self, truth: Time) -> Time {
        let nanos = i128::from(truth.as_nanos());
        let drifted = nanos + nanos * i128::from(self.drift_ppm) / 1_000_000;
        Time::from_nanos(u64::try_from(drifted).unwrap_or(0)) + self.offset
    }

    /// The first true time at which the end's clock shows `local` or more.
    pub fn truth(self, local: Time) -> Time {
        let nanos = i128::from(local.saturating_sub(self.offset).as_nanos());
        let guess = nanos * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        let mut truth = Time::from_nanos(u64::try_from(guess).unwrap_or(0));
        while self.local(truth) < local {
            truth += Duration::from_nanos(1);
        }
        truth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_never_early() {
        for drift_ppm in [-200, 0, 137] {
            let clock = ClockSpec { offset: Duration::from_secs(1000), drift_ppm };
            for ms in (0..10_000).step_by(37) {
                let local = clock.local(Time::from_millis(ms)) + Duration::from_nanos(333);
                let truth = clock.truth(local);
                assert!(clock.local(truth) >= local);
                assert!(truth - Time::from_millis(ms) < Duration::from_micros(1));
            }
        }
    }
}
