//! What a path asks of its congestion control.

use braid_units::{Rate, Time};
use std::time::Duration;

/// Congestion control of one path: told what acknowledgements say, asked how
/// fast to send and how much may be in flight.
///
/// Getters are asked with every datagram, so implementations answer them from
/// what they worked out when something changed.
pub trait Controller: std::fmt::Debug {
    /// An acknowledgement told of newly received packets.
    fn on_ack(&mut self, ack: &AckSample);

    /// The path works again after an outage.
    fn on_return(&mut self, now: Time);

    /// The path leads over another network now: what was learnt of the way back
    /// no longer holds.
    fn on_path_moved(&mut self);

    /// The path has been idle: memory that says nothing of it any more is freed.
    fn on_idle(&mut self);

    /// A call runs beside what else is sent, or no longer.
    fn set_beside_call(&mut self, beside: bool);

    /// Sets or removes the user's limit.
    fn set_cap(&mut self, cap: Option<Rate>);

    /// The size of the path's datagrams, in bytes of UDP payload.
    fn set_datagram(&mut self, bytes: u64);

    /// The rate at which to send now.
    fn pacing_rate(&self) -> Rate;

    /// How many bytes may be in flight.
    fn window(&self) -> u64;

    /// The bottleneck's rate as far as known, the cap counted.
    fn bandwidth(&self) -> Rate;

    /// The queueing delay that the last packets met.
    fn queue(&self) -> Duration;

    /// The least one-way delay of late, in microseconds of the difference of
    /// both ends' clocks; `None` before the first sample.
    fn base_delay_us(&self) -> Option<i64>;

    /// The capacity is being looked for for the first time.
    fn in_startup(&self) -> bool;

    /// The capacity changes all the time, and is followed.
    fn is_tracking(&self) -> bool;

    /// The mean change of the queue, from round to round, that what was sent
    /// doesn't explain.
    fn queue_innovation(&self) -> Duration;
}

/// What an acknowledgement told of a path.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Now.
    pub now: Time,
    /// Bytes that the path has delivered, with this acknowledgement.
    pub delivered: u64,
    /// `delivered` when the newest acknowledged packet was sent.
    pub delivered_before: u64,
    /// Receive time of the newest acknowledged packet, peer's clock, unwrapped.
    pub received_us: i64,
    /// When the newest acknowledged packet was sent.
    pub sent_at: Time,
    /// The sender had less to send than allowed when that packet left.
    pub app_limited: bool,
    /// Least one-way delay among this acknowledgement's samples (any constant
    /// offset).
    pub min_delay_us: i64,
    /// Their sum above that least one.
    pub delay_above_min_us: i64,
    /// How many samples.
    pub delay_samples: u32,
    /// The span over which the way there spreads delays by chance.
    pub forward_span: Duration,
    /// How long the acknowledgement took from the peer to us (the same offset,
    /// negative), if it was the first to tell of its newest packet.
    pub back_us: Option<i64>,
    /// Bytes newly taken for lost.
    pub lost: u64,
    /// Runs of packets newly taken for lost.
    pub loss_runs: u32,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// Least round-trip time lately.
    pub base_rtt: Duration,
    /// The feedback interval.
    pub feedback: Duration,
}
