use super::rate_sample::RateSample;
use braid_units::Time;
use std::time::Duration;

/// What an acknowledgement says, in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckInfo {
    pub now: Time,
    /// Cumulatively acknowledged by it.
    pub acked: u32,
    /// Newly known to have arrived.
    pub newly_delivered: u64,
    /// Known to have arrived in all.
    pub delivered: u64,
    pub rtt: Option<Duration>,
    pub srtt: Duration,
    /// Newly taken for lost.
    pub lost: u64,
    pub in_flight: usize,
    pub sample: Option<RateSample>,
    /// Losses are being made good, and not after a timeout.
    pub recovering: bool,
}
