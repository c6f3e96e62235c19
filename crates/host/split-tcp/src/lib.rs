//! TCP connections that are split at the tunnel: each ends at this host's proxy and goes on
//! from there as another, so that slow start, windows and congestion control of the way
//! through the tunnel are the proxies', and neither client nor server waits for the other's
//! acknowledgements.
//!
//! Both ends of a tunnel run the same proxy, and each splits for itself: what comes from
//! its own side goes on through the tunnel, what comes from the tunnel goes on to its own
//! side. Nothing is said between the two but the connection itself; addresses are kept
//! (`IP_TRANSPARENT`), so that an end without a proxy is just where the connection goes.
//!
//! How packets get here is `braid-linux`' business (nftables' tproxy, routing tables by
//! the sockets' marks). One thread serves all connections.

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
    /// The most that a connection may have in one buffer, in bytes.
    pub buffer: u64,
    /// The most that all connections of one home may have in buffers, in bytes.
    pub memory: u64,
    /// Connections of one home at a time.
    pub connections: usize,
    /// Networks of each home, to count its connections; the longest prefix counts.
    pub homes: Vec<Vec<IpNet>>,
}

/// Which way a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From this end's side into the tunnel.
    Into,
    /// Out of the tunnel.
    OutOf,
}

/// The ports that packets have to be brought to, on `127.0.0.1` and `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// For connections into the tunnel.
    pub into: u16,
    /// For those out of it.
    pub out_of: u16,
    /// Whether the host has IPv6.
    pub v6: bool,
}
