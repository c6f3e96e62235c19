//! The host's routing and NAT that the config and the links' egresses require.

use super::egress::{Device, Egress, HostNetwork};
use super::host_numbers::{mark, priorities, tables};
use super::kill_switch;
use braid_control::config::{Config, Layer, Name, Prefix, Protocol, WhenConcentratorGone};
use braid_linux::nft::{Firewall, MssClamp, Owner, PortForward, Refusing, Transport};
use braid_linux::routing::{
    HostRouting, LinkRouting, Otherwise, RuledRouting, Through, accepts_router_advertisements,
    checks_reverse_path,
};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A link as the routing sees it.
pub struct RoutedLink<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its number on this host.
    pub number: u32,
    /// Its current egresses; empty if it is down.
    pub egresses: &'a [Egress],
    /// Its own mark, if the config gives it one.
    pub fwmark: Option<u32>,
    /// Lower is better.
    pub tier: u8,
}

/// How the host should route now. `working` states whether a peer answers.
pub fn plan(
    config: &Config,
    links: &[RoutedLink<'_>],
    host: &HostNetwork,
    working: bool,
    firewalls: &[Refusing],
    rules: RuledRouting,
) -> HostRouting {
    let interface = config.interface.name.to_string();
    let nothing = HostRouting {
        addresses: config.interface.addresses.clone(),
        first_table: tables(&interface).start,
        first_priority: priorities(&interface).start,
        fwmark: mark(&interface),
        link_marks: config.routing.link_marks.bits(),
        links: Vec::new(),
        believes_advertisements: Vec::new(),
        through: Through::Nothing,
        forward: false,
        docker_refuses: Vec::new(),
        egress_devices: Vec::new(),
        proxy_arp: Vec::new(),
        firewall: Firewall { interface: interface.clone(), ..Firewall::default() },
        // The reconciler knows where the proxy listens.
        split: None,
        rules: RuledRouting::default(),
        // The reconciler knows who is served here.
        announced: None,
        interface,
    };
    let routing = &config.routing;
    if routing.leave_host_alone {
        return nothing;
    }
    let link_routings: Vec<LinkRouting> =
        links.iter().flat_map(|link| link_routing(link, host)).collect();
    let mut firewall = firewall(config, host);
    if firewall.hide_lan && goes_direct(config) {
        let by_links = link_routings.iter().map(|link| link.interface.clone());
        let ways: BTreeSet<String> = by_links.chain(egress_devices(host)).collect();
        firewall.links_outside_tunnel =
            ways.into_iter().filter(|way| *way != nothing.interface).collect();
    }
    HostRouting {
        links: link_routings,
        believes_advertisements: believes_advertisements(config, host),
        through: through(config, links, working),
        forward: forwards(config),
        firewall,
        docker_refuses: firewalls
            .iter()
            .filter(|firewall| firewall.owner == Owner::Docker)
            .flat_map(|firewall| firewall.families.clone())
            .collect(),
        egress_devices: egress_devices(host),
        proxy_arp: on_link(config, |net| net.addr().is_ipv4()).into_keys().collect(),
        rules,
        ..nothing
    }
}

/// Whether all traffic bypasses the tunnel while no concentrator answers.
fn goes_direct(config: &Config) -> bool {
    let routing = &config.routing;
    routing.default_route && routing.when_concentrator_gone == WhenConcentratorGone::Direct
}

/// Whether the plan makes this host forward packets.
pub fn forwards(config: &Config) -> bool {
    let routing = &config.routing;
    !routing.leave_host_alone && (routing.default_route || !config.interface.listen.is_empty())
}

/// The devices of the host's default routes.
fn egress_devices(host: &HostNetwork) -> Vec<String> {
    let by = |index| host.links.iter().find(|link| Some(link.index) == index);
    let devices = host.default_routes.iter().filter_map(|route| by(route.interface));
    let mut names: Vec<String> = devices.map(|link| link.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The public prefixes selected by `wanted` for which we answer neighbour discovery on a device.
pub fn on_link(config: &Config, wanted: impl Fn(&IpNet) -> bool) -> BTreeMap<String, Vec<IpNet>> {
    let mut found: BTreeMap<String, Vec<IpNet>> = BTreeMap::new();
    for public in &config.routing.public_prefixes {
        let net = public.prefix.net();
        if let Some(device) = public.on_link.as_ref().filter(|_| wanted(&net)) {
            found.entry(device.to_string()).or_default().push(net);
        }
    }
    found
}

fn link_routing(link: &RoutedLink<'_>, host: &HostNetwork) -> Option<LinkRouting> {
    let device: &Device = link.egresses.iter().find_map(|egress| egress.device.as_ref())?;
    let addresses: Vec<IpNet> = host
        .addresses
        .iter()
        .filter(|address| address.interface == device.index)
        .map(|address| address.net)
        .collect();
    let gateways: Vec<IpAddr> = link.egresses.iter().filter_map(|egress| egress.gateway).collect();
    Some(LinkRouting {
        number: link.number,
        interface: device.name.clone(),
        fwmark: link.fwmark,
        point_to_point: gateways.is_empty(),
        addresses,
        gateways,
        checks_reverse_path: checks_reverse_path(&device.name),
    })
}

/// Also links that are down at the moment, as otherwise they would never return.
fn believes_advertisements(config: &Config, host: &HostNetwork) -> Vec<String> {
    let links = config.links.iter();
    let devices = links.filter_map(|link| host.device_of(&link.binding).ok().flatten());
    let mut names: Vec<String> = devices.map(|device| device.name.clone()).collect();
    names.retain(|name| accepts_router_advertisements(name));
    names.sort();
    names.dedup();
    names
}

fn through(config: &Config, links: &[RoutedLink<'_>], working: bool) -> Through {
    if config.interface.layer == Layer::L2 {
        return Through::Nothing;
    }
    if config.routing.default_route {
        let best =
            links.iter().filter(|link| !link.egresses.is_empty()).min_by_key(|link| link.tier);
        let otherwise = match config.routing.when_concentrator_gone {
            WhenConcentratorGone::Block => Otherwise::KillSwitch,
            WhenConcentratorGone::Direct => {
                Otherwise::Straight { link: best.map(|link| link.number) }
            }
        };
        return Through::Everything { working, otherwise };
    }
    let own = |net: &IpNet| config.interface.addresses.iter().any(|ours| ours.contains(net));
    let networks = config
        .peers
        .iter()
        .flat_map(|peer| &peer.allowed_ips)
        .filter(|prefix| ![Prefix::ALL_V4, Prefix::ALL_V6].contains(prefix))
        .map(|prefix| prefix.net())
        // The device's own network has its route already.
        .filter(|net| !own(net));
    Through::Networks(networks.collect())
}

fn firewall(config: &Config, host: &HostNetwork) -> Firewall {
    let routing = &config.routing;
    let forwards = routing.forward_ports.iter().map(|forward| PortForward {
        transport: match forward.protocol {
            Protocol::Udp => Transport::Udp,
            // The config has no other protocol here.
            Protocol::Tcp | Protocol::Icmp => Transport::Tcp,
        },
        address: None,
        ports: (forward.public, forward.public),
        to: forward.to.ip(),
        to_port: Some(forward.to.port()),
    });
    let masquerade = match routing.masquerade {
        true => config.interface.addresses.iter().map(IpNet::trunc).collect(),
        false => Vec::new(),
    };
    Firewall {
        interface: config.interface.name.to_string(),
        masquerade,
        hide_lan: routing.masquerade && config.interface.listen.is_empty(),
        untranslated: routing.untranslated.iter().map(|prefix| prefix.net()).collect(),
        links_outside_tunnel: Vec::new(),
        forwards: forwards.collect(),
        routed: routing.public_prefixes.iter().map(|public| public.prefix.net()).collect(),
        mss: routing.clamp_mss.then_some(MssClamp::ToMtu),
        kill_switch: kill_switch::of(config, host),
        // Added for the links by the whole plan.
        inbound: None,
        ruled: None,
        // The reconciler knows where it listens.
        forwarder: None,
        // They change as name servers answer: the reconciler adds them.
        diversions: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(rest: &str) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
             [[link]]\nname = \"a\"\ninterface = \"eth0\"\n\
             [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             endpoints = [\"192.0.2.1:1\"]\nallowed_ips = [\"0.0.0.0/0\", \"10.77.0.1\", \"172.16.0.0/16\"]\n{rest}"
        );
        Config::parse(&text, Path::new("c.toml")).unwrap()
    }

    fn plan_for(rest: &str, working: bool) -> HostRouting {
        let egresses = [Egress {
            family: braid_linux::udp::Family::V4,
            device: Some(Device { name: "eth0".into(), index: 2, mtu: 1500 }),
            source: "192.168.1.5".parse().ok(),
            gateway: "192.168.1.1".parse().ok(),
        }];
        let config = config(rest);
        let name = &config.links[0].name;
        let links = [
            RoutedLink { name, number: 0, egresses: &[], fwmark: None, tier: 0 },
            RoutedLink { name, number: 1, egresses: &egresses, fwmark: None, tier: 3 },
        ];
        let rules = RuledRouting::default();
        plan(&config, &links, &HostNetwork::default(), working, &[], rules)
    }

    #[test]
    fn a_host_left_alone_gets_only_the_devices_addresses() {
        let plan = plan_for("[routing]\nleave_host_alone = true", true);
        assert_eq!(plan.desired().len(), 1);
    }

    #[test]
    fn without_default_route_only_the_peers_networks_go_through() {
        let networks = vec!["172.16.0.0/16".parse().unwrap()];
        assert_eq!(plan_for("", true).through, Through::Networks(networks));
    }

    #[test]
    fn a_gone_concentrator_means_straight_out_by_the_best_link_or_nothing() {
        let direct = plan_for("[routing]\ndefault_route = true", false);
        let straight = Otherwise::Straight { link: Some(1) };
        assert_eq!(direct.through, Through::Everything { working: false, otherwise: straight });
        assert_eq!(direct.firewall.kill_switch, None);
        let block =
            plan_for("[routing]\ndefault_route = true\nwhen_concentrator_gone = \"block\"", true);
        assert!(block.firewall.kill_switch.is_some());
    }
}
