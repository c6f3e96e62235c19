//! Round-trip time and one-way delay of a path.

use braid_units::Time;
use std::time::Duration;

/// Before the first sample.
const INITIAL_RTT: Duration = Duration::from_millis(200);
/// A first sample may have met a busy processor at either end, and be a hundred
/// times the least one.
const SETTLED: u8 = 4;
/// How long a minimum counts. As BBR's `MinRTTFilterLen` (draft-ietf-ccwg-bbr,
/// section 2.10).
pub const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Longer than others fill a modem's queue without a pause: what is above the least of this time is
/// known for a queue although it has stood for more than [`BASE_WINDOW`].
const UNLOADED_WINDOW: Duration = Duration::from_secs(600);

/// Smoothed round-trip time (RFC 9002, section 5) and the one-way delays of
/// what the peer received.
#[derive(Debug)]
pub struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    latest: Duration,
    base: WindowedMin,
    unloaded: WindowedMin,
    samples: u8,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self {
            smoothed: None,
            variation: INITIAL_RTT / 2,
            latest: INITIAL_RTT,
            base: WindowedMin::new(BASE_WINDOW),
            unloaded: WindowedMin::new(UNLOADED_WINDOW),
            samples: 0,
        }
    }
}

impl RoundTrip {
    /// A packet's acknowledgement came `sample` after it was sent, time at the
    /// peer taken out.
    pub fn on_sample(&mut self, sample: Duration, now: Time) {
        self.latest = sample;
        self.samples = self.samples.saturating_add(1);
        self.base.update(sample.as_micros() as i64, now);
        self.unloaded.update(sample.as_micros() as i64, now);
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((7 * smoothed + sample) / 8);
            }
        }
    }

    /// The path leads elsewhere now: forget.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// SRTT; a guess before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL_RTT)
    }
    /// RTTVAR.
    pub fn variation(&self) -> Duration {
        self.variation
    }
    /// The last sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }
    /// A sample has been taken.
    pub fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }
    /// So many samples have been taken that one of them was likely not held up
    /// by anything.
    pub fn is_settled(&self) -> bool {
        self.samples >= SETTLED
    }
    /// The least of the last 10 s.
    pub fn base(&self) -> Duration {
        least_of(&self.base)
    }
    /// The least of the last ten minutes.
    pub fn unloaded(&self) -> Duration {
        least_of(&self.unloaded)
    }
}

fn least_of(window: &WindowedMin) -> Duration {
    window.get().map_or(INITIAL_RTT, |us| Duration::from_micros(u64::try_from(us).unwrap_or(0)))
}

/// Minimum over a sliding window, in two halves: cheap, and never older than
/// the window.
#[derive(Debug, Clone)]
pub struct WindowedMin {
    half: Duration,
    current: Option<i64>,
    previous: Option<i64>,
    since: Time,
}

impl WindowedMin {
    /// Over the last `window` (between half of it and the whole).
    pub fn new(window: Duration) -> Self {
        Self { half: window / 2, current: None, previous: None, since: Time::ZERO }
    }

    /// Adds a value.
    pub fn update(&mut self, value: i64, now: Time) {
        if now - self.since >= self.half {
            self.previous = if now - self.since >= self.half * 2 { None } else { self.current };
            self.current = None;
            self.since = now;
        }
        self.current = Some(self.current.map_or(value, |c| c.min(value)));
    }

    /// The minimum, if there is one.
    pub fn get(&self) -> Option<i64> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Starts over with `value`.
    pub fn restart(&mut self, value: i64, now: Time) {
        (self.current, self.previous, self.since) = (Some(value), None, now);
    }
}
