use braid_units::Rate;
use std::time::{Duration, Instant};

/// Limits the sending rate.
pub struct Throttle {
    rate: Rate,
    /// When everything sent so far is paid for.
    paid: Instant,
}

/// How much may be sent at once after a pause.
const BURST: Duration = Duration::from_millis(250);

impl Throttle {
    /// For this rate.
    pub fn new(rate: Rate) -> Throttle {
        Throttle { rate, paid: Instant::now() }
    }

    /// Waits until `bytes` may be sent.
    pub fn pass(&mut self, bytes: usize) {
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.paid = self.paid.max(earliest) + self.rate.time_for(bytes as u64);
        if let Some(wait) = self.paid.checked_duration_since(now) {
            std::thread::sleep(wait);
        }
    }
}
