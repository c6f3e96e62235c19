//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation), in
//! segments.

use braid_units::Time;
use std::time::Duration;

/// What a segment remembers of the connection when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendState {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    sent_at: Time,
    pub lost: u64,
    pub in_flight: u64,
    limited: bool,
}

/// What the acknowledgement of a segment says of the path's rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSample {
    /// Segments a second; `None` if the interval was too short to tell.
    pub rate: Option<f64>,
    /// Segments delivered in all when the acknowledged one was sent.
    pub prior_delivered: u64,
    /// Delivered between then and now.
    pub delivered: u64,
    /// Taken for lost between then and now.
    pub lost: u64,
    /// In flight when it was sent.
    pub tx_in_flight: u64,
    /// It was sent while the sender kept itself below what the path may carry, so the rate
    /// says nothing of the path unless it's higher than what is known.
    pub limited: bool,
}

/// Counts what is delivered.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost: u64,
    /// What is sent until so much is delivered is sent by a sender that limits itself.
    limited_until: Option<u64>,
    newest: Option<SendState>,
}

impl DeliveryRate {
    /// Segments delivered in all.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A segment leaves while `in_flight` others are on their way.
    pub fn on_sent(&mut self, in_flight: usize, now: Time) -> SendState {
        if in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        SendState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            sent_at: now,
            lost: self.lost,
            in_flight: in_flight as u64 + 1,
            limited: self.limited_until.is_some(),
        }
    }

    /// The sender limits itself (`tcp_sock.app_limited` of Linux, which BBR sets when it
    /// probes for the round trip): so do all that is sent until what is in flight is delivered.
    pub fn limit(&mut self, in_flight: usize) {
        self.limited_until = Some(self.delivered + in_flight as u64);
    }

    /// A segment was acknowledged for the first time.
    pub fn on_delivered(&mut self, state: SendState, now: Time) {
        self.delivered += 1;
        self.delivered_at = now;
        self.limited_until = self.limited_until.filter(|until| self.delivered <= *until);
        let newer =
            |old: SendState| (state.delivered, state.sent_at) > (old.delivered, old.sent_at);
        if self.newest.is_none_or(newer) {
            self.newest = Some(state);
            self.first_sent_at = state.sent_at;
        }
    }

    /// So many segments were taken for lost.
    pub fn on_lost(&mut self, segments: u64) {
        self.lost += segments;
    }

    /// What the acknowledgement just read says; `None` if it acknowledged nothing
    /// new.
    pub fn sample(&mut self, least_rtt: Duration) -> Option<RateSample> {
        let state = self.newest.take()?;
        let sent_within = state.sent_at - state.first_sent_at;
        let acked_within = self.delivered_at - state.delivered_at;
        let interval = sent_within.max(acked_within);
        let delivered = self.delivered - state.delivered;
        // An interval below the least round trip is the work of offloads.
        let sure = interval >= least_rtt && !interval.is_zero();
        Some(RateSample {
            rate: sure.then(|| delivered as f64 / interval.as_secs_f64()),
            prior_delivered: state.delivered,
            delivered,
            lost: self.lost - state.lost,
            tx_in_flight: state.in_flight,
            limited: state.limited,
        })
    }
}
