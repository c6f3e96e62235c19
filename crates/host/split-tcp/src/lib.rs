//! Splits TCP connections at the tunnel: each ends at this host's proxy, which continues it as
//! another, so that the proxies control slow start, windows and congestion control through the
//! tunnel, and neither client nor server waits for the other's acknowledgements.
//!
//! Both ends of a tunnel may run the proxy, independently: connections from its own side continue
//! through the tunnel, those from the tunnel continue to its own side. The two exchange only the
//! connection itself; addresses are kept (`IP_TRANSPARENT`), so that it also works if the other end
//! has no proxy.
//!
//! `braid-linux` directs packets here (nftables' tproxy, routing tables by socket marks). One
//! thread serves all connections.

mod budget;
mod counters;
mod descriptors;
mod homes;
mod pair;
mod proxy;
mod relay;
mod sockets;

pub use counters::Counts;
pub use descriptors::{allow_descriptors, connections_by};
pub use proxy::{Handle, Proxy};

use ipnet::IpNet;

/// How a proxy splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `SO_MARK` of sockets toward the tunnel.
    pub tunnel_mark: u32,
    /// `SO_MARK` of sockets toward this end's clients and servers.
    pub outer_mark: u32,
    /// Congestion control toward the tunnel, as the kernel names it.
    pub congestion: String,
    /// Maximum size of one buffer of a connection, in bytes.
    pub buffer: u64,
    /// Maximum size of all buffers of one home's connections, in bytes.
    pub memory: u64,
    /// Maximum concurrent connections of one home.
    pub connections: usize,
    /// Networks of each home, to count its connections; the longest prefix applies.
    pub homes: Vec<Vec<IpNet>>,
}

/// The direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From this end's side into the tunnel.
    Into,
    /// Out of the tunnel.
    OutOf,
}

/// The ports that packets must be directed to, on `127.0.0.1` and `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// For connections into the tunnel.
    pub into: u16,
    /// For those out of it.
    pub out_of: u16,
    /// Whether the host has IPv6.
    pub v6: bool,
}
