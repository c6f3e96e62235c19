//! The bottleneck's rate, from what arrived when.

use super::controller::AckSample;
use super::deliveries::{Deliveries, DeliverySample};
use super::round::{Round, SHORTEST_ROUND};
use super::signals::Signals;
use braid_units::{Rate, Time};
use std::time::Duration;

/// Before anything is known: a slow 3G link. Ours; startup doubles it each round.
const INITIAL_RATE: Rate = Rate::from_bits_per_sec(1_500_000);
/// An estimate never falls below this, or nothing would show that it's wrong:
/// two datagrams of 1500 bytes a second. Ours.
const MIN_RATE: Rate = Rate::from_bits_per_sec(24_000);
/// After an outage a path begins with this part of what it carried. Ours; not measured apart.
const RETURNED: f64 = 0.5;
/// One measurement lowers the estimate to this part at the most: a noisy one
/// must not halve a good estimate twice. Ours; not measured apart.
const LEAST_OF_BEFORE: f64 = 0.3;
/// A sender that sends less than this part of the estimate can't be building a
/// queue. Ours; not measured apart.
const UNHURRIED: f64 = 0.9;
/// On a short link without jitter, delays differ by less than this within a
/// round, what a changing queue adds included. Ours; not measured apart.
const STEADY: Duration = Duration::from_millis(3);
/// In startup the rate is measured over this part of a round trip: it doubles in a whole
/// one.
const RISING_DIVISOR: u32 = 2;
/// What had to queue for one part in this of the queue's target was held up by the link. Ours.
const BUSY_DIVISOR: u32 = 2;
/// Arrivals under a queue tell the rate when they span this part of a round
/// trip and so many datagrams: fewer may all have come at once, by jitter. Ours; not measured
/// apart.
const BUSY_ROUND_TRIPS: (u32, u32) = (1, 3);
const BUSY_DATAGRAMS: u64 = 8;
/// How soon the estimate of a tracked link is forgotten when less arrives: links
/// that stood still for some hundred milliseconds mostly go on as before (commit 7fc9a9ba: as
/// part of tracking, 54 to 60 % and 71 to 78 % of recorded LTE and 3G links).
const TRACKING_MEMORY: Duration = Duration::from_millis(400);

/// The estimate and what it's made of.
#[derive(Debug)]
pub struct Estimator {
    bandwidth: Rate,
    deliveries: Deliveries,
    /// The last acknowledgement while the link was tracked.
    tracked_at: Time,
}

impl Estimator {
    pub fn new() -> Self {
        Self { bandwidth: INITIAL_RATE, deliveries: Deliveries::default(), tracked_at: Time::ZERO }
    }

    /// The estimate.
    pub fn bandwidth(&self) -> Rate {
        self.bandwidth
    }

    /// The rate to send at for this gain, never so low that nothing is learnt.
    pub fn scaled(&self, gain: f64) -> Rate {
        self.bandwidth.scaled(gain).max(MIN_RATE)
    }

    /// Packets arrived. Returns bytes and time of sending since the report
    /// before, if there was one.
    pub fn on_ack(&mut self, ack: &AckSample, queue: Duration) -> Option<(u64, Duration)> {
        let delivery = DeliverySample {
            at_us: ack.received_us,
            sent_at: ack.sent_at,
            bytes: ack.delivered,
            queue,
        };
        let since = self.deliveries.last().map(|before| {
            (delivery.bytes.saturating_sub(before.bytes), delivery.sent_at - before.sent_at)
        });
        self.deliveries.push(delivery);
        since
    }

    /// In startup the estimate rises with each report.
    pub fn rise(&mut self, base_rtt: Duration) {
        let rising = self.deliveries.rising_rate(base_rtt / RISING_DIVISOR).unwrap_or(Rate::ZERO);
        self.raise(rising);
    }

    /// Not less than what was measured.
    pub fn raise(&mut self, measured: Rate) {
        self.bandwidth = self.bandwidth.max(measured);
    }

    /// The rate of arrivals over a span, not less than a round trip.
    pub fn arrival_rate(&self, span: Duration, base_rtt: Duration) -> Option<Rate> {
        self.deliveries.arrival_rate(span.max(base_rtt))
    }

    /// What arrived did so with the spacing it was sent with, but for `slack`.
    pub fn kept_spacing(&self, span: Duration, slack: Duration) -> bool {
        self.deliveries.kept_spacing(span, slack)
    }

    /// A tracked link: the estimate is what arrived within the last round trip, or
    /// what remains of a higher one.
    pub fn track(&mut self, ack: &AckSample, signals: &Signals, queue_target: Duration) {
        let elapsed = ack.now - self.tracked_at;
        self.tracked_at = ack.now;
        let span = signals.base_rtt + signals.feedback;
        let Some(arrived) = self.deliveries.arrival_rate(span) else { return };
        // What arrives of a trickle says nothing, unless it had to queue.
        let says = !ack.app_limited || signals.queue() > queue_target;
        if arrived > self.bandwidth {
            self.bandwidth = arrived;
        } else if says {
            let kept = (-elapsed.as_secs_f64() / TRACKING_MEMORY.as_secs_f64()).exp();
            let mixed = self.bandwidth.scaled(kept).saturating_add(arrived.scaled(1.0 - kept));
            self.bandwidth = mixed.max(MIN_RATE);
        }
    }

    /// The link is busy: what arrived within `over` is what it can take.
    pub fn on_busy(
        &mut self,
        over: Duration,
        signals: &Signals,
        round: &Round,
        queue_target: Duration,
        datagram: u64,
    ) {
        // What arrives of a trickle says nothing, unless it had to queue.
        let measured =
            self.busy_rate(over, signals.base_rtt, queue_target, datagram).or_else(|| {
                self.deliveries
                    .arrival_rate(over)
                    .filter(|rate| !round.app_limited() || *rate > self.bandwidth)
            });
        // Nor does what arrived with the spacing it was sent with, if less was sent than the
        // link is known to take: the delay was jitter. Where there is no jitter, the link takes
        // less than was thought.
        let jittery = signals.base_rtt >= SHORTEST_ROUND || signals.jitter() > STEADY;
        let unhurried = jittery
            && self.deliveries.kept_spacing(over, Duration::ZERO)
            && self
                .deliveries
                .sent_rate(over)
                .is_some_and(|sent| sent < self.bandwidth.scaled(UNHURRIED));
        if let Some(rate) = measured.filter(|rate| !unhurried || *rate > self.bandwidth) {
            self.bandwidth = rate.max(self.bandwidth.scaled(LEAST_OF_BEFORE)).max(MIN_RATE);
        }
    }

    /// A few packets that queued behind each other are too few to show what the link can take
    /// at best, but it takes no more than the rate at which they arrived. What arrived with the
    /// spacing it was sent with, but for `slack`, didn't queue.
    pub fn on_train(&mut self, span: Duration, queue_target: Duration, slack: Duration) {
        let busy = self.deliveries.busy(span, queue_target / BUSY_DIVISOR);
        let busy = busy.filter(|(first, last)| !first.kept_spacing(last, slack));
        let rate = busy.and_then(|(first, last)| {
            Rate::from_bytes_in(last.bytes - first.bytes, first.arrived_before(&last)?)
        });
        if let Some(rate) = rate.filter(|rate| *rate > Rate::ZERO) {
            self.bandwidth = self.bandwidth.min(rate).max(MIN_RATE);
        }
    }

    /// After an outage: begins carefully from what it was.
    pub fn on_return(&mut self) {
        self.bandwidth = self.scaled(RETURNED);
        self.deliveries.clear();
    }

    /// Frees memory.
    pub fn on_idle(&mut self) {
        self.deliveries = Deliveries::default();
    }

    /// The rate of arrivals while there was a queue all the time, up to now and
    /// over at most `span`; `None` if that wasn't long enough to tell.
    fn busy_rate(
        &self,
        span: Duration,
        base_rtt: Duration,
        queue_target: Duration,
        datagram: u64,
    ) -> Option<Rate> {
        let (first, last) = self.deliveries.busy(span, queue_target / BUSY_DIVISOR)?;
        let elapsed = first.arrived_before(&last)?;
        let (part, whole) = BUSY_ROUND_TRIPS;
        let bytes = last.bytes - first.bytes;
        if elapsed < base_rtt * part / whole || bytes < BUSY_DATAGRAMS * datagram {
            return None;
        }
        Rate::from_bytes_in(bytes, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Duration = Duration::from_millis(50);
    const TARGET: Duration = Duration::from_millis(10);

    /// Ten packets, sent so far apart, that arrived so far apart, each after a delay that
    /// looks like a queue.
    fn after_train(bytes: u64, sent_ms: u64, arrived_ms: i64, slack_ms: u64) -> Rate {
        let mut estimator = Estimator::new();
        for number in 0..10 {
            estimator.deliveries.push(DeliverySample {
                at_us: number as i64 * arrived_ms * 1000,
                sent_at: Time::from_millis(1000 + number * sent_ms),
                bytes: number * bytes,
                queue: QUEUE,
            });
        }
        estimator.on_train(Duration::from_secs(2), TARGET, Duration::from_millis(slack_ms));
        estimator.bandwidth()
    }

    #[test]
    fn packets_that_queued_show_a_slow_link_and_pings_that_jitter_delayed_do_not() {
        assert!(after_train(1400, 3, 40, 100) < Rate::from_bits_per_sec(300_000));
        assert_eq!(after_train(100, 100, 100, 0), INITIAL_RATE);
        assert_eq!(after_train(100, 100, 110, 140), INITIAL_RATE);
    }
}
