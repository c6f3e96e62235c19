use super::Fetch;
use super::statistics::{Bins, Percentiles};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What receivers saw of one traffic; what doesn't apply to its kind is `None`.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Payload delivered to the application over time.
    pub delivered: Option<Bins>,
    /// The longest time in which a flow got nothing new between its first byte
    /// and its end; the whole time if it never got any. The worst flow's.
    pub longest_stall: Option<Duration>,
    /// Echo requests and their answers.
    pub pings: Option<Pings>,
    /// Numbered datagrams.
    pub datagrams: Option<Datagrams>,
    /// Calls.
    pub voice: Option<Voice>,
    /// Objects that came as a whole.
    pub fetches: Option<Vec<Fetch>>,
    /// How long whole pages took, in ms.
    pub pages_ms: Option<Vec<f64>>,
}

/// Echo requests and their answers.
#[derive(Clone, Debug, Default)]
pub struct Pings {
    /// Seconds since the start when the request left, round trip in ms.
    pub answered: Vec<(f64, f64)>,
    /// Requests sent.
    pub sent: u64,
}

impl Pings {
    /// Requests that were never answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered.len() as u64)
    }

    /// Percentiles of the round trips in ms.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let trips: Vec<f64> = self.answered.iter().map(|(_, ms)| *ms).collect();
        Percentiles::of(&trips)
    }
}

/// What became of numbered datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Different ones that arrived.
    pub received: u64,
    /// That arrived after a younger one.
    pub reordered: u64,
    /// That arrived again.
    pub duplicates: u64,
    /// Interarrival jitter in ms (RFC 3550, section 6.4.1), the worst flow's.
    pub jitter_ms: f64,
}

impl Datagrams {
    /// Share of those sent that never arrived; all, if none could be sent.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.sent.saturating_sub(self.received) as f64 / self.sent as f64
    }

    /// Share of those received that came after a younger one.
    pub fn reordered_share(&self) -> f64 {
        if self.received == 0 { 0.0 } else { self.reordered as f64 / self.received as f64 }
    }

    /// Both together.
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

/// How calls went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Voice {
    /// Voice packets sent, both directions.
    pub sent: u64,
    /// That never arrived.
    pub lost: u64,
    /// That arrived, but later than [`super::GOOD_WITHIN`] after they were sent.
    pub late: u64,
    /// One-way delay of those that arrived, in ms.
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
