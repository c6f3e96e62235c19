//! Addresses and routes of both namespaces.

use super::address::{CONCENTRATOR_V4, CONCENTRATOR_V6};
use super::command::{batch, sysctls};
use super::{Topology, TopologyError, TopologyLink};
use braid_linux::netns::NetNs;

/// Link number k uses table this + k at home, far from those in use.
pub(super) const FIRST_TABLE: u32 = 7000;
/// Rules by source address: before main (32766), after everything that a tunnel or a group of links
/// sets (up to 32,495: `braid_engines::Numbers`).
const FIRST_RULE: u32 = 32_500;
const FIRST_METRIC: u32 = 100;
/// The kernel doesn't allow IPv6 below this (RFC 8200, section 5).
pub(super) const MIN_V6_MTU: u16 = 1280;
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
            // Answers leave over another link than routing would choose.
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            // The other end doesn't send router advertisements.
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
    let numbered = || topology.links.iter().zip(1..);
    let v4: Vec<_> = numbered().flat_map(|(link, number)| home_v4_lines(link, number)).collect();
    let v6: Vec<_> = numbered().flat_map(|(link, number)| home_v6_lines(link, number)).collect();
    batch(&topology.home, "ip", &v4)?;
    batch(&topology.home, "ip -6", &v6)?;
    let mut concentrator = vec![
        format!("addr add {CONCENTRATOR_V4}/32 dev lo"),
        format!("addr add {CONCENTRATOR_V6}/128 dev lo"),
    ];
    concentrator.extend(topology.links.iter().flat_map(concentrator_lines));
    batch(&topology.concentrator, "ip", &concentrator)
}

fn home_v4_lines(link: &TopologyLink, number: u32) -> [String; 5] {
    let (device, table) = (&link.device, link.table);
    let (address, gateway) = (link.addresses.home_v4, link.addresses.gateway_v4);
    let (metric, rule) = (FIRST_METRIC + number, FIRST_RULE + number);
    [
        format!("link set dev {device} mtu {} txqueuelen {QUEUE_LENGTH} up", link.model.mtu),
        format!("addr add {address}/24 dev {device}"),
        format!("route add default via {gateway} dev {device} metric {metric}"),
        format!("route add default via {gateway} dev {device} table {table}"),
        format!("rule add from {address} lookup {table} priority {rule}"),
    ]
}

fn home_v6_lines(link: &TopologyLink, number: u32) -> Vec<String> {
    if link.model.mtu < MIN_V6_MTU {
        return Vec::new();
    }
    let (device, table) = (&link.device, link.table);
    let (address, gateway) = (link.addresses.home_v6, link.addresses.gateway_v6);
    let (metric, rule) = (FIRST_METRIC + number, FIRST_RULE + number);
    vec![
        format!("addr add {address}/64 dev {device} nodad"),
        format!("route add default via {gateway} dev {device} metric {metric}"),
        format!("route add default via {gateway} dev {device} table {table}"),
        format!("rule add from {address} lookup {table} priority {rule}"),
    ]
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
