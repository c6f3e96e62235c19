use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin the caller
/// chose (process start, simulation start). The sans-IO crates know no other
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// Later than any event: "never".
    pub const FAR_FUTURE: Time = Time(u64::MAX);

    /// A point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }
    /// A point `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Time(micros * 1_000)
    }
    /// A point `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis * 1_000_000)
    }
    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds since the origin.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Time passed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
    /// This point moved back by `by`, not before the origin.
    pub const fn saturating_sub(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(saturating_nanos(by)))
    }
}

const fn saturating_nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, by: Duration) -> Time {
        Time(self.0.saturating_add(saturating_nanos(by)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub for Time {
    type Output = Duration;
    /// Saturates at zero, as [`Time::since`].
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}
