use super::Fetch;
use super::statistics::{Bins, Percentiles};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The receivers' observations of one traffic; what doesn't apply to its kind is `None`.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Payload delivered to the application over time.
    pub delivered: Option<Bins>,
    /// The worst flow's longest time without new data between its first byte and its end; the whole
    /// time if it received nothing.
    pub longest_stall: Option<Duration>,
    /// Echo requests and their answers.
    pub pings: Option<Pings>,
    /// Numbered datagrams.
    pub datagrams: Option<Datagrams>,
    /// Calls.
    pub voice: Option<Voice>,
    /// Objects that were received completely.
    pub fetches: Option<Vec<Fetch>>,
    /// Load times of whole pages, in ms.
    pub pages_ms: Option<Vec<f64>>,
}

/// Echo requests and their answers.
#[derive(Clone, Debug, Default)]
pub struct Pings {
    /// Seconds from the start until the request was sent, and the round-trip time in ms.
    pub answered: Vec<(f64, f64)>,
    /// Requests sent.
    pub sent: u64,
}

impl Pings {
    /// Requests that were never answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered.len() as u64)
    }

    /// Percentiles of the round-trip times in ms.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let trips: Vec<f64> = self.answered.iter().map(|(_, ms)| *ms).collect();
        Percentiles::of(&trips)
    }
}

/// The results of numbered datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Datagrams sent.
    pub sent: u64,
    /// Distinct datagrams that arrived.
    pub received: u64,
    /// Datagrams that arrived after a later one.
    pub reordered: u64,
    /// Datagrams that arrived again.
    pub duplicates: u64,
    /// Interarrival jitter in ms (RFC 3550, section 6.4.1), the worst flow's.
    pub jitter_ms: f64,
}

impl Datagrams {
    /// Share of sent datagrams that never arrived; 1 if none could be sent.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.sent.saturating_sub(self.received) as f64 / self.sent as f64
    }

    /// Share of received datagrams that arrived after a later one.
    pub fn reordered_share(&self) -> f64 {
        if self.received == 0 { 0.0 } else { self.reordered as f64 / self.received as f64 }
    }

    /// Adds up two results.
    pub fn and(self, other: Datagrams) -> Datagrams {
        Datagrams {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            reordered: self.reordered + other.reordered,
            duplicates: self.duplicates + other.duplicates,
            jitter_ms: self.jitter_ms.max(other.jitter_ms),
        }
    }
}

/// The quality of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Voice {
    /// Voice packets sent, both directions.
    pub sent: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that arrived, but later than [`super::GOOD_WITHIN`] after they were sent.
    pub late: u64,
    /// One-way delay of packets that arrived, in ms.
    pub delay_ms: Option<Percentiles>,
}

impl Voice {
    /// Share of the packets that the listener missed: lost or late.
    pub fn bad_share(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        (self.lost + self.late) as f64 / self.sent as f64
    }
}
