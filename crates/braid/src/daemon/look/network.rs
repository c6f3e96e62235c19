//! Links' devices and the host's routes.

use crate::daemon::egress::HostNetwork;
use braid_control::config::{Config, Link};
use braid_doctor::{LinkFacts, RouteFacts};
use braid_linux::{netlink, resolv_conf};
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Each link of the config by its device.
pub fn links(config: &Config, network: &HostNetwork) -> Vec<LinkFacts> {
    config.links.iter().map(|link| facts_of(link, network)).collect()
}

pub fn facts_of(link: &Link, network: &HostNetwork) -> LinkFacts {
    let name = link.name.as_str().to_owned();
    let binding = &link.binding;
    let named = binding.interface.as_ref().map(ToString::to_string);
    let matching = binding.matches.as_ref().map(|it| format!("interface that matches {it}"));
    let wanted = named.or(matching);
    let device = match network.device_of(&link.binding) {
        Ok(Some(device)) => device,
        // A mark or the host's routes decide: there is no device to report.
        Ok(None) => {
            return LinkFacts {
                name,
                exists: true,
                up: true,
                carrier: true,
                is_point_to_point: true,
                addresses: link.binding.source.map(|source| (source, 32)).into_iter().collect(),
                ..LinkFacts::default()
            };
        }
        Err(_) => return LinkFacts { name, device: wanted, ..LinkFacts::default() },
    };
    let addresses = network.addresses.iter().filter(|it| it.interface == device.index);
    let routes = network.default_routes.iter().filter(|it| it.interface == Some(device.index));
    LinkFacts {
        name,
        device: Some(device.name.clone()),
        exists: true,
        up: device.up,
        carrier: device.carrier,
        mtu: device.mtu,
        addresses: addresses.map(|it| (it.net.addr(), it.net.prefix_len())).collect(),
        gateways: link
            .binding
            .gateway
            .into_iter()
            .chain(routes.clone().filter_map(|route| route.gateway))
            .collect(),
        is_point_to_point: device.point_to_point || routes.clone().any(|it| it.gateway.is_none()),
        kind: device.kind.clone(),
        rp_filter: rp_filter(&device.name),
        speed_mbps: of_card(device, "speed").and_then(|text| text.parse().ok()),
        full_duplex: of_card(device, "duplex").and_then(|text| match text.as_str() {
            "full" => Some(true),
            "half" => Some(false),
            _ => None,
        }),
    }
}

/// The stricter of the device's and the global setting (ip-sysctl: the maximum of both applies).
fn rp_filter(device: &str) -> u8 {
    let read = |name: &str| -> Option<u8> {
        let file = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    read("all").unwrap_or(0).max(read(device).unwrap_or(0))
}

/// A sysfs file, for hardware only.
fn of_card(device: &netlink::Link, file: &str) -> Option<String> {
    let is_hardware = device.kind.is_none();
    let read = || fs::read_to_string(format!("/sys/class/net/{}/{file}", device.name)).ok();
    is_hardware.then(read).flatten().map(|text| text.trim().to_owned())
}

/// Errors that each link's card counts, in the config's order.
pub fn card_errors(config: &Config, network: &HostNetwork) -> Vec<u64> {
    let errors = |link: &Link| -> u64 {
        let Ok(Some(device)) = network.device_of(&link.binding) else { return 0 };
        let files = ["statistics/rx_errors", "statistics/tx_errors"];
        let counts = files.iter().filter_map(|file| of_card(device, file)?.parse::<u64>().ok());
        counts.sum()
    };
    config.links.iter().map(errors).collect()
}

/// Whether the host forwards IPv4; IPv6.
pub fn forwarding() -> Option<(bool, bool)> {
    let read = |file: &str| Some(fs::read_to_string(file).ok()?.trim() != "0");
    let v4 = read("/proc/sys/net/ipv4/ip_forward")?;
    // No IPv6 at all is no trouble.
    Some((v4, read("/proc/sys/net/ipv6/conf/all/forwarding").unwrap_or(true)))
}

/// Asks the kernel where packets would go. `asked_instead`: the tunnel's own name servers are used.
pub fn routes(config: &Config, network: &HostNetwork, asked_instead: bool) -> RouteFacts {
    let tunnel = config.interface.name.as_str();
    let endpoints = config.peers.iter().flat_map(|peer| &peer.endpoints);
    let endpoints = endpoints.filter_map(braid_control::config::Endpoint::address);
    // Otherwise the tunnel's own datagrams have a mark, and take the links.
    let into_tunnel = |endpoint: &SocketAddr| {
        config.routing.leave_host_alone
            && device_towards(network, *endpoint).as_deref() == Some(tunnel)
    };
    let of_links: Vec<&str> = config
        .links
        .iter()
        .filter_map(|link| Some(network.device_of(&link.binding).ok()??.name.as_str()))
        .collect();
    let names_beside = name_servers().into_iter().filter_map(|server| {
        let device = device_towards(network, SocketAddr::new(server, 53))?;
        of_links.contains(&device.as_str()).then_some((server, device))
    });
    let is_global = |address: &netlink::Address| matches!(address.net.addr(), IpAddr::V6(v6) if (v6.segments()[0] & 0xe000) == 0x2000);
    let name_of = |index: u32| {
        let link = network.links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    let mut ipv6_default: Vec<String> = network
        .default_routes
        .iter()
        .filter(|route| route.destination.addr().is_ipv6())
        .filter_map(|route| name_of(route.interface?))
        .collect();
    // The tunnel's own route is in a separate table.
    if config.routing.default_route
        && config.interface.addresses.iter().any(|it| it.addr().is_ipv6())
    {
        ipv6_default.push(tunnel.to_owned());
    }
    let with_ipv6 = network.addresses.iter().filter(|address| is_global(address));
    let mut ipv6_devices: Vec<String> =
        with_ipv6.filter_map(|address| name_of(address.interface)).collect();
    ipv6_devices.retain(|device| of_links.contains(&device.as_str()));
    ipv6_devices.dedup();
    RouteFacts {
        endpoints_into_tunnel: endpoints.filter(into_tunnel).collect(),
        names_beside: if asked_instead { Vec::new() } else { names_beside.collect() },
        ipv6_devices,
        ipv6_default,
    }
}

/// The device whose address the kernel would send from; nothing is sent.
fn device_towards(network: &HostNetwork, to: SocketAddr) -> Option<String> {
    let any = match to {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(to).ok()?;
    let source = socket.local_addr().ok()?.ip();
    let address = network.addresses.iter().find(|address| address.net.addr() == source)?;
    let link = network.links.iter().find(|link| link.index == address.interface)?;
    (!link.loopback).then(|| link.name.clone())
}

fn name_servers() -> Vec<IpAddr> {
    let text = fs::read_to_string(resolv_conf::FILE).unwrap_or_default();
    let servers = resolv_conf::servers_in(&text).into_iter();
    servers.filter(|server| !server.is_loopback()).collect()
}
