//! A route with its device's name, which stays valid longer than the device's index.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// The routing table that ordinary programs use (`RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination network.
    pub destination: IpNet,
    /// The routing table.
    pub table: u32,
    /// What happens to packets that match.
    pub kind: RouteKind,
    /// The router.
    pub gateway: Option<IpAddr>,
    /// The router is on the link even if none of our addresses implies that.
    pub on_link: bool,
    /// The outgoing device.
    #[serde(alias = "interface")]
    pub device: Option<String>,
    /// Lower is preferred; 0 for the kernel's default.
    pub metric: u32,
    /// The next-hop object or group that it uses, instead of router and device.
    #[serde(default)]
    pub next_hop: Option<u32>,
    /// The source address if the sender chose none.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// Initial window of TCP connections in both directions, in segments.
    #[serde(default)]
    pub initial_window: Option<u32>,
    /// Who set it, as the kernel's protocol number; ours by default.
    #[serde(default)]
    pub protocol: Option<u8>,
}

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteKind {
    /// Forwards it.
    #[default]
    Unicast,
    /// Drops it and tells the sender.
    Unreachable,
    /// Drops it.
    Blackhole,
    /// Drops it and tells the sender that it is forbidden.
    Prohibit,
    /// Continues with the next policy rule.
    Throw,
    /// Delivers it to this host, whatever its destination.
    Local,
}

impl RouteKind {
    /// Whether it ends a look-up without forwarding anything.
    pub fn refuses(self) -> bool {
        match self {
            RouteKind::Unreachable | RouteKind::Blackhole | RouteKind::Prohibit => true,
            RouteKind::Unicast | RouteKind::Throw | RouteKind::Local => false,
        }
    }
}

impl fmt::Display for RouteKind {
    /// As ip-route(8) says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RouteKind::Unicast => "unicast",
            RouteKind::Unreachable => "unreachable",
            RouteKind::Blackhole => "blackhole",
            RouteKind::Prohibit => "prohibit",
            RouteKind::Throw => "throw",
            RouteKind::Local => "local",
        })
    }
}

impl Route {
    /// A unicast route; next hop or device must still be set.
    pub fn new(destination: IpNet, table: u32) -> Route {
        Route {
            destination,
            table,
            kind: RouteKind::Unicast,
            gateway: None,
            on_link: false,
            device: None,
            metric: 0,
            next_hop: None,
            source: None,
            initial_window: None,
            protocol: None,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("route ")?;
        if self.kind != RouteKind::Unicast {
            write!(f, "{} ", self.kind)?;
        }
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " dev {device}")?;
        }
        write!(f, " table {}", self.table)
    }
}
