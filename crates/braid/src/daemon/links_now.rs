//! The current state of links, for commands that only show them.

use super::egress::HostNetwork;
use braid_control::config::{Config, DeviceName, GroupConfig, LinkBinding};
use braid_engines::{Egress, Over};
use braid_linux::netlink::{Link, Netlink};
use std::io;
use std::net::IpAddr;

/// A link, as the host has it.
pub struct LinkNow {
    /// Its name.
    pub name: String,
    /// The device that it leaves by; `None` if only a mark decides.
    pub device: Option<Link>,
    /// Its addresses and routers, at most one for each IP version.
    pub egresses: Vec<Egress>,
    /// The other end, if its address is known.
    pub remote: Option<IpAddr>,
    /// Why it can't be used now.
    pub trouble: Option<String>,
}

/// The links of a group that an engine of the kernel joins.
pub fn of_group(config: &GroupConfig) -> io::Result<Vec<LinkNow>> {
    let host = HostNetwork::observe(&mut Netlink::open()?)?;
    let group = &config.group;
    // Ports of a device need no address of their own.
    let sends = group.over != Over::Direct || group.engine.kind().routes();
    let links = group.links.iter().zip(&config.egresses).map(|(link, given)| {
        let binding = LinkBinding {
            source: given.source,
            gateway: given.gateway,
            ..by_device(link.device.as_str())
        };
        look(&host, &link.name, &binding, link.remote, sends)
    });
    Ok(links.collect())
}

/// The links of a tunnel; the other end is the first endpoint that needs no look-up.
pub fn of_tunnel(config: &Config) -> io::Result<Vec<LinkNow>> {
    let host = HostNetwork::look(&mut Netlink::open()?, config)?;
    let mut endpoints = config.peers.iter().flat_map(|peer| &peer.endpoints);
    let remote = endpoints.find_map(|endpoint| endpoint.address()).map(|address| address.ip());
    let links = config
        .links
        .iter()
        .map(|link| look(&host, link.name.as_str(), &link.binding, remote, true));
    Ok(links.collect())
}

/// Links that are devices and nothing more.
pub fn of_devices<'a>(devices: impl Iterator<Item = &'a str>) -> io::Result<Vec<LinkNow>> {
    let host = HostNetwork::observe(&mut Netlink::open()?)?;
    Ok(devices.map(|name| look(&host, name, &by_device(name), None, true)).collect())
}

fn by_device(name: &str) -> LinkBinding {
    let interface: Option<DeviceName> = name.parse().ok();
    LinkBinding { interface, ..LinkBinding::default() }
}

fn look(
    host: &HostNetwork,
    name: &str,
    binding: &LinkBinding,
    remote: Option<IpAddr>,
    sends: bool,
) -> LinkNow {
    let device = host.device_of(binding).map(|device| device.cloned());
    let egresses = host.egresses(binding).map(|egresses| host.with_networks(egresses));
    let trouble = match (&device, &egresses) {
        (Err(why), _) => Some(why.clone()),
        (_, Err(why)) if sends => Some(why.clone()),
        // An engine sets its ports up itself; only then does the carrier show.
        (Ok(Some(device)), _) if device.up && !device.carrier => {
            Some(format!("{} has no carrier", device.name))
        }
        _ => None,
    };
    LinkNow {
        name: name.to_owned(),
        device: device.ok().flatten(),
        egresses: egresses.unwrap_or_default(),
        remote,
        trouble,
    }
}
