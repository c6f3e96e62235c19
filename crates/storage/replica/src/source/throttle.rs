use braid_units::Rate;
use std::time::{Duration, Instant};

/// Keeps what leaves below a rate.
pub struct Throttle {
    rate: Rate,
    /// When all that left so far is paid for.
    paid: Instant,
}

/// After a pause so much may leave at once.
const BURST: Duration = Duration::from_millis(250);

impl Throttle {
    /// For this rate.
    pub fn new(rate: Rate) -> Throttle {
        Throttle { rate, paid: Instant::now() }
    }

    /// Waits until `bytes` may leave.
    pub fn pass(&mut self, bytes: usize) {
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.paid = self.paid.max(earliest) + self.rate.time_for(bytes as u64);
        if let Some(wait) = self.paid.checked_duration_since(now) {
            std::thread::sleep(wait);
        }
    }
}
