//! Addresses and routes of both namespaces.

use super::address::{CONCENTRATOR_V4, CONCENTRATOR_V6};
use super::command::{batch, sysctls};
use super::{Topology, TopologyError, TopologyLink};
use braid_linux::netns::NetNs;

/// Link number k has the table this + k at home, far from those in use.
pub(super) const FIRST_TABLE: u32 = 7000;
/// Rules by source address: before main (32766), after whatever a tunnel sets.
const FIRST_RULE: u32 = 20_000;
const FIRST_METRIC: u32 = 100;
/// Ring of the emulated devices, packets: the emulator may be late by some
/// milliseconds at hundreds of megabits.
const QUEUE_LENGTH: u32 = 2000;
/// The providers' and the concentrator's side is as wide as the Internet.
const PROVIDER_MTU: u16 = 1500;

/// # Errors
/// `/proc/sys` isn't writable.
pub(super) fn set_sysctls(ns: &NetNs) -> Result<(), TopologyError> {
    sysctls(
        ns,
        &[
            // Answers leave by another link than the one that routing would take.
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            // The other end is no router that advertises.
            ("ipv6/conf/default/accept_ra", "0"),
            ("ipv6/conf/default/accept_dad", "0"),
            ("ipv6/conf/all/keep_addr_on_down", "1"),
            ("ipv6/conf/default/keep_addr_on_down", "1"),
        ],
    )
}

/// Brings all devices up, with their addresses and routes.
///
/// # Errors
/// The command that failed.
pub(super) fn set_up(topology: &Topology) -> Result<(), TopologyError> {
    let home: Vec<String> = topology
        .links
        .iter()
        .zip(1..)
        .flat_map(|(link, number)| home_lines(link, number))
        .collect();
    batch(&topology.home, "ip", &home)?;
    let mut concentrator = vec![
        format!("addr add {CONCENTRATOR_V4}/32 dev lo"),
        format!("addr add {CONCENTRATOR_V6}/128 dev lo"),
    ];
    concentrator.extend(topology.links.iter().flat_map(concentrator_lines));
    batch(&topology.concentrator, "ip", &concentrator)
}

fn home_lines(link: &TopologyLink, number: u32) -> Vec<String> {
    let (device, table) = (&link.device, link.table);
    let addresses = &link.addresses;
    let (v4, gateway_v4) = (addresses.home_v4, addresses.gateway_v4);
    let (v6, gateway_v6) = (addresses.home_v6, addresses.gateway_v6);
    let (metric, rule) = (FIRST_METRIC + number, FIRST_RULE + number);
    // Below 1280 the kernel takes no IPv6 (RFC 8200, section 5).
    let has_v6 = link.model.mtu >= 1280;
    let mut lines = vec![
        format!("link set dev {device} mtu {} txqueuelen {QUEUE_LENGTH} up", link.model.mtu),
        format!("addr add {v4}/24 dev {device}"),
        format!("route add default via {gateway_v4} dev {device} metric {metric}"),
        format!("route add default via {gateway_v4} dev {device} table {table}"),
        format!("rule add from {v4} lookup {table} priority {rule}"),
    ];
    if has_v6 {
        lines.extend([
            format!("addr add {v6}/64 dev {device} nodad"),
            format!("-6 route add default via {gateway_v6} dev {device} metric {metric}"),
            format!("-6 route add default via {gateway_v6} dev {device} table {table}"),
            format!("-6 rule add from {v6} lookup {table} priority {rule}"),
        ]);
    }
    lines
}

fn concentrator_lines(link: &TopologyLink) -> Vec<String> {
    let device = &link.provider_device;
    let addresses = &link.addresses;
    let mut lines = vec![
        format!(
            "link set dev {device} mtu {} txqueuelen {QUEUE_LENGTH} up",
            link.model.mtu.max(PROVIDER_MTU)
        ),
        format!("addr add {}/24 dev {device}", addresses.gateway_v4),
        format!("addr add {}/64 dev {device} nodad", addresses.gateway_v6),
    ];
    if link.model.nat {
        lines.push(format!("route add {}/24 dev {device}", network(addresses.public_v4)));
    }
    lines
}

fn network(address: std::net::Ipv4Addr) -> std::net::Ipv4Addr {
    let [a, b, c, _] = address.octets();
    std::net::Ipv4Addr::new(a, b, c, 0)
}
