use braid_units::Rate;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Limits the total rate of all connections.
pub(crate) struct Throttle {
    rate: Option<Rate>,
    /// When all that passed so far is paid for.
    paid: Mutex<Instant>,
}

/// After a pause so much may pass at once.
const BURST: Duration = Duration::from_millis(250);
/// So much is passed at a time.
pub(crate) const PIECE: usize = 64 * 1024;

impl Throttle {
    pub(crate) fn new(rate: Option<Rate>) -> Throttle {
        Throttle { rate, paid: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` may pass.
    pub(crate) fn pass(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        let until = {
            let mut paid = self.paid.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            *paid = (*paid).max(earliest) + rate.time_for(bytes as u64);
            *paid
        };
        if let Some(wait) = until.checked_duration_since(now) {
            std::thread::sleep(wait);
        }
    }
}

impl Throttle {
    /// Bytes a second, where there is a bound.
    pub(crate) fn slowest(&self) -> Option<u64> {
        // Several connections share it.
        self.rate.map(|rate| rate.bytes_per_sec() / 8)
    }
}
