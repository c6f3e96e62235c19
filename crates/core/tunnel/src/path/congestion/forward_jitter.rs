//! How much the way there delays packets by chance.
//!
//! A queue and jitter both show as delay. They differ in what happens from one
//! packet to the next: a queue makes the later one later by no more than its
//! transmission takes, jitter by any amount. So what a packet is later than the one
//! before, beyond a transmission, is averaged, as RFC 3550 (section 6.4.1) does with
//! all of it. The transmission is the least time between two arrivals of late: no
//! rate that was only guessed.
//!
//! Where jitter keeps the order, many packets wait behind a late one and few differ,
//! though all are late: the most of the last seconds counts.

use crate::path::rtt::{BASE_WINDOW, WindowedMin};
use braid_units::Time;
use std::time::Duration;

/// RFC 3550's gain.
const GAIN: f64 = 1.0 / 16.0;
/// Of two delays spread evenly over a span, what the second is later than the first (nothing,
/// where it's earlier) is a sixth of the span in the mean.
const SPAN: f64 = 6.0;
/// After the first pairs one counts for at most so many times the mean and this more: a single
/// stall is no jitter. Ours; not measured apart.
const FIRST: u32 = 8;
const OUTLIER: f64 = 4.0;
const LEAST: Duration = Duration::from_millis(2);
/// More than this isn't taken for jitter, as hostile times may say anything. Ours.
const MOST: Duration = Duration::from_millis(300);

/// A packet as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// When, by the peer's clock, microseconds.
    pub at_us: i64,
    /// Its one-way delay, with the clocks' offset, microseconds.
    pub delay_us: i64,
    /// It's about as long as any.
    pub full: bool,
}

/// What arrivals told of the way.
#[derive(Debug)]
pub struct ForwardJitter {
    mean_us: f64,
    /// How many pairs were seen: the first ones are averaged evenly.
    pairs: u32,
    transmission_us: WindowedMin,
    /// Less the most of late.
    most: WindowedMin,
}

/// One of which nothing is known.
impl Default for ForwardJitter {
    fn default() -> Self {
        Self {
            mean_us: 0.0,
            pairs: 0,
            transmission_us: WindowedMin::new(BASE_WINDOW),
            most: WindowedMin::new(BASE_WINDOW),
        }
    }
}

impl ForwardJitter {
    /// Two packets that were sent one after the other.
    pub fn on_pair(&mut self, earlier: Arrived, later: Arrived, now: Time) {
        let apart_us = later.at_us.saturating_sub(earlier.at_us).max(0);
        if later.full {
            self.transmission_us.update(apart_us, now);
        }
        let transmission_us = self.transmission_us.get().unwrap_or(0);
        let later_us = later.delay_us.saturating_sub(earlier.delay_us);
        let excess_us = later_us.saturating_sub(transmission_us).max(0) as f64;
        self.pairs = self.pairs.saturating_add(1);
        let gain = GAIN.max(1.0 / f64::from(self.pairs));
        // A link that stands still once is not jitter: no packet counts for more than
        // some times the mean.
        let most_us = match self.pairs {
            ..=FIRST => MOST.as_secs_f64() * 1e6,
            _ => self.mean_us * OUTLIER + LEAST.as_secs_f64() * 1e6,
        };
        self.mean_us += (excess_us.min(most_us) - self.mean_us) * gain;
        self.most.update(-(self.mean_us as i64), now);
    }

    /// The span over which delays are spread.
    pub fn span(&self) -> Duration {
        let most_us = self.most.get().map_or(0, |least| -least).max(0);
        Duration::from_micros(most_us as u64).mul_f64(SPAN).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets sent at these times, with these delays, microseconds.
    fn told(full: bool, packets: impl IntoIterator<Item = (i64, i64)>) -> Duration {
        let mut way = ForwardJitter::default();
        let mut last = None;
        for (sent_us, delay_us) in packets {
            let at_us = sent_us.saturating_add(delay_us);
            let arrived = Arrived { at_us, delay_us, full };
            if let Some(before) = last.replace(arrived) {
                way.on_pair(before, arrived, Time::from_micros(sent_us as u64));
            }
        }
        way.span()
    }

    #[test]
    fn a_queue_that_grows_and_drains_is_no_jitter_however_slow_the_link() {
        assert_eq!(told(true, []), Duration::ZERO);
        // Each 10 ms over a link that takes 40 ms for each, and after a pause again.
        let train = |from| (0..20).map(move |number| (from + number * 10_000, number * 30_000));
        assert_eq!(told(true, train(0).chain(train(2_000_000))), Duration::ZERO);
    }

    #[test]
    fn delays_spread_evenly_show_their_span() {
        // Multiples of a number that has no divisor in common with 60,000.
        let probes = (0..400).map(|number| (number * 100_000, number * 26_717 % 60_000));
        let span = told(false, probes);
        assert!((45..=130).contains(&span.as_millis()), "{span:?}");
    }

    #[test]
    fn hostile_times_are_no_more_than_the_most() {
        let (least, most) = (i64::MIN / 4, i64::MAX / 4);
        assert_eq!(told(true, [(1, least), (2, most), (3, least), (4, most)]), MOST);
    }
}
