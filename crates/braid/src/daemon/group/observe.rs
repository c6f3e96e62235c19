//! Reads a group's links from the host's network.

use super::super::egress::HostNetwork;
use super::view::View;
use braid_control::config::{DeviceName, GivenEgress, GroupConfig, LinkBinding};
use braid_control::group_status::{DeviceStatus, GroupLinkStatus};
use braid_engines::{Egress, Group, GroupLink, Over};
use braid_linux::netlink::{Link, Netlink};

/// The group as it can be set up now, and why links are left out, by number.
pub fn group(config: &GroupConfig, host: &HostNetwork) -> (Group, Vec<(u32, String)>) {
    let mut missing = Vec::new();
    let mut links = Vec::new();
    for (link, given) in config.group.links.iter().zip(&config.egresses) {
        match present(&config.group, link, *given, host) {
            Ok(link) => links.push(link),
            Err(why) => missing.push((link.number, why)),
        }
    }
    (Group { links, ..config.group.clone() }, missing)
}

/// The group with all its links; those that are away keep their settings from the config.
pub fn observed(config: &GroupConfig, host: &HostNetwork) -> Group {
    let links = config.group.links.iter().zip(&config.egresses).map(|(link, given)| {
        present(&config.group, link, *given, host).unwrap_or_else(|_| {
            let egress =
                given.source.map(|source| Egress { source: source.into(), gateway: given.gateway });
            GroupLink { egresses: egress.into_iter().collect(), ..link.clone() }
        })
    });
    Group { links: links.collect(), ..config.group.clone() }
}

fn present(
    group: &Group,
    link: &GroupLink,
    given: GivenEgress,
    host: &HostNetwork,
) -> Result<GroupLink, String> {
    let device = host.links.iter().find(|device| device.name == link.device.as_str());
    let device = device.ok_or_else(|| format!("there is no device {}", link.device))?;
    let link = GroupLink { mtu: device.mtu, ..link.clone() };
    if group.over == Over::Direct && !group.engine.kind().routes() {
        // A port needs no address, and its engine watches its carrier.
        return Ok(link);
    }
    let interface: DeviceName = link
        .device
        .as_str()
        .parse()
        .map_err(|error: braid_control::config::NameError| error.to_string())?;
    let binding = LinkBinding {
        interface: Some(interface),
        source: given.source,
        gateway: given.gateway,
        ..LinkBinding::default()
    };
    let egresses = host.with_networks(host.egresses(&binding)?);
    Ok(GroupLink { egresses, ..link })
}

/// The group's device and its links, as they are now.
pub fn devices(config: &GroupConfig, view: &View) -> (Option<DeviceStatus>, Vec<GroupLinkStatus>) {
    let found = Netlink::open().and_then(|mut netlink| netlink.links()).unwrap_or_default();
    let status = |name: &str| found.iter().find(|link| link.name == name).map(device_status);
    let own = config.group.engine.kind().has_device();
    let usable = |link: &GroupLink| {
        let left_out = view.left_out.iter().any(|(number, _)| *number == link.number);
        let device = found.iter().find(|device| device.name == link.device.as_str());
        !left_out && device.is_some_and(|device| device.up && device.carrier && !device.is_backup)
    };
    // If routes join the links, a standby link has none while another works.
    let others = config.group.links.iter().any(|link| !link.standby && usable(link));
    let links = config.group.links.iter().map(|link| {
        let waits = !own && link.standby && others;
        let trouble = view.left_out.iter().find(|(number, _)| *number == link.number);
        let device = status(link.device.as_str());
        let no_carrier = device.as_ref().is_some_and(|device| !device.carrier);
        let trouble = trouble
            .map(|(_, why)| why.clone())
            .or_else(|| no_carrier.then(|| format!("{} has no carrier", link.device)));
        GroupLinkStatus {
            name: link.name.clone(),
            interface: link.device.to_string(),
            used: trouble.is_none(),
            active: trouble.is_none() && usable(link) && !waits,
            trouble,
            weight: link.weight.get(),
            standby: link.standby,
            device,
        }
    });
    let device = own.then(|| status(config.group.name.as_str())).flatten();
    (device, links.collect())
}

fn device_status(link: &Link) -> DeviceStatus {
    DeviceStatus {
        carrier: link.up && link.carrier,
        mtu: link.mtu,
        rx_bytes: link.received_bytes,
        tx_bytes: link.sent_bytes,
        rx_packets: link.received_packets,
        tx_packets: link.sent_packets,
    }
}
