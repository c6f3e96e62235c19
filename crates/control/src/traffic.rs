//! Who uses the tunnel, and for what: flows and their devices.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Answer of `GET /v1/traffic`. As everywhere, `rx` is what comes from the peer, `tx` what goes to
/// it; bytes are those of inner packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficStatus {
    /// Devices, busiest first.
    pub devices: Vec<DeviceTraffic>,
    /// Flows, busiest first.
    pub flows: Vec<FlowTraffic>,
    /// How many flows are known; `flows` has as many as requested.
    pub flows_known: usize,
    /// Current receiving rate of flows beyond those tracked one by one, Mbit/s.
    pub others_rx_mbps: f64,
    /// Their current sending rate, Mbit/s.
    pub others_tx_mbps: f64,
    /// Bytes received by them since the tunnel came up.
    pub others_rx_bytes: u64,
    /// Bytes sent by them since the tunnel came up.
    pub others_tx_bytes: u64,
}

/// A device on the home's side of the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// The name of its DHCP lease, or else its address.
    pub name: String,
    /// The address at which it was last seen.
    pub address: Option<IpAddr>,
    /// The peer that its traffic goes through (at a concentrator: its home).
    pub peer: String,
    /// Number of its known flows.
    pub flows: usize,
    /// Current receiving rate, Mbit/s.
    pub rate_rx_mbps: f64,
    /// Current sending rate, Mbit/s.
    pub rate_tx_mbps: f64,
    /// Bytes received since the tunnel came up.
    pub rx_bytes: u64,
    /// Bytes sent, counted alike.
    pub tx_bytes: u64,
    /// The links that carried it.
    pub links: Vec<LinkShare>,
}

/// A flow, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTraffic {
    /// The peer that it goes through (at a concentrator: its home).
    pub peer: String,
    /// The name of its device.
    pub device: String,
    /// `tcp`, `udp`, `icmp`, a protocol's number, or `ethernet`.
    pub protocol: String,
    /// The end on the home's side: address and port, if it has them.
    pub local: String,
    /// The other end.
    pub remote: String,
    /// `bulk`, `realtime`, `interactive`, `precious`, `acknowledgements`.
    pub class: String,
    /// The `[[rule]]` that matches it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Time since its first packet, seconds.
    pub age_s: f64,
    /// Time since its last packet, seconds.
    pub idle_s: f64,
    /// Current receiving rate, Mbit/s.
    pub rate_rx_mbps: f64,
    /// Current sending rate, Mbit/s.
    pub rate_tx_mbps: f64,
    /// Bytes received since it began.
    pub rx_bytes: u64,
    /// Bytes sent, counted alike.
    pub tx_bytes: u64,
    /// Bytes that this end sent again because they were lost.
    pub retransmitted_bytes: u64,
    /// Bytes that this end sent twice on purpose.
    pub duplicated_bytes: u64,
    /// The links that carried it.
    pub links: Vec<LinkShare>,
}

/// What a link carried of it, including retransmissions and duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkShare {
    /// The link's name (at a concentrator: the path's number).
    pub link: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent, counted alike.
    pub tx_bytes: u64,
}

impl TrafficStatus {
    /// Default number of flows in an answer.
    pub const USUAL: usize = 100;

    /// Keeps only the first `most` flows.
    pub fn first(mut self, most: usize) -> TrafficStatus {
        self.flows.truncate(most);
        self
    }
}
