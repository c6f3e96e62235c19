use super::{Lane, TrafficKind};
use std::time::Duration;

/// What became of one flow.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// What it was.
    pub kind: TrafficKind,
    /// Where it went.
    pub lane: Lane,
    /// Segments put into the tunnel in the flow's direction, and back.
    pub sent: [u64; 2],
    /// Of these, what came out, once each.
    pub delivered: [u64; 2],
    /// Segments that came out again.
    pub duplicates: u64,
    /// Segments that came out after later ones.
    pub reordered: u64,
    /// Payload bytes that the receiver got (TCP: in order) in each 100 ms.
    pub tenths: Vec<u64>,
    /// The longest time between two deliveries while it ran, after its first
    /// second.
    pub longest_stall: Duration,
    /// When there was a delivery, ascending.
    pub delivery_times: Vec<Duration>,
    /// Round-trip times of pings, or delays of packets one way.
    pub delays: Vec<Duration>,
    /// Segments that TCP sent again.
    pub retransmissions: u64,
    /// Timeouts of TCP.
    pub timeouts: u64,
    /// Times that TCP cut its window for losses.
    pub cuts: u64,
    /// TCP's window in segments, now.
    pub window: usize,
}

impl FlowOutcome {
    /// Payload bytes between two moments, in steps of 100 ms.
    pub fn bytes_between(&self, from: Duration, to: Duration) -> u64 {
        let index = |at: Duration| ((at.as_millis() / 100) as usize).min(self.tenths.len());
        let (from, to) = (index(from), index(to));
        self.tenths[from.min(to)..to].iter().sum()
    }

    /// Megabits a second of payload between two moments.
    pub fn mbit(&self, from: Duration, to: Duration) -> f64 {
        self.bytes_between(from, to) as f64 * 8e-6 / (to - from).as_secs_f64().max(1e-9)
    }

    /// Segments in the flow's direction, and back, that never came out.
    pub fn lost(&self) -> u64 {
        self.sent[0] + self.sent[1] - self.delivered[0] - self.delivered[1]
    }

    /// The delay that `share` of all stay below.
    pub fn delay_percentile(&self, share: f64) -> Option<Duration> {
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        let index = (sorted.len() as f64 * share) as usize;
        sorted.get(index.min(sorted.len().saturating_sub(1))).copied()
    }

    /// The first delivery at or after `moment`.
    pub fn first_delivery_after(&self, moment: Duration) -> Option<Duration> {
        let index = self.delivery_times.partition_point(|&at| at < moment);
        self.delivery_times.get(index).copied()
    }
}
