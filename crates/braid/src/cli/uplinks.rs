use braid_control::config::LinkBinding;
use braid_linux::netlink::{Link, Netlink, Route};
use serde::Serialize;
use std::io;
use std::net::IpAddr;

/// A device with a default route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uplink {
    /// The device.
    pub interface: String,
    /// Its routers; empty on a point-to-point link.
    pub gateways: Vec<IpAddr>,
}

/// Kinds of devices that lead through another link.
const TUNNELS: &[&str] =
    &["tun", "wireguard", "dummy", "gre", "gretap", "ipip", "sit", "vti", "vxlan", "xfrm", "ifb"];

/// The host's uplinks: every device with a default route, except tunnels and `own`, our device.
pub fn find(own: &str) -> io::Result<Vec<Uplink>> {
    let mut netlink = Netlink::open()?;
    Ok(choose(own, &netlink.links()?, &netlink.default_routes()?))
}

/// Those of these devices that don't exist.
pub fn absent(named: &[Uplink]) -> io::Result<Vec<&str>> {
    let there = Netlink::open()?.links()?;
    let is_absent = |name: &&str| there.iter().all(|device| device.name != *name);
    Ok(named.iter().map(|uplink| uplink.interface.as_str()).filter(is_absent).collect())
}

/// The uplinks that no link uses; for links bound by mark this isn't known.
pub fn find_free(own: &str, links: &[&LinkBinding]) -> io::Result<Vec<Uplink>> {
    let mut netlink = Netlink::open()?;
    let (devices, addresses) = (netlink.links()?, netlink.addresses()?);
    let mut found = choose(own, &devices, &netlink.default_routes()?);
    found.retain(|uplink| {
        let device = devices.iter().find(|device| device.name == uplink.interface);
        let own: Vec<IpAddr> = addresses
            .iter()
            .filter(|address| device.is_some_and(|device| device.index == address.interface))
            .map(|address| address.net.addr())
            .collect();
        !links.iter().any(|link| leaves_by(link, uplink, &own))
    });
    Ok(found)
}

fn leaves_by(link: &LinkBinding, uplink: &Uplink, addresses: &[IpAddr]) -> bool {
    match (&link.interface, link.source, link.gateway) {
        (Some(interface), ..) => interface.as_str() == uplink.interface,
        (None, Some(source), _) => addresses.contains(&source),
        (None, None, Some(gateway)) => uplink.gateways.contains(&gateway),
        (None, None, None) => false,
    }
}

fn choose(own: &str, links: &[Link], routes: &[Route]) -> Vec<Uplink> {
    let is_uplink = |link: &&Link| {
        let tunnel = link.kind.as_deref().is_some_and(|kind| TUNNELS.contains(&kind));
        link.up && !link.loopback && !tunnel && link.name != own
    };
    let mut found: Vec<Uplink> = Vec::new();
    for link in links.iter().filter(is_uplink) {
        let by_it = routes.iter().filter(|route| route.interface == Some(link.index));
        let mut gateways: Vec<IpAddr> = Vec::new();
        let mut has_route = false;
        for route in by_it {
            has_route = true;
            gateways.extend(route.gateway.filter(|gateway| !gateways.contains(gateway)));
        }
        if has_route {
            found.push(Uplink { interface: link.name.clone(), gateways });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: Option<&str>) -> Link {
        Link {
            index,
            name: name.into(),
            mtu: 1500,
            up: true,
            carrier: true,
            loopback: name == "lo",
            kind: kind.map(str::to_owned),
            ..Link::default()
        }
    }

    fn default_route(interface: u32, gateway: Option<&str>) -> Route {
        Route {
            interface: Some(interface),
            gateway: gateway.map(|gateway| gateway.parse().unwrap()),
            ..Route::to("0.0.0.0/0".parse().unwrap())
        }
    }

    #[test]
    fn devices_with_a_default_route_are_uplinks_and_tunnels_are_not() {
        let links = [
            link(1, "lo", None),
            link(2, "eth0", None),
            link(3, "ppp0", Some("ppp")),
            link(4, "wg0", Some("wireguard")),
            link(5, "lan", Some("bridge")),
            link(6, "braid0", Some("tun")),
        ];
        let routes = [
            default_route(2, Some("192.168.1.1")),
            default_route(2, Some("192.168.1.1")),
            default_route(2, Some("fe80::1")),
            default_route(3, None),
            default_route(4, None),
            default_route(6, None),
        ];
        let gateways = ["192.168.1.1", "fe80::1"].map(|gateway| gateway.parse().unwrap());
        assert_eq!(
            choose("braid0", &links, &routes),
            [
                Uplink { interface: "eth0".into(), gateways: gateways.to_vec() },
                Uplink { interface: "ppp0".into(), gateways: Vec::new() },
            ]
        );
    }

    #[test]
    fn a_link_leaves_by_the_uplink_that_its_device_address_or_router_names() {
        let address = |text: &str| Some(text.parse().unwrap());
        let uplink =
            Uplink { interface: "eth0".into(), gateways: vec!["192.0.2.1".parse().unwrap()] };
        let own = ["192.0.2.7".parse().unwrap()];
        let nothing = LinkBinding { fwmark: Some(1), ..LinkBinding::default() };
        let by = |interface: &str| Some(interface.parse().unwrap());
        for (binding, leaves) in [
            (LinkBinding { interface: by("eth0"), ..nothing.clone() }, true),
            (LinkBinding { interface: by("eth1"), ..nothing.clone() }, false),
            (LinkBinding { source: address("192.0.2.7"), ..nothing.clone() }, true),
            (LinkBinding { source: address("192.0.2.8"), ..nothing.clone() }, false),
            (LinkBinding { gateway: address("192.0.2.1"), ..nothing.clone() }, true),
            (LinkBinding { gateway: address("192.0.2.2"), ..nothing.clone() }, false),
            (nothing, false),
        ] {
            assert_eq!(leaves_by(&binding, &uplink, &own), leaves, "{binding:?}");
        }
    }
}
