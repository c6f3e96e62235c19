//! What the acknowledgements of one round trip tell together.

use super::controller::AckSample;
use braid_units::Time;
use std::time::Duration;

/// A round trip shorter than this is no measure: on a busy machine the delays
/// of both ends' scheduling exceed it. Ours; not measured apart.
pub const SHORTEST_ROUND: Duration = Duration::from_millis(10);
/// Loss in a round of so much more than the path loses anyway, in so many runs, means a
/// buffer too short to show a queue. BBRv3 has 2 % of all, and six runs
/// (`BBRLossThresh`, `BBRStartupFullLossCnt`; draft-ietf-ccwg-bbr, section 2.10); links here
/// lose more by themselves, and some of them many packets at a time.
const SHALLOW_LOSS: f64 = 0.10;
const SHALLOW_RUNS: u32 = 4;
/// So few datagrams lost in a round tell nothing of a share: one of each of the runs.
const FEW_LOST: u64 = SHALLOW_RUNS as u64;
/// So much does, however it's spread: no link that is of use loses that much by itself. Ours.
const HEAVY_LOSS: f64 = 0.25;

/// Whether a buffer too short to show a queue has overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    None,
    /// Unless the link loses that much by itself.
    Likely,
    Sure,
}

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
    loss_runs: u32,
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
            loss_runs: 0,
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
        self.loss_runs += ack.loss_runs;
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

    /// Bytes that were taken for lost in it.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether so much was lost that the link's buffer must be too short to show a queue;
    /// `usual` is the share that it loses anyway.
    pub fn overflow(&self, ack: &AckSample, datagram: u64, usual: f64) -> Overflow {
        let share = self.lost as f64 / (self.arrived(ack) + self.lost).max(1) as f64;
        if self.lost <= FEW_LOST * datagram {
            Overflow::None
        } else if share > HEAVY_LOSS {
            Overflow::Sure
        } else if self.loss_runs >= SHALLOW_RUNS && share > SHALLOW_LOSS + usual {
            Overflow::Likely
        } else {
            Overflow::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DATAGRAM: u64 = 1000;

    /// A round in which so many datagrams arrived, and others were lost in so many runs.
    fn overflow(arrived: u64, lost: u64, loss_runs: u32, usual: f64) -> Overflow {
        let ack = AckSample {
            now: Time::from_millis(1100),
            delivered: arrived * DATAGRAM,
            delivered_before: 0,
            received_us: 0,
            sent_at: Time::from_millis(1000),
            app_limited: false,
            min_delay_us: 0,
            delay_above_min_us: 0,
            delay_samples: 1,
            forward_span: Duration::ZERO,
            back_us: None,
            lost: lost * DATAGRAM,
            loss_runs,
            in_flight: 0,
            base_rtt: Duration::from_millis(100),
            feedback: Duration::from_millis(10),
        };
        let mut round = Round::begin(Time::from_millis(1000), 0);
        round.on_ack(&ack);
        round.overflow(&ack, DATAGRAM, usual)
    }

    #[test]
    fn a_buffer_overflows_when_more_is_lost_than_usual_and_not_all_at_a_time() {
        assert_eq!(overflow(80, 15, 8, 0.0), Overflow::Likely);
        assert_eq!(overflow(80, 15, 8, 0.07), Overflow::None, "it always loses some");
        assert_eq!(overflow(80, 15, 2, 0.0), Overflow::None, "two bursts");
        assert_eq!(overflow(60, 40, 2, 0.07), Overflow::Sure);
        assert_eq!(overflow(4, 4, 4, 0.0), Overflow::None, "too few to tell");
    }
}
