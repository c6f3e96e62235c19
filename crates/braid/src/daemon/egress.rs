//! Determines the device, address and gateway of each link from the host's current devices,
//! addresses and routes.

use super::chosen::{Chosen, Interface, choose};
use super::hardware::{CLASS_NET, Hardware};
use super::host_numbers;
use super::network_manager;
use braid_control::config::{Config, LinkBinding, LinkMatch};
use braid_engines::Numbers;
use braid_linux::netlink::{Address, Link, Netlink, Route};
use braid_linux::network_manager::{Connection, active};
use braid_linux::udp::Family;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// The host's network at one moment.
#[derive(Clone, Debug, Default)]
pub struct HostNetwork {
    /// Devices.
    pub links: Vec<Link>,
    /// Addresses of all devices.
    pub addresses: Vec<Address>,
    /// Default routes, best metric first.
    pub default_routes: Vec<Route>,
    /// The interfaces of links that are configured by `match`.
    pub chosen: Chosen,
    /// Names of interfaces that NetworkManager considers metered.
    pub metered: Vec<String>,
}

/// How packets of one IP version leave by a link. A change of any part requires a new socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// IP version.
    pub family: Family,
    /// The device; `None` if only a mark or the host's routes decide.
    pub device: Option<Device>,
    /// The packets' source address, if known.
    pub source: Option<IpAddr>,
    /// The router; `None` on a point-to-point device.
    pub gateway: Option<IpAddr>,
}

/// A device; one that vanished and returned has another index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// Largest packet, bytes.
    pub mtu: u32,
}

impl HostNetwork {
    /// Reads the host's network once, for a tunnel with this config.
    pub fn look(netlink: &mut Netlink, config: &Config) -> io::Result<HostNetwork> {
        let mut host = HostNetwork::observe(netlink)?;
        let connections = match network_manager::is_asked_for(config) {
            true => active().unwrap_or_default(),
            false => Vec::new(),
        };
        host.choose(config, &connections, &Chosen::default());
        Ok(host)
    }

    /// Applies NetworkManager's data, and chooses the links' interfaces again; `before` are the
    /// previous ones.
    pub fn choose(&mut self, config: &Config, connections: &[Connection], before: &Chosen) {
        let metered = connections.iter().filter(|connection| connection.metered);
        self.metered = metered.map(|connection| connection.interface.clone()).collect();
        let bindings = || config.links.iter().map(|link| &link.binding);
        let wanted: Vec<&LinkMatch> = bindings().filter_map(|it| it.matches.as_ref()).collect();
        if wanted.is_empty() {
            return;
        }
        let named = bindings().filter(|binding| binding.matches.is_none());
        let taken: Vec<u32> =
            named.filter_map(|it| Some(self.device_of(it).ok()??.index)).collect();
        let own = config.interface.name.as_str();
        let free = self
            .links
            .iter()
            .filter(|link| !link.loopback && link.name != own && !taken.contains(&link.index));
        let interfaces: Vec<Interface> = free.map(|link| described(link, connections)).collect();
        self.chosen = choose(&wanted, &interfaces, before);
    }

    /// Reads the host's network, for configs that name devices.
    pub fn observe(netlink: &mut Netlink) -> io::Result<HostNetwork> {
        Ok(HostNetwork {
            links: netlink.links()?,
            addresses: netlink.addresses()?,
            // Our own routes only repeat the host's.
            default_routes: netlink
                .default_routes()?
                .into_iter()
                .filter(|route| {
                    !host_numbers::is_our_table(route.table) && !Numbers::is_ours(route.table)
                })
                .collect(),
            ..HostNetwork::default()
        })
    }

    /// The egresses of a link, one per IP version; or why there is none.
    pub fn egresses(&self, binding: &LinkBinding) -> Result<Vec<Egress>, String> {
        let Some(link) = self.device_of(binding)? else {
            return Ok(self.egresses_without_device(binding));
        };
        if !link.up {
            return Err(format!("{} is down", link.name));
        }
        if !link.carrier {
            return Err(format!("{} has no carrier", link.name));
        }
        let egresses: Vec<Egress> = [Family::V4, Family::V6]
            .into_iter()
            .filter_map(|family| self.egress_by(link, family, binding))
            .collect();
        match egresses.is_empty() {
            true => Err(format!("{} has no address to send from", link.name)),
            false => Ok(egresses),
        }
    }

    /// The device of a link; `None` if only a mark or the host's routes decide.
    pub fn device_of(&self, binding: &LinkBinding) -> Result<Option<&Link>, String> {
        let by_index = |index: u32| self.links.iter().find(|link| link.index == index);
        if let Some(name) = &binding.interface {
            let link = self.links.iter().find(|link| link.name == name.as_str());
            return link.map(Some).ok_or_else(|| format!("there is no device {name}"));
        }
        if let Some(wanted) = &binding.matches {
            let gone = || format!("no interface matches {wanted}");
            return by_index(self.chosen.of(wanted)?).map(Some).ok_or_else(gone);
        }
        if let Some(source) = binding.source {
            let address = self.addresses.iter().find(|address| address.net.addr() == source);
            let link = address.and_then(|address| by_index(address.interface));
            return link.map(Some).ok_or_else(|| format!("no device has the address {source}"));
        }
        if let Some(gateway) = binding.gateway {
            let beside = self
                .addresses
                .iter()
                .find(|address| address.net.contains(&gateway) && address.net.addr() != gateway);
            let link = beside.and_then(|address| by_index(address.interface));
            return link
                .map(Some)
                .ok_or_else(|| format!("no device is in the network of the gateway {gateway}"));
        }
        Ok(None)
    }

    /// Whether the link's interface is metered, as far as NetworkManager knows.
    pub fn is_metered(&self, binding: &LinkBinding) -> bool {
        let device = self.device_of(binding).ok().flatten();
        device.is_some_and(|device| self.metered.contains(&device.name))
    }

    /// The same with each address' network; egresses without an address are left out.
    pub fn with_networks(&self, egresses: Vec<Egress>) -> Vec<braid_engines::Egress> {
        let network = |egress: Egress| {
            let source = egress.source?;
            let mut nets = self.addresses.iter().map(|address| address.net);
            let net = nets.find(|net| net.addr() == source)?;
            Some(braid_engines::Egress { source: net, gateway: egress.gateway })
        };
        egresses.into_iter().filter_map(network).collect()
    }

    /// Only a mark: the host's own rules decide.
    fn egresses_without_device(&self, binding: &LinkBinding) -> Vec<Egress> {
        let has = |family| {
            self.addresses
                .iter()
                .any(|address| address.global && Family::of(address.net.addr()) == family)
        };
        [Family::V4, Family::V6]
            .into_iter()
            .filter(|family| has(*family) && allows(binding, *family))
            .map(|family| Egress { family, device: None, source: None, gateway: None })
            .collect()
    }

    fn egress_by(&self, link: &Link, family: Family, binding: &LinkBinding) -> Option<Egress> {
        if !allows(binding, family) {
            return None;
        }
        let own = self.addresses.iter().filter(|address| {
            address.interface == link.index && Family::of(address.net.addr()) == family
        });
        let mut usable = own.filter(|address| match binding.source {
            Some(source) => address.net.addr() == source,
            None => address.global && address.preferred,
        });
        let source = usable.next()?.net.addr();
        let gateway = binding.gateway.or_else(|| {
            let mut routes = self.default_routes.iter().filter(|route| {
                route.interface == Some(link.index)
                    && Family::of(route.destination.addr()) == family
            });
            routes.find_map(|route| route.gateway)
        });
        let device = Device { name: link.name.clone(), index: link.index, mtu: link.mtu };
        Some(Egress { family, device: Some(device), source: Some(source), gateway })
    }
}

fn described(link: &Link, connections: &[Connection]) -> Interface {
    let active = connections.iter().find(|it| it.interface == link.name);
    Interface {
        index: link.index,
        name: link.name.clone(),
        works: link.up && link.carrier,
        hardware: Hardware::of(Path::new(CLASS_NET), &link.name, link.hardware),
        connection: active.map(|it| (it.name.clone(), it.uuid.clone())),
    }
}

/// A source or gateway determines the IP version.
fn allows(binding: &LinkBinding, family: Family) -> bool {
    [binding.source, binding.gateway].into_iter().flatten().all(|ip| Family::of(ip) == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostNetwork {
        let link = |index, name: &str, carrier| Link {
            index,
            name: name.into(),
            mtu: 1500,
            up: true,
            carrier,
            ..Link::default()
        };
        let address = |interface, net: &str, global| Address {
            interface,
            net: net.parse().unwrap(),
            global,
            preferred: true,
            valid_for: None,
        };
        let route = |interface, destination: &str, gateway: &str| Route {
            interface: Some(interface),
            gateway: Some(gateway.parse().unwrap()),
            ..Route::to(destination.parse().unwrap())
        };
        HostNetwork {
            links: vec![link(2, "eth0", true), link(3, "wwan0", true), link(4, "usb0", false)],
            addresses: vec![
                address(2, "192.168.1.5/24", true),
                address(2, "2001:db8::5/64", true),
                address(2, "fe80::5/64", false),
                address(3, "10.9.0.2/30", true),
            ],
            default_routes: vec![
                route(2, "0.0.0.0/0", "192.168.1.1"),
                route(2, "::/0", "fe80::1"),
                route(3, "0.0.0.0/0", "10.9.0.1"),
            ],
            ..HostNetwork::default()
        }
    }

    fn binding() -> LinkBinding {
        LinkBinding::default()
    }

    fn summary(egresses: Result<Vec<Egress>, String>) -> String {
        let show = |ip: Option<IpAddr>| ip.map_or("-".to_owned(), |ip| ip.to_string());
        match egresses {
            Err(trouble) => trouble,
            Ok(egresses) => {
                let words = egresses.into_iter().map(|egress| {
                    let device = egress.device.map_or("-".to_owned(), |device| device.name);
                    format!("{device} {} {}", show(egress.source), show(egress.gateway))
                });
                words.collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn each_binding_finds_its_way_or_says_what_is_missing() {
        let device = |name: &str| LinkBinding { interface: name.parse().ok(), ..binding() };
        let from = |ip: &str| LinkBinding { source: ip.parse().ok(), ..binding() };
        let through = |ip: &str| LinkBinding { gateway: ip.parse().ok(), ..binding() };
        for (binding, expected) in [
            (device("eth0"), "eth0 192.168.1.5 192.168.1.1; eth0 2001:db8::5 fe80::1"),
            (device("wwan0"), "wwan0 10.9.0.2 10.9.0.1"),
            (device("ppp0"), "there is no device ppp0"),
            (device("usb0"), "usb0 has no carrier"),
            (from("10.9.0.2"), "wwan0 10.9.0.2 10.9.0.1"),
            (from("10.9.0.9"), "no device has the address 10.9.0.9"),
            (through("192.168.1.254"), "eth0 192.168.1.5 192.168.1.254"),
            (through("172.16.0.1"), "no device is in the network of the gateway 172.16.0.1"),
            (LinkBinding { fwmark: Some(7), ..binding() }, "- - -; - - -"),
            (
                LinkBinding { source: "192.168.1.6".parse().ok(), ..device("eth0") },
                "eth0 has no address to send from",
            ),
        ] {
            assert_eq!(summary(host().egresses(&binding)), expected, "{binding:?}");
        }
    }
}
