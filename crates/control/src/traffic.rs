//! Who uses the tunnel, and for what: flows and the devices that they are of.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Answer of `GET /v1/traffic`. As everywhere `rx` is what comes from the peer, `tx` what
/// goes to it; bytes are those of inner packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficStatus {
    /// Devices, those that carry most first.
    pub devices: Vec<DeviceTraffic>,
    /// Flows, those that carry most first.
    pub flows: Vec<FlowTraffic>,
    /// How many flows are known; `flows` has those that were asked for.
    pub flows_known: usize,
    /// Of flows that were too many to be told apart, rates now, Mbit/s.
    pub others_rx_mbps: f64,
    /// As above.
    pub others_tx_mbps: f64,
    /// Their bytes since the tunnel is up.
    pub others_rx_bytes: u64,
    /// As above.
    pub others_tx_bytes: u64,
}

/// A device on the home's side of the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// By the name of its DHCP lease, or else its address.
    pub name: String,
    /// The address by which it was seen last.
    pub address: Option<IpAddr>,
    /// By which peer its traffic goes (at a concentrator: its home).
    pub peer: String,
    /// Its flows that are known now.
    pub flows: usize,
    /// Mbit/s now.
    pub rate_rx_mbps: f64,
    /// As above.
    pub rate_tx_mbps: f64,
    /// Bytes since the tunnel is up.
    pub rx_bytes: u64,
    /// As above.
    pub tx_bytes: u64,
    /// By which links.
    pub links: Vec<LinkShare>,
}

/// Packets that belong together, both ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTraffic {
    /// By which peer it goes (at a concentrator: its home).
    pub peer: String,
    /// The name of its device.
    pub device: String,
    /// `tcp`, `udp`, `icmp`, a protocol's number, or `ethernet`.
    pub protocol: String,
    /// The end on the home's side: address and port, where it has them.
    pub local: String,
    /// The other end.
    pub remote: String,
    /// `bulk`, `realtime`, `interactive`, `precious`, `acknowledgements`.
    pub class: String,
    /// The `[[rule]]` that it falls under, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Since its first packet, seconds.
    pub age_s: f64,
    /// Since its last packet, seconds.
    pub idle_s: f64,
    /// Mbit/s now.
    pub rate_rx_mbps: f64,
    /// As above.
    pub rate_tx_mbps: f64,
    /// Bytes since it began.
    pub rx_bytes: u64,
    /// As above.
    pub tx_bytes: u64,
    /// Bytes that this end sent again, as they were lost.
    pub retransmitted_bytes: u64,
    /// Bytes that this end sent twice on purpose.
    pub duplicated_bytes: u64,
    /// By which links.
    pub links: Vec<LinkShare>,
}

/// What a link carried of it, what was sent again or twice counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkShare {
    /// The link's name (at a concentrator: the path's number).
    pub link: String,
    /// Bytes.
    pub rx_bytes: u64,
    /// As above.
    pub tx_bytes: u64,
}

impl TrafficStatus {
    /// Flows that are told of, where nobody asks for another number.
    pub const USUAL: usize = 100;

    /// The first flows only.
    pub fn first(mut self, most: usize) -> TrafficStatus {
        self.flows.truncate(most);
        self
    }
}
