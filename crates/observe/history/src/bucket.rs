use serde::{Deserialize, Serialize};

/// One second of a series' data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Whether it worked.
    pub up: bool,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Sent packets that were lost.
    pub lost: u64,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
}

/// The sum over some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Observed seconds: fewer than the bucket's length if nothing ran for a while.
    pub seconds: u32,
    /// Observed seconds in which it worked.
    pub up_seconds: u32,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Sent packets that were lost.
    pub lost: u64,
    /// Sum of round-trip times over `rtt_count` seconds, microseconds.
    pub rtt_sum_us: u64,
    /// Seconds in which a round-trip time was known.
    pub rtt_count: u32,
    /// The longest round-trip time, microseconds.
    pub rtt_max_us: u32,
}

impl Bucket {
    /// Adds another bucket.
    pub fn add(&mut self, other: &Bucket) {
        self.seconds = self.seconds.saturating_add(other.seconds);
        self.up_seconds = self.up_seconds.saturating_add(other.up_seconds);
        self.rx_bytes = self.rx_bytes.saturating_add(other.rx_bytes);
        self.tx_bytes = self.tx_bytes.saturating_add(other.tx_bytes);
        self.sent = self.sent.saturating_add(other.sent);
        self.lost = self.lost.saturating_add(other.lost);
        self.rtt_sum_us = self.rtt_sum_us.saturating_add(other.rtt_sum_us);
        self.rtt_count = self.rtt_count.saturating_add(other.rtt_count);
        self.rtt_max_us = self.rtt_max_us.max(other.rtt_max_us);
    }

    /// Mean round-trip time, ms.
    pub fn rtt_ms(&self) -> Option<f64> {
        let count = (self.rtt_count > 0).then_some(f64::from(self.rtt_count))?;
        Some(self.rtt_sum_us as f64 / count / 1e3)
    }

    /// Share of sent packets that were lost, 0 to 1; `None` if none was sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| (self.lost as f64 / self.sent as f64).min(1.0))
    }

    /// Share of the observed time in which it worked, 0 to 1.
    pub fn up_share(&self) -> Option<f64> {
        (self.seconds > 0).then(|| f64::from(self.up_seconds) / f64::from(self.seconds))
    }
}

impl From<Sample> for Bucket {
    fn from(sample: Sample) -> Bucket {
        Bucket {
            seconds: 1,
            up_seconds: u32::from(sample.up),
            rx_bytes: sample.rx_bytes,
            tx_bytes: sample.tx_bytes,
            sent: sample.sent,
            lost: sample.lost,
            rtt_sum_us: sample.rtt_us.map_or(0, u64::from),
            rtt_count: u32::from(sample.rtt_us.is_some()),
            rtt_max_us: sample.rtt_us.unwrap_or(0),
        }
    }
}
