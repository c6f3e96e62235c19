//! Finds conditions on the host that work against the tunnel: routes that bypass it, firewalls that
//! refuse what it forwards. For status and log.

use super::egress::HostNetwork;
use braid_control::config::{Config, Layer};
use braid_control::status::{Trouble, TroubleKind};
use braid_engines::{MAIN_TABLE, RouteKind};
use braid_linux::netlink::{Netlink, PROTOCOL, Route};
use braid_linux::nft::{Owner, Refusing};
use ipnet::IpNet;

/// Those that were found last.
#[derive(Default)]
pub struct Obstacles {
    found: Vec<Trouble>,
}

impl Obstacles {
    /// Checks again, and logs changes.
    pub fn follow(
        &mut self,
        config: &Config,
        host: &HostNetwork,
        netlink: &mut Netlink,
        firewalls: &[Refusing],
    ) {
        let routes = match config.routing.default_route && !config.routing.leave_host_alone {
            true => netlink.routes().unwrap_or_default(),
            false => Vec::new(),
        };
        let found = obstacles(config, host, &routes, firewalls);
        for obstacle in found.iter().filter(|it| !self.found.contains(it)) {
            tracing::warn!("{}", obstacle.text);
        }
        for gone in self.found.iter().filter(|it| !found.contains(it)) {
            tracing::info!("no longer so: {}", gone.text);
        }
        self.found = found;
    }

    /// Those.
    pub fn now(&self) -> &[Trouble] {
        &self.found
    }
}

/// All that is found now.
pub fn obstacles(
    config: &Config,
    host: &HostNetwork,
    routes: &[Route],
    firewalls: &[Refusing],
) -> Vec<Trouble> {
    let interface = config.interface.name.as_str();
    let mut found: Vec<Trouble> = Vec::new();
    let mut find = |kind, text, mend| found.push(Trouble { kind, text, mend: Some(mend) });
    let carries_all = config.routing.default_route && config.interface.layer == Layer::L3;
    let routes = if carries_all { routes } else { &[] };
    for route in passing_by(config, host, routes) {
        let device = host.links.iter().find(|link| Some(link.index) == route.interface);
        let device = device.map_or("another device", |link| link.name.as_str());
        let command = format!("ip route show {}", route.destination);
        let text = format!(
            "traffic to {} bypasses the tunnel: {device} has a route of its own for it \
             (`{command}`; a DHCP server may have set it)",
            route.destination
        );
        find(TroubleKind::RouteBeside, text, command);
    }
    for route in refusing_all(routes) {
        let kind = route.kind;
        let version = if route.destination.addr().is_ipv4() { 4 } else { 6 };
        let command = format!("ip -{version} route del {kind} default");
        let text = format!(
            "the main table's default route, {kind}, refuses all of IPv{version} before the \
             tunnel is asked: `{command}`",
        );
        find(TroubleKind::RouteRefuses, text, command);
    }
    for firewall in firewalls {
        let table = &firewall.table;
        match firewall.owner {
            // Handled by the plan.
            Owner::Docker => {}
            Owner::Firewalld => {
                let command = format!(
                    "firewall-cmd --permanent --zone=trusted --add-interface={interface}; \
                     firewall-cmd --reload"
                );
                let text = format!(
                    "firewalld forwards nothing to or from {interface} until it has a zone: \
                     `{command}`, and a policy from the LAN's zone to it"
                );
                find(TroubleKind::Firewall, text, command);
            }
            Owner::Other => {
                let text = format!(
                    "the firewall's table {table} drops forwarded packets by default, and none of \
                     its rules names {interface}: hosts behind this one can't use the tunnel"
                );
                find(TroubleKind::Firewall, text, format!("nft list table {table}"));
            }
        }
    }
    found.sort_by(|a, b| a.text.cmp(&b.text));
    found.dedup();
    found
}

/// Routes that lead the tunnel's traffic out over a link, or take most of the Internet.
fn passing_by<'a>(config: &Config, host: &HostNetwork, routes: &'a [Route]) -> Vec<&'a Route> {
    let devices = config.links.iter().filter_map(|link| host.device_of(&link.binding).ok()?);
    let links: Vec<u32> = devices.map(|device| device.index).collect();
    let ours = host.links.iter().find(|link| link.name == config.interface.name.as_str());
    let ours = ours.map(|link| link.index);
    let found = routes.iter().filter(|route| {
        let net = route.destination;
        let candidate = route.table == MAIN_TABLE
            && route.kind == RouteKind::Unicast
            && net.prefix_len() > 0
            && route.protocol != PROTOCOL
            && route.interface != ours
            && !is_local(&net);
        candidate
            && (is_wide(&net)
                || route.interface.is_some_and(|index| links.contains(&index))
                    && !is_connected(host, route))
    });
    found.collect()
}

/// Default routes of the main table that send nothing. What isn't sent by a default route is left
/// to the tunnel's rule (`suppress_prefixlength`), but one that refuses ends the search
/// (`fib_rules_lookup` of Linux' net/core/fib_rules.c suppresses only what was found).
fn refusing_all(routes: &[Route]) -> Vec<&Route> {
    let defaults = || routes.iter().filter(|route| route.table == MAIN_TABLE && route.is_default());
    let sends_before = |route: &Route| {
        defaults().any(|other| {
            other.kind == RouteKind::Unicast
                && other.destination == route.destination
                && other.metric < route.metric
        })
    };
    defaults().filter(|route| route.kind.refuses() && !sends_before(route)).collect()
}

/// More than any provider's own network.
fn is_wide(net: &IpNet) -> bool {
    net.prefix_len() < if net.addr().is_ipv4() { 8 } else { 16 }
}

/// Whether it is a network of one of the device's addresses, or its router. Addresses from DHCPv6
/// have a prefix of 128 bits, and on-link networks are advertised.
fn is_connected(host: &HostNetwork, route: &Route) -> bool {
    let net = route.destination;
    let own = host.addresses.iter().filter(|address| Some(address.interface) == route.interface);
    let mut own = own.map(|address| address.net.addr());
    let router = host.default_routes.iter().any(|default| {
        default.interface == route.interface
            && default.gateway.is_some_and(|gateway| IpNet::from(gateway) == net)
    });
    // The other end of a point-to-point link: PPP's remote address.
    let peer = route.is_the_kernels() && net.prefix_len() == net.max_prefix_len();
    route.gateway.is_none() && (own.any(|own| net.contains(&own)) || router || peer)
}

/// Link-local and multicast: never the tunnel's.
fn is_local(net: &IpNet) -> bool {
    match net {
        IpNet::V4(net) => net.addr().is_link_local() || net.addr().is_multicast(),
        IpNet::V6(net) => net.addr().is_unicast_link_local() || net.addr().is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_linux::netlink::{Address, Link};
    use std::path::Path;

    fn config(default_route: bool) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
             [[link]]\nname = \"a\"\ninterface = \"wan\"\n\
             [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             endpoints = [\"192.0.2.1:1\"]\nallowed_ips = [\"0.0.0.0/0\"]\n\
             [routing]\ndefault_route = {default_route}"
        );
        Config::parse(&text, Path::new("c.toml")).unwrap()
    }

    fn host() -> HostNetwork {
        let device = |index, name: &str| Link {
            index,
            name: name.into(),
            mtu: 1500,
            up: true,
            carrier: true,
            ..Link::default()
        };
        let own = ["192.168.1.5/24", "2001:db8:2::50/128"].map(|net| net.parse().unwrap());
        let default = Route {
            interface: Some(2),
            gateway: "192.168.1.1".parse().ok(),
            ..Route::to("0.0.0.0/0".parse().unwrap())
        };
        HostNetwork {
            links: vec![device(2, "wan"), device(3, "lan"), device(4, "braid0")],
            addresses: own
                .map(|net| Address {
                    interface: 2,
                    net,
                    global: true,
                    preferred: true,
                    valid_for: None,
                })
                .into(),
            default_routes: vec![default],
            ..HostNetwork::default()
        }
    }

    fn texts(troubles: &[Trouble]) -> String {
        troubles.iter().map(|trouble| trouble.text.as_str()).collect()
    }

    #[test]
    fn routes_that_pass_the_tunnel_by_are_told_and_others_are_not() {
        let told = |net: &str, interface, gateway: Option<&str>| {
            let gateway = gateway.map(|gateway| gateway.parse().unwrap());
            let net = net.parse().unwrap();
            let route = Route { interface: Some(interface), gateway, ..Route::to(net) };
            !obstacles(&config(true), &host(), &[route], &[]).is_empty()
        };
        assert!(told("128.0.0.0/1", 2, Some("192.168.1.66")));
        assert!(told("203.0.113.0/24", 2, Some("192.168.1.1")));
        assert!(told("128.0.0.0/1", 3, None), "also by a device that is no link");
        assert!(told("2000::/3", 3, None));
        assert!(!told("192.168.1.0/24", 2, None), "the link's own network");
        assert!(!told("2001:db8:2::/64", 2, None), "that of its address by DHCPv6");
        assert!(told("2001:db8:3::/64", 2, None), "another that a router says is on the link");
        assert!(!told("192.168.1.1/32", 2, None), "its router");
        assert!(!told("10.0.0.0/8", 3, Some("192.168.50.9")), "behind the LAN");
        assert!(!told("fe80::/64", 2, None));
        assert!(!told("128.0.0.0/1", 4, None), "the tunnel itself");
        // RTPROT_KERNEL of linux/rtnetlink.h.
        let by_kernel = |net: &str| {
            let net = net.parse().unwrap();
            let route = Route { interface: Some(2), protocol: 2, ..Route::to(net) };
            !obstacles(&config(true), &host(), &[route], &[]).is_empty()
        };
        assert!(!by_kernel("198.51.100.1/32"), "the other end of a PPP link");
        assert!(by_kernel("198.51.100.0/24") && told("198.51.100.1/32", 2, None));
        let route = Route { interface: Some(2), ..Route::to("128.0.0.0/1".parse().unwrap()) };
        assert!(obstacles(&config(false), &host(), &[route], &[]).is_empty());
    }

    #[test]
    fn a_default_route_that_refuses_is_told_unless_another_comes_before_it() {
        let default =
            |kind, net: &str, metric| Route { kind, metric, ..Route::to(net.parse().unwrap()) };
        let told = |routes: &[Route]| texts(&obstacles(&config(true), &host(), routes, &[]));
        for (kind, word) in [
            (RouteKind::Unreachable, "unreachable"),
            (RouteKind::Blackhole, "blackhole"),
            (RouteKind::Prohibit, "prohibit"),
        ] {
            assert!(told(&[default(kind, "0.0.0.0/0", 0)]).contains(word));
            assert!(told(&[default(kind, "::/0", 4096)]).contains("ip -6 route"));
        }
        let refuses = default(RouteKind::Unreachable, "0.0.0.0/0", 100);
        let uplink = |net, metric| default(RouteKind::Unicast, net, metric);
        assert!(told(&[refuses.clone(), uplink("0.0.0.0/0", 99)]).is_empty());
        assert!(!told(&[refuses.clone(), uplink("0.0.0.0/0", 101)]).is_empty());
        assert!(!told(&[refuses.clone(), uplink("::/0", 99)]).is_empty(), "of the other version");
        assert!(told(&[Route { table: 52, ..refuses.clone() }]).is_empty(), "another table");
        assert!(told(&[default(RouteKind::Throw, "0.0.0.0/0", 0)]).is_empty());
        assert!(told(&[default(RouteKind::Unreachable, "10.0.0.0/8", 0)]).is_empty());
        assert!(obstacles(&config(false), &host(), &[refuses], &[]).is_empty());
    }

    #[test]
    fn firewalls_that_are_not_handled_are_told() {
        let of = |owner| Refusing { table: "ip x".into(), families: Vec::new(), owner };
        let told = |owner| texts(&obstacles(&config(true), &host(), &[], &[of(owner)]));
        assert_eq!(told(Owner::Docker), "");
        assert!(told(Owner::Firewalld).contains("--add-interface=braid0"));
        assert!(told(Owner::Other).contains("ip x"));
    }
}
