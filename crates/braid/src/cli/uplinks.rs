use braid_linux::netlink::{Link, Netlink, Route};
use serde::Serialize;
use std::io;
use std::net::IpAddr;

/// A device that a default route leaves by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uplink {
    /// The device.
    pub interface: String,
    /// Its routers; none on a point-to-point link.
    pub gateways: Vec<IpAddr>,
}

/// Kinds of devices that lead through another link.
const TUNNELS: &[&str] =
    &["tun", "wireguard", "dummy", "gre", "gretap", "ipip", "sit", "vti", "vxlan", "xfrm", "ifb"];

/// The host's uplinks: every device with a default route, save tunnels and
/// `own`, our device.
pub fn find(own: &str) -> io::Result<Vec<Uplink>> {
    let mut netlink = Netlink::open()?;
    Ok(choose(own, &netlink.links()?, &netlink.default_routes()?))
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
            point_to_point: false,
            master: None,
            hardware: None,
            kind: kind.map(str::to_owned),
            received_dropped: 0,
            sent_dropped: 0,
            is_backup: false,
            received_packets: 0,
            sent_packets: 0,
            received_bytes: 0,
            sent_bytes: 0,
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
}
