//! Netlink, blocking and small. Of rtnetlink(7): links, addresses, routes, next hops, policy rules,
//! root queueing disciplines, and a monitor of their changes; of generic netlink: MPTCP's path
//! manager and WireGuard; of netfilter: connection tracking (list and delete), packet copies,
//! tables, counters, set elements.

mod address;
mod conntrack;
mod device;
mod generic;
mod link;
mod message;
mod monitor;
mod mptcp;
mod next_hop;
pub(crate) mod nftables;
mod packet_log;
mod qdisc;
mod route;
mod rule;
mod set_elements;
mod socket;
mod tables;
#[cfg(test)]
mod tests;
mod wireguard;

pub use address::Address;
pub use conntrack::{Tracked, Tuple, forget_connections, forget_each, tracked_connections};
pub use generic::Generic;
pub use link::Link;
pub use monitor::{Change, Monitor};
pub use mptcp::{Endpoint, Limits};
pub use next_hop::NextHop;
pub use packet_log::PacketLog;
pub use route::Route;
pub(crate) use set_elements::{SetElement, set_elements};
pub use socket::Netlink;
pub(crate) use tables::{counters, table_exists, tables};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Marks our routes (`RTPROT_…`; this number is unassigned).
pub const PROTOCOL: u8 = 177;

/// The address family's number.
fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    family as u8
}

/// An address as attributes carry it.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An address from an attribute.
fn ip(payload: &[u8]) -> Option<IpAddr> {
    match payload.len() {
        4 => Some(Ipv4Addr::from(*payload.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*payload.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// `0.0.0.0` or `::`.
fn unspecified(family: u8) -> Option<IpAddr> {
    match libc::c_int::from(family) {
        libc::AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        libc::AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}
