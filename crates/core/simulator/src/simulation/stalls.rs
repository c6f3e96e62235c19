use crate::scenario::Stalls;
use braid_units::Time;
use std::time::Duration;

/// How long an end stands still: from so many milliseconds on, up to so many more.
const STALL_MS: (f64, f64) = (5.0, 75.0);

/// Draws when an end stands still, which, and for how long.
#[derive(Debug)]
pub(super) struct StallClock {
    stalls: Stalls,
    next: Time,
    rng: fastrand::Rng,
}

/// An end stands still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    /// Its place among all ends.
    pub end: usize,
    pub until: Time,
}

impl StallClock {
    /// The first one comes at once.
    pub fn new(stalls: Stalls, seed: u64) -> Self {
        Self { stalls, next: Time::ZERO, rng: fastrand::Rng::with_seed(seed ^ 0x57a1) }
    }

    /// When the next one begins.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The one that begins now, if any, of so many ends.
    pub fn poll(&mut self, now: Time, ends: usize) -> Option<Stall> {
        if self.next > now {
            return None;
        }
        // Exponential, as what has no memory.
        let wait = -self.rng.f64().max(1e-9).ln() * self.stalls.every.as_secs_f64();
        self.next = now + Duration::from_secs_f64(wait);
        let end = self.rng.usize(0..ends);
        let length = Duration::from_secs_f64(STALL_MS.0 + self.rng.f64() * STALL_MS.1) / 1000;
        Some(Stall { end, until: now + length })
    }
}
