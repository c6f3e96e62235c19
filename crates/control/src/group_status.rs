//! The state of a running group of links: the JSON of `GET /v1/status` and of `braid status
//! --json`. Fields are only ever added.

use braid_engines::EngineKind;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// One group of links that an engine of the kernel joins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Version of the program.
    pub version: String,
    /// The group's name.
    pub interface: String,
    /// The engine that joins its links.
    pub engine: EngineKind,
    /// The engine's mode, if it has modes.
    pub mode: Option<String>,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the group came up.
    pub uptime_s: f64,
    /// This end's addresses.
    pub addresses: Vec<IpNet>,
    /// The group's own device, if the engine has one and it exists.
    pub device: Option<DeviceStatus>,
    /// The links.
    pub links: Vec<GroupLinkStatus>,
    /// What couldn't be set up so far; it is retried.
    pub troubles: Vec<String>,
}

/// A device as the kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Whether traffic can pass.
    pub carrier: bool,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
}

/// A link of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupLinkStatus {
    /// Name in the config.
    pub name: String,
    /// Its network device.
    pub interface: String,
    /// Whether it takes part now.
    pub used: bool,
    /// Whether it carries traffic now, as far as the kernel reports: it takes part, has a carrier,
    /// and isn't a backup for another one.
    #[serde(default)]
    pub active: bool,
    /// Why it takes no part, in words; `None` if it does.
    pub trouble: Option<String>,
    /// Its share of the flows.
    pub weight: u8,
    /// Used only when no other link works.
    pub standby: bool,
    /// Its device, while it exists.
    pub device: Option<DeviceStatus>,
}
