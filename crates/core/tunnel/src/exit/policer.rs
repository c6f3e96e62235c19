use braid_units::{Rate, Time};
use std::time::Duration;

/// What may come at once, as time at the rate: packets that were repaired come together. Ours.
const BURST: Duration = Duration::from_millis(250);

/// What measures otherwise may be above the rate by one part in this. Ours.
const TOLERANCE_DIVISOR: u64 = 8;

/// Lets no more through than a rate, and drops what is above it: for peers that were told of the
/// rate and don't keep to it.
#[derive(Clone, Copy, Debug)]
pub struct Policer {
    rate: Rate,
    /// When all that has passed would have passed at just this rate.
    due: Time,
}

impl Policer {
    /// For a peer that was told of this rate.
    pub fn of_told(rate: Rate) -> Self {
        let bytes = rate.bytes_per_sec();
        Self {
            rate: Rate::from_bytes_per_sec(bytes.saturating_add(bytes / TOLERANCE_DIVISOR)),
            due: Time::ZERO,
        }
    }

    /// Whether a packet of so many bytes passes.
    pub fn passes(&mut self, bytes: u64, now: Time) -> bool {
        let due = self.due.max(now.saturating_sub(BURST));
        let passes = due <= now;
        if passes {
            self.due = due + self.rate.time_for(bytes);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_to_the_rate_passes_and_what_does_not_is_cut_to_it() {
        let passed = |mbit: u64| -> u64 {
            let mut policer = Policer::of_told(Rate::from_mbit(8));
            let each = Rate::from_mbit(mbit).time_for(1250);
            let mut now = Time::from_millis(1000);
            let end = now + Duration::from_secs(10);
            let mut bytes = 0;
            while now < end {
                bytes += if policer.passes(1250, now) { 1250 } else { 0 };
                now += each;
            }
            bytes
        };
        // 8 Mbit/s for 10 s are 10 MB.
        assert!((9_990_000..=10_010_000).contains(&passed(8)), "{}", passed(8));
        assert!((11_000_000..11_800_000).contains(&passed(100)), "{}", passed(100));
    }
}
