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
        std::thread::sleep(self.pay(bytes, Instant::now()));
    }

    /// How long `bytes` have to wait from `now` on. They count as passed afterwards.
    fn pay(&self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let mut paid = self.paid.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        *paid = (*paid).max(earliest) + rate.time_for(bytes as u64);
        paid.saturating_duration_since(now)
    }
}

impl Throttle {
    /// Bytes a second, where there is a bound.
    pub(crate) fn slowest(&self) -> Option<u64> {
        // Several connections share it.
        self.rate.map(|rate| rate.bytes_per_sec() / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1_000_000;

    fn throttle() -> (Throttle, Instant) {
        let throttle = Throttle::new(Some(Rate::from_bytes_per_sec(LIMIT)));
        let start = *throttle.paid.lock().unwrap();
        (throttle, start)
    }

    /// Bytes that connections pass in that time which send a piece as soon as the one before is
    /// through.
    fn passed(throttle: &Throttle, start: Instant, connections: usize, time: Duration) -> u64 {
        let mut next = vec![start; connections];
        let mut bytes = 0;
        loop {
            let first = next.iter_mut().min().unwrap();
            *first += throttle.pay(PIECE, *first);
            // A limit that doesn't hold is an end, too.
            if *first > start + time || bytes > 100 * LIMIT {
                return bytes;
            }
            bytes += PIECE as u64;
        }
    }

    #[test]
    fn one_connection_and_several_together_keep_to_the_rate() {
        for connections in [1, 4, 16] {
            let (throttle, start) = throttle();
            let bytes = passed(&throttle, start, connections, Duration::from_secs(30));
            let expected = 30 * LIMIT;
            assert!(bytes.abs_diff(expected) <= expected / 10, "{connections}: {bytes}");
        }
    }

    #[test]
    fn after_a_pause_no_more_passes_at_once_than_a_burst() {
        let (throttle, start) = throttle();
        let later = start + Duration::from_secs(3600);
        let second = Duration::from_secs(1);
        let bytes = passed(&throttle, later, 1, second);
        let expected = LIMIT + LIMIT * BURST.as_millis() as u64 / 1000;
        assert!(bytes.abs_diff(expected) <= expected / 10, "{bytes}");
        // Which isn't granted again without another pause.
        let bytes = passed(&throttle, later + second, 1, 30 * second);
        assert!(bytes.abs_diff(30 * LIMIT) <= 3 * LIMIT, "{bytes}");
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let throttle = Throttle::new(None);
        assert_eq!(throttle.pay(usize::MAX, Instant::now()), Duration::ZERO);
    }
}
