//! netplan (netplan-yaml(5)), with networkd as its backend.

use super::{Exported, Format, Inexpressible, head};
use crate::carrier;
use crate::operation::{DeviceKind, Operation};
use crate::{BondMode, Bonding, Engine, Group, LacpRate, Monitor, Over};
use std::fmt::Write;

pub(super) fn export(group: &Group) -> Result<Vec<Exported>, Inexpressible> {
    let Engine::Bonding(bonding) = &group.engine else {
        return Err(Format::Netplan.lacks_engine(group));
    };
    if matches!(group.over, Over::WireGuard { .. }) {
        return Err(Format::Netplan.lacks("Ethernet in GRE in WireGuard as ports of a bond"));
    }
    let mut text = head(group, "#");
    text.push_str("# chmod 600: netplan warns of files that others may read.\n");
    text.push_str("network:\n  version: 2\n  renderer: networkd\n");
    if group.over == Over::Direct {
        text.push_str("  ethernets:\n");
        for link in &group.links {
            // Writing to a String can't fail.
            let _ = writeln!(text, "    {}:\n      dhcp4: false\n      dhcp6: false", link.device);
        }
    } else {
        if matches!(group.over, Over::Vxlan { .. }) {
            // A VXLAN refers to its link, which must be defined; netplan merges this with other
            // files' definitions.
            text.push_str("  ethernets:\n");
            text.extend(group.links.iter().map(|link| format!("    {}: {{}}\n", link.device)));
        }
        text.push_str("  tunnels:\n");
        for operation in &group.setup().operations {
            if let Operation::Create { device, kind } = operation {
                text.push_str(&tunnel(device.as_str(), kind));
            }
        }
    }
    text.push_str(&bond(group, bonding));
    let path = format!("/etc/netplan/50-{}.yaml", group.name);
    Ok(vec![Exported { path, contents: text }])
}

fn tunnel(device: &str, kind: &DeviceKind) -> String {
    match kind {
        DeviceKind::Gretap { local, remote, key, .. } => format!(
            "    {device}:\n      mode: {}\n      local: {local}\n      remote: {remote}\n      key: {key}\n      ttl: 64\n",
            kind.word()
        ),
        DeviceKind::Vxlan { id, local, remote, port, via } => format!(
            "    {device}:\n      mode: vxlan\n      id: {id}\n      link: {via}\n      local: {local}\n      remote: {remote}\n      port: {port}\n      ttl: 64\n"
        ),
        DeviceKind::Bond(_) | DeviceKind::WireGuard { .. } => String::new(),
    }
}

fn bond(group: &Group, bonding: &Bonding) -> String {
    let ports = carrier::carry(group).ports;
    let names: Vec<String> = ports.iter().map(|port| port.device.to_string()).collect();
    let mut text = format!(
        "  bonds:\n    {}:\n      interfaces: [{}]\n      parameters:\n        mode: {}\n",
        group.name,
        names.join(", "),
        bonding.mode
    );
    match &bonding.monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => {
            let _ = write!(
                text,
                "        mii-monitor-interval: {interval_ms}\n        up-delay: {up_delay_ms}\n        down-delay: {down_delay_ms}\n"
            );
        }
        Monitor::Arp { interval_ms, targets, validate } => {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let _ = write!(
                text,
                "        arp-interval: {interval_ms}\n        arp-ip-targets: [{}]\n",
                targets.join(", ")
            );
            if *validate {
                text.push_str("        arp-validate: all\n");
            }
        }
    }
    if bonding.mode.hashes() {
        let _ = writeln!(text, "        transmit-hash-policy: {}", bonding.hash);
    }
    match bonding.mode {
        BondMode::Ieee8023ad => {
            let rate = if bonding.lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
            let _ = writeln!(
                text,
                "        lacp-rate: {rate}\n        min-links: {}",
                bonding.min_links
            );
        }
        BondMode::BalanceRr => {
            let _ = writeln!(text, "        packets-per-member: {}", bonding.packets_per_port);
        }
        mode if mode.has_active_port() => {
            let _ = writeln!(text, "        primary-reselect-policy: {}", bonding.primary_reselect);
        }
        _ => {}
    }
    let primary = group.setup().operations.into_iter().find_map(|operation| match operation {
        Operation::Primary { port, .. } => Some(port),
        _ => None,
    });
    text.extend(primary.map(|port| format!("        primary: {port}\n")));
    let _ = write!(
        text,
        "        resend-igmp: {}\n        gratuitous-arp: {}\n",
        bonding.resend_igmp, bonding.peer_notifications
    );
    text.extend(group.own_mtu(&ports).map(|mtu| format!("      mtu: {mtu}\n")));
    if !group.addresses.is_empty() {
        let addresses: Vec<String> =
            group.addresses.iter().map(|net| format!("\"{net}\"")).collect();
        let _ = writeln!(text, "      addresses: [{}]", addresses.join(", "));
    }
    let routes: Vec<String> = group
        .routes
        .iter()
        .filter_map(|route| {
            let gateway = group.gateway.filter(|ip| ip.is_ipv6() == route.addr().is_ipv6())?;
            Some(format!(
                "        - to: \"{}\"\n          via: \"{gateway}\"\n          metric: 50\n",
                route.trunc()
            ))
        })
        .collect();
    if !routes.is_empty() {
        let _ = write!(text, "      routes:\n{}", routes.concat());
    }
    text
}
