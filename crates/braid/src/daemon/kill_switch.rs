//! What `when_concentrator_gone = "block"` lets out outside the tunnel, given the host's devices
//! and addresses.

use super::egress::HostNetwork;
use super::host_numbers::{BRAIDS_MARK, BRAIDS_MARK_BITS};
use braid_control::config::{Config, WhenConcentratorGone};
use braid_engines::Operation;
use braid_linux::nft::{Firewall, KillSwitch};
use ipnet::IpNet;
use std::net::IpAddr;

/// Whether the config asks for it.
pub fn is_wanted(config: &Config) -> bool {
    config.routing.default_route
        && config.routing.when_concentrator_gone == WhenConcentratorGone::Block
}

/// What the kill switch lets out, if the config asks for one.
pub fn of(config: &Config, host: &HostNetwork) -> Option<KillSwitch> {
    is_wanted(config).then(|| KillSwitch {
        marks: marks(config),
        lan: lan(config, host),
        links: links(config, host),
    })
}

/// The kill switch alone, as before the tunnel is up and after it has ended.
pub fn alone(config: &Config, host: &HostNetwork) -> Option<Operation> {
    let firewall = Firewall {
        interface: config.interface.name.to_string(),
        kill_switch: of(config, host),
        ..Firewall::default()
    };
    firewall.table().map(Operation::Firewall)
}

/// Marks of all our tunnels on this host: another tunnel isn't a leak.
fn marks(config: &Config) -> Vec<(u32, u32)> {
    let own = config.links.iter().filter_map(|link| link.binding.fwmark);
    let mut marks = vec![(BRAIDS_MARK, BRAIDS_MARK_BITS)];
    marks.extend(own.map(|mark| (mark, u32::MAX)));
    marks
}

/// Devices that are neither links nor lead to the Internet.
fn lan(config: &Config, host: &HostNetwork) -> Vec<(String, Vec<IpNet>)> {
    let egress_devices = links(config, host);
    let is_way_out = |name: &str| egress_devices.iter().any(|(link, _)| link == name);
    let leads_on = |index| host.default_routes.iter().any(|route| route.interface == Some(index));
    let lan = host.links.iter().filter(|device| {
        let own = device.name == config.interface.name.as_str();
        !device.loopback && !own && !is_way_out(&device.name) && !leads_on(device.index)
    });
    lan.map(|device| {
        let own = host.addresses.iter().filter(|address| address.interface == device.index);
        let own = own.map(|address| address.net.trunc()).filter(is_small);
        let routed = config.routing.untranslated.iter().map(|prefix| prefix.net());
        let mut networks: Vec<IpNet> = own.chain(routed).collect();
        networks.sort();
        networks.dedup();
        (device.name.clone(), networks)
    })
    .collect()
}

/// No LAN is larger than 10.0.0.0/8 or a provider's prefix: one that claims to be would include the
/// Internet.
fn is_small(net: &IpNet) -> bool {
    net.prefix_len() >= if net.addr().is_ipv4() { 8 } else { 32 }
}

fn links(config: &Config, host: &HostNetwork) -> Vec<(String, Vec<IpAddr>)> {
    let mut found: Vec<(String, Vec<IpAddr>)> = Vec::new();
    for link in &config.links {
        let device = host.device_of(&link.binding).ok().flatten();
        let named = link.binding.interface.as_ref().map(ToString::to_string);
        let Some(name) = device.map(|device| device.name.clone()).or(named) else { continue };
        if found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let own = |interface| device.is_some_and(|device| device.index == interface);
        let own = host.addresses.iter().filter(|address| own(address.interface));
        let mut addresses: Vec<IpAddr> = own.map(|address| address.net.addr()).collect();
        addresses.sort();
        addresses.dedup();
        found.push((name, addresses));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_linux::netlink::{Address, Link, Route};
    use std::path::Path;

    fn config(gone: &str) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
             [[link]]\nname = \"a\"\ninterface = \"eth0\"\nfwmark = 17\n\
             [[link]]\nname = \"b\"\ninterface = \"ppp0\"\n\
             [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
             endpoints = [\"192.0.2.1:1\"]\nallowed_ips = [\"0.0.0.0/0\"]\n\
             [routing]\ndefault_route = true\nwhen_concentrator_gone = \"{gone}\"\nmasquerade = true\n\
             untranslated = [\"203.0.113.0/28\"]"
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
            loopback: name == "lo",
            ..Link::default()
        };
        let address = |interface, net: &str| Address {
            interface,
            net: net.parse().unwrap(),
            global: true,
            preferred: true,
            valid_for: None,
        };
        let names = ["lo", "eth0", "lan0", "wwan0", "braid0"];
        HostNetwork {
            links: (1..).zip(names).map(|(index, name)| device(index, name)).collect(),
            addresses: vec![
                address(1, "127.0.0.1/8"),
                address(2, "192.168.1.5/24"),
                address(3, "192.168.50.1/24"),
                address(3, "64.0.0.1/2"),
                address(4, "10.9.0.2/24"),
                address(5, "10.77.0.2/24"),
            ],
            default_routes: vec![Route {
                interface: Some(4),
                ..Route::to("0.0.0.0/0".parse().unwrap())
            }],
            ..HostNetwork::default()
        }
    }

    #[test]
    fn the_lan_is_what_is_on_devices_that_are_no_way_out() {
        let kill = of(&config("block"), &host()).unwrap();
        let networks = ["192.168.50.0/24", "203.0.113.0/28"].map(|net| net.parse().unwrap());
        assert_eq!(kill.lan, [("lan0".to_owned(), networks.to_vec())]);
        let own = vec!["192.168.1.5".parse().unwrap()];
        assert_eq!(kill.links, [("eth0".to_owned(), own), ("ppp0".to_owned(), Vec::new())]);
        assert!(kill.marks.contains(&(17, u32::MAX)));
        let mark = super::super::host_numbers::mark("braid0");
        assert!(kill.marks.iter().any(|(wanted, bits)| mark & bits == *wanted));
    }

    #[test]
    fn there_is_none_unless_it_is_asked_for() {
        assert_eq!(of(&config("direct"), &host()), None);
        assert_eq!(alone(&config("direct"), &host()), None);
        let alone = alone(&config("block"), &HostNetwork::default());
        let Some(Operation::Firewall(table)) = alone else { panic!("{alone:?}") };
        assert!(table.ruleset.contains("drop"), "before anything is known of the host: {table:?}");
    }
}
