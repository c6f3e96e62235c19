//! When what is given to a path now would arrive.

use super::congestion::Controller;
use super::rtt::RoundTrip;
use braid_units::Time;

/// Of a path without any delay sample: far behind every other.
const UNKNOWN_DELAY_US: i64 = i64::MAX / 4;

/// Half of the round trip's variation, and of the last queue seen, is reckoned with. Ours; not
/// measured apart.
const HALF: u32 = 2;
/// Times at a rate are kept for so many bytes, a power of two: for one they would be rounded.
const KIB_SHIFT: u32 = 10;

/// The estimate's parts: worked out with every acknowledgement, as each datagram
/// asks each path for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalEstimate {
    /// One way, without a queue, on the scale of all paths.
    delay_us: i64,
    /// There and back, without a queue.
    base_nanos: u64,
    /// What waits in the link.
    queue_nanos: u64,
    nanos_per_kib: u64,
}

impl ArrivalEstimate {
    /// From the models as they are.
    pub fn new(congestion: &impl Controller, rtt: &RoundTrip) -> Self {
        let delay = congestion.base_delay_us().unwrap_or(UNKNOWN_DELAY_US);
        let variation = (rtt.variation() / HALF).as_micros() as i64;
        Self {
            delay_us: delay.saturating_add(variation),
            base_nanos: rtt.base().as_nanos() as u64,
            queue_nanos: (congestion.queue() / HALF).as_nanos() as u64,
            nanos_per_kib: congestion.bandwidth().time_for(1 << KIB_SHIFT).as_nanos() as u64,
        }
    }

    /// When `bytes` more would arrive at the peer, behind `in_flight` others and
    /// not sent before `free_at`: microseconds of a scale that all paths of a peer
    /// share.
    pub fn at_us(&self, bytes: u64, in_flight: u64, free_at: Time, now: Time) -> i64 {
        let ahead = self.nanos_for(in_flight + bytes);
        let queue = ahead.saturating_sub(self.base_nanos).max(self.queue_nanos);
        let pacing = free_at.as_nanos().saturating_sub(now.as_nanos());
        let wait = queue.max(pacing).saturating_add(self.nanos_for(bytes));
        self.delay_us.saturating_add((now.as_nanos().saturating_add(wait) / 1000) as i64)
    }

    fn nanos_for(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.nanos_per_kib) >> KIB_SHIFT
    }
}
