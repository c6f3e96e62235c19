//! What the host knows about its links: addresses and gateways, as DHCP or
//! an administrator set them.

use super::plan::{ANNOUNCED_PROTOCOL, LinkRouting};
use crate::netlink::{Netlink, PROTOCOL, Route};
use braid_engines::Family;
use std::fs;
use std::io;
use std::net::IpAddr;

/// Kinds of interfaces that are never uplinks.
const VIRTUAL: [&str; 6] = ["tun", "wireguard", "bridge", "dummy", "ifb", "nlmon"];

/// The interfaces with default routes that aren't ours, preferred first.
///
/// # Errors
/// Those of the socket.
pub fn uplinks(netlink: &mut Netlink) -> io::Result<Vec<String>> {
    let links = netlink.links()?;
    let mut names = Vec::new();
    for route in foreign_defaults(netlink)? {
        let link = links.iter().find(|link| Some(link.index) == route.interface);
        let Some(link) = link.filter(|link| !link.loopback) else { continue };
        let leaves = !link.kind.as_deref().is_some_and(|kind| VIRTUAL.contains(&kind));
        if leaves && !names.contains(&link.name) {
            names.push(link.name.clone());
        }
    }
    Ok(names)
}

/// A link's current state: its addresses and the gateways of its default routes, those of the main
/// table first, then by metric. Our own routes are ignored.
///
/// # Errors
/// `NotFound` when there is no such interface; those of the socket.
pub fn discover_link(
    netlink: &mut Netlink,
    interface: &str,
    number: u32,
) -> io::Result<LinkRouting> {
    let link = netlink.link(interface)?;
    let mut addresses: Vec<_> = netlink.addresses()?;
    addresses.retain(|address| address.interface == link.index && address.preferred);
    let mut defaults = foreign_defaults(netlink)?;
    defaults.retain(|route| route.interface == Some(link.index));
    let gateway = |family| {
        let of_family = |route: &&Route| Family::of(route.destination.addr()) == family;
        defaults.iter().filter(of_family).find_map(|route| route.gateway)
    };
    Ok(LinkRouting {
        number,
        interface: link.name,
        fwmark: None,
        addresses: addresses.into_iter().map(|address| address.net).collect(),
        gateways: [Family::V4, Family::V6].into_iter().filter_map(gateway).collect::<Vec<IpAddr>>(),
        point_to_point: link.point_to_point,
        checks_reverse_path: checks_reverse_path(interface),
    })
}

fn foreign_defaults(netlink: &mut Netlink) -> io::Result<Vec<Route>> {
    let mut routes = netlink.default_routes()?;
    routes.retain(|route| ![PROTOCOL, ANNOUNCED_PROTOCOL].contains(&route.protocol));
    Ok(routes)
}

/// Whether the kernel checks the reverse path, strictly or loosely: the higher of the interface's
/// and the global setting applies (Documentation/networking/ip-sysctl.rst, `rp_filter`). The loose
/// check counts too, as we may have loosened a strict one.
pub fn checks_reverse_path(interface: &str) -> bool {
    let filter = |name: &str| setting(&format!("ipv4/conf/{name}/rp_filter"));
    filter("all").max(filter(interface)) > 0
}

/// Whether an interface learns its IPv6 gateway from router advertisements, including when it is
/// configured to do so although this host is a router.
pub fn accepts_router_advertisements(interface: &str) -> bool {
    setting(&format!("ipv6/conf/{interface}/accept_ra")) > 0
}

/// A small number below `/proc/sys/net`; 0 if it doesn't exist.
fn setting(key: &str) -> u8 {
    let text = fs::read_to_string(format!("/proc/sys/net/{key}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
