//! What a path has delivered and when: the rates that its model is made of.

use braid_units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Deliveries kept for rate measurement: one an acknowledgement, so 2 s at the shortest
/// feedback interval.
const HISTORY: usize = 2048;
/// A rate over a span is believed when arrivals cover one part in this of it. Ours; not
/// measured apart.
const COVERED: u32 = 2;
/// Arrivals spread over no more than this times the time in which they were sent arrived
/// with the spacing they were sent with: nothing on the way was too narrow for them. Ours; not
/// measured apart.
const KEPT_SPACING: f64 = 1.1;

/// How much had been delivered at a moment.
#[derive(Clone, Copy, Debug)]
pub struct DeliverySample {
    /// Receive time, peer's clock.
    pub at_us: i64,
    /// When the newest of them was sent, our clock.
    pub sent_at: Time,
    /// Bytes delivered by then.
    pub bytes: u64,
    /// The least queue since the entry before.
    pub queue: Duration,
}

impl DeliverySample {
    /// How long before `later` it arrived, by the peer's clock; `None` if it didn't.
    pub fn arrived_before(&self, later: &DeliverySample) -> Option<Duration> {
        let micros = u64::try_from(later.at_us - self.at_us).ok().filter(|&micros| micros > 0)?;
        Some(Duration::from_micros(micros))
    }

    /// This one and `later` arrived with the spacing they were sent with, but for `slack`.
    pub fn kept_spacing(&self, later: &DeliverySample, slack: Duration) -> bool {
        let most = (later.sent_at - self.sent_at).mul_f64(KEPT_SPACING) + slack;
        self.arrived_before(later).is_none_or(|arrived| arrived <= most)
    }
}

/// The last ones, oldest first.
#[derive(Debug, Default)]
pub struct Deliveries(VecDeque<DeliverySample>);

impl Deliveries {
    /// Takes the newest one in.
    pub fn push(&mut self, delivery: DeliverySample) {
        // First, or the memory for one more would double it.
        if self.0.len() >= HISTORY {
            self.0.pop_front();
        }
        self.0.push_back(delivery);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The newest one.
    pub fn last(&self) -> Option<&DeliverySample> {
        self.0.back()
    }

    /// The newest one, and the oldest since which there was a queue longer than
    /// `least` all the time, at most `span` before it.
    pub fn busy(
        &self,
        span: Duration,
        least: Duration,
    ) -> Option<(DeliverySample, DeliverySample)> {
        let last = *self.0.back()?;
        let span_us = span.as_micros() as i64;
        let busy = self.0.iter().rev();
        let first =
            busy.take_while(|d| d.queue > least && last.at_us - d.at_us <= span_us).last()?;
        Some((*first, last))
    }

    /// The rate of arrivals over the last `span` of the peer's clock.
    pub fn arrival_rate(&self, span: Duration) -> Option<Rate> {
        let (first, last) = self.lately(span)?;
        let elapsed = first.arrived_before(&last)?;
        if elapsed * COVERED < span {
            return None;
        }
        Rate::from_bytes_in(last.bytes - first.bytes, elapsed)
    }

    /// The rate of what was sent and arrived in `span`, not less than that; the
    /// lower of both, so that a burst that jitter pressed together is no rate
    /// (draft-cheng-iccrg-delivery-rate-estimation).
    pub fn rising_rate(&self, span: Duration) -> Option<Rate> {
        let (first, last) = self.lately(span)?;
        let sent_within = last.sent_at - first.sent_at;
        let arrived_within = first.arrived_before(&last)?;
        if sent_within.min(arrived_within) < span {
            return None;
        }
        Rate::from_bytes_in(last.bytes - first.bytes, sent_within.max(arrived_within))
    }

    /// The rate at which what arrived in the last `span` was sent.
    pub fn sent_rate(&self, span: Duration) -> Option<Rate> {
        let (first, last) = self.lately(span)?;
        Rate::from_bytes_in(last.bytes - first.bytes, last.sent_at - first.sent_at)
    }

    /// Over the last `span` packets arrived with the spacing they were sent with, but for
    /// `slack`.
    pub fn kept_spacing(&self, span: Duration, slack: Duration) -> bool {
        self.lately(span).is_none_or(|(first, last)| first.kept_spacing(&last, slack))
    }

    /// The newest delivery, and the newest one at least `span` before it, or the
    /// oldest known.
    fn lately(&self, span: Duration) -> Option<(DeliverySample, DeliverySample)> {
        let last = *self.0.back()?;
        let span_us = span.as_micros() as i64;
        let before = self.0.iter().rev().find(|d| last.at_us - d.at_us >= span_us);
        Some((*before.or_else(|| self.0.front())?, last))
    }
}
