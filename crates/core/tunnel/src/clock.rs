//! Clocks that stand still, and the peer's clock.

use braid_units::Time;
use std::time::Duration;

/// Time that doesn't pass during an outage: a deadline for repairs means
/// nothing while there is no way to repair.
#[derive(Debug, Default)]
pub struct PausingClock {
    stopped_at: Option<Time>,
    lost: Duration,
}

impl PausingClock {
    /// Stops it, if it runs.
    pub fn stop(&mut self, now: Time) {
        self.stopped_at.get_or_insert(now);
    }

    /// Lets it run again, if it's stopped.
    pub fn run(&mut self, now: Time) {
        if let Some(at) = self.stopped_at.take() {
            self.lost += now - at;
        }
    }

    /// What it shows at `now`.
    pub fn at(&self, now: Time) -> Time {
        self.stopped_at.unwrap_or(now).min(now).saturating_sub(self.lost)
    }

    /// When it will show `at` if it isn't stopped again; `None` while it is.
    pub fn when(&self, at: Time) -> Option<Time> {
        self.stopped_at.is_none().then(|| at + self.lost)
    }

    /// It runs.
    pub fn runs(&self) -> bool {
        self.stopped_at.is_none()
    }
}

/// Makes the peer's 32-bit microseconds a continuous count (any origin).
#[derive(Debug, Default)]
pub struct PeerClock {
    last: Option<(u32, i64)>,
}

impl PeerClock {
    /// The count at the peer's time `us`. Right within 35 minutes of the last.
    pub fn unwrap(&mut self, us: u32) -> i64 {
        let total = match self.last {
            None => 0,
            Some((last, total)) => total + i64::from(us.wrapping_sub(last) as i32),
        };
        self.last = Some((us, total));
        total
    }
}
