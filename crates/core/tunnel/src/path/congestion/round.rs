//! What the acknowledgements of one round trip tell together.

use super::controller::AckSample;
use braid_units::Time;
use std::time::Duration;

/// A round trip shorter than this is no measure: on a busy machine the delays
/// of both ends' scheduling exceed it.
pub const SHORTEST_ROUND: Duration = Duration::from_millis(10);
/// Loss above this in a round, with fewer bytes arriving than sent, means a
/// buffer too short to show a queue (BBRv3 uses 2 %; links here lose more by
/// themselves).
const SHALLOW_LOSS: f64 = 0.10;

/// A round trip under way: it ends with the acknowledgement of what was sent
/// after its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    began: Time,
    /// What the path had delivered then.
    delivered_before: u64,
    least_delay_us: Option<i64>,
    /// The first acknowledgement's least delay, which the others are summed above.
    reference_us: i64,
    above_reference_us: i64,
    delay_samples: u32,
    lost: u64,
    app_limited: bool,
}

impl Round {
    /// One that begins now; the path has delivered so many bytes.
    pub fn begin(now: Time, delivered: u64) -> Self {
        Self {
            began: now,
            delivered_before: delivered,
            least_delay_us: None,
            reference_us: 0,
            above_reference_us: 0,
            delay_samples: 0,
            lost: 0,
            app_limited: false,
        }
    }

    /// As at the beginning, from now on.
    pub fn begin_again(&self, now: Time) -> Self {
        Self::begin(now, self.delivered_before)
    }

    /// Takes an acknowledgement's news in.
    pub fn on_ack(&mut self, ack: &AckSample) {
        if self.delay_samples == 0 {
            self.reference_us = ack.min_delay_us;
        }
        let above = ack.min_delay_us - self.reference_us;
        self.above_reference_us += above * i64::from(ack.delay_samples) + ack.delay_above_min_us;
        self.delay_samples += ack.delay_samples;
        let least = self.least_delay_us.unwrap_or(ack.min_delay_us);
        self.least_delay_us = Some(least.min(ack.min_delay_us));
        self.lost += ack.lost;
        self.app_limited |= ack.app_limited;
    }

    /// This acknowledgement is of what was sent after the beginning.
    pub fn ends_with(&self, ack: &AckSample) -> bool {
        ack.delivered_before >= self.delivered_before && self.length(ack) >= SHORTEST_ROUND
    }

    /// How long it has taken.
    pub fn length(&self, ack: &AckSample) -> Duration {
        ack.now - self.began
    }

    /// Bytes that have arrived in it.
    pub fn arrived(&self, ack: &AckSample) -> u64 {
        ack.delivered.saturating_sub(self.delivered_before)
    }

    /// The least one-way delay in it, microseconds (any constant offset).
    pub fn least_delay_us(&self) -> Option<i64> {
        self.least_delay_us
    }

    /// Mean of its delays above the least, if there was more than one.
    pub fn jitter(&self) -> Option<Duration> {
        let least = self.least_delay_us.filter(|_| self.delay_samples > 1)?;
        let mean = self.above_reference_us / i64::from(self.delay_samples) + self.reference_us;
        Some(Duration::from_micros(u64::try_from(mean - least).unwrap_or(0)))
    }

    /// How many delays were seen in it.
    pub fn delay_samples(&self) -> u32 {
        self.delay_samples
    }

    /// The sender had at times less to send than allowed.
    pub fn app_limited(&self) -> bool {
        self.app_limited
    }

    /// So much was lost that the link's buffer must be too short to show a queue.
    pub fn overflows(&self, ack: &AckSample, datagram: u64) -> bool {
        let sent = self.arrived(ack) + self.lost;
        self.lost > 4 * datagram && self.lost as f64 > SHALLOW_LOSS * sent as f64
    }
}
