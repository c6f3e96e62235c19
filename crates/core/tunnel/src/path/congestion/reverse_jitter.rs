//! How long acknowledgements take on their way back, beyond the least.
//!
//! The least round trip is one without jitter: more must be in flight to keep the
//! link busy. Only the way back is looked at: a queue that this end makes isn't
//! there.

use crate::path::rtt::{BASE_WINDOW, WindowedMin};
use braid_units::Time;
use std::time::Duration;

/// Acknowledgements over which the mean is taken: RFC 3550's gain (section 6.4.1).
const MEAN: i64 = 16;
/// More than this isn't taken for jitter, as hostile times may say anything. Ours.
const MOST_JITTER: Duration = Duration::from_millis(300);

/// What acknowledgements told of their way.
#[derive(Debug)]
pub struct ReverseJitter {
    mean_us: Option<i64>,
    least_us: WindowedMin,
}

impl ReverseJitter {
    /// One of which nothing is known.
    pub fn new() -> Self {
        Self { mean_us: None, least_us: WindowedMin::new(BASE_WINDOW) }
    }

    /// An acknowledgement took so long (with any constant offset, in microseconds).
    pub fn on_ack(&mut self, took_us: i64, now: Time) {
        self.least_us.update(took_us, now);
        let mean = self.mean_us.map_or(took_us, |mean| mean + (took_us - mean) / MEAN);
        self.mean_us = Some(mean);
    }

    /// The mean above the least.
    pub fn jitter(&self) -> Duration {
        let above = self.mean_us.zip(self.least_us.get()).map(|(mean, least)| mean - least);
        let above = above.and_then(|us| u64::try_from(us).ok()).unwrap_or(0);
        Duration::from_micros(above).min(MOST_JITTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(samples: impl IntoIterator<Item = i64>) -> Duration {
        let mut way = ReverseJitter::new();
        for (number, sample) in (0..).zip(samples) {
            way.on_ack(sample, Time::from_micros(number * 1000));
        }
        way.jitter()
    }

    #[test]
    fn a_steady_way_has_no_jitter_whatever_the_clocks_differ_by() {
        assert_eq!(told([]), Duration::ZERO);
        assert_eq!(told([-5_000_000; 100]), Duration::ZERO);
    }

    #[test]
    fn what_is_above_the_least_in_the_mean_is_jitter() {
        let jitter = told((0..400).map(|number| -7_000 + number % 5 * 10_000));
        assert!((15..=25).contains(&jitter.as_millis()), "{jitter:?}");
    }

    #[test]
    fn hostile_times_are_no_more_than_the_most() {
        assert_eq!(told([i64::MIN / 4, i64::MAX / 4]), MOST_JITTER);
    }
}
