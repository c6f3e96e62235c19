//! systemd-networkd (systemd.netdev(5), systemd.network(5)).

use super::{Exported, Format, Inexpressible, head};
use crate::carrier;
use crate::operation::{DeviceKind, Operation};
use crate::port::Port;
use crate::{BondMode, Bonding, Engine, Family, Group, LacpRate, Monitor, Over};
use std::fmt::Write;
use std::net::IpAddr;

pub(super) fn export(group: &Group) -> Result<Vec<Exported>, Inexpressible> {
    match &group.engine {
        Engine::Bonding(bonding) => bond(group, bonding),
        Engine::Ecmp(ecmp) => {
            if ecmp.resilient.is_some() {
                return Err(Format::Networkd.lacks("resilient next-hop groups"));
            }
            if ecmp.masquerade {
                return Err(Format::Networkd.lacks("address translation a link"));
            }
            Ok(ecmp_files(group))
        }
        Engine::Team(_)
        | Engine::Teql
        | Engine::Mptcp(_)
        | Engine::PppoeMultilink(_)
        | Engine::Pcc(_) => Err(Format::Networkd.lacks_engine(group)),
    }
}

fn bond(group: &Group, bonding: &Bonding) -> Result<Vec<Exported>, Inexpressible> {
    if matches!(group.over, Over::WireGuard { .. }) {
        return Err(Format::Networkd.lacks("Ethernet in GRE in WireGuard in one device"));
    }
    let ports = carrier::carry(group).ports;
    let mut files = vec![file(group, "10", "netdev", &bond_netdev(group, bonding, &ports))];
    let setup = group.setup();
    for operation in &setup.operations {
        if let Operation::Create { device, kind } = operation
            && !matches!(kind, DeviceKind::Bond(_))
        {
            let contents = tunnel_netdev(device.as_str(), kind);
            files.push(named(group, &format!("11-{device}.netdev"), &contents));
        }
    }
    let primary = setup.operations.iter().find_map(|operation| match operation {
        Operation::Primary { port, .. } => Some(port),
        _ => None,
    });
    for (link, port) in group.links.iter().zip(&ports) {
        if port.device != link.device {
            let word = if matches!(group.over, Over::Vxlan { .. }) { "VXLAN" } else { "Tunnel" };
            let contents = format!(
                "[Match]\nName={}\n\n[Network]\n# Beside its own addresses and routes.\n{word}={}\n",
                link.device, port.device
            );
            files.push(named(group, &format!("20-{}.network", link.device), &contents));
        }
        let mut contents =
            format!("[Match]\nName={}\n\n[Network]\nBond={}\n", port.device, group.name);
        if primary == Some(&port.device) {
            contents.push_str("PrimarySlave=true\n");
        }
        files.push(named(group, &format!("20-{}.network", port.device), &contents));
    }
    files.push(file(group, "30", "network", &own_network(group)));
    Ok(files)
}

fn bond_netdev(group: &Group, bonding: &Bonding, ports: &[Port]) -> String {
    let mut text = format!("[NetDev]\nName={}\nKind=bond\n", group.name);
    text.extend(group.own_mtu(ports).map(|mtu| format!("MTUBytes={mtu}\n")));
    // Writing to a String can't fail.
    let _ = write!(text, "\n[Bond]\nMode={}\n", bonding.mode);
    match &bonding.monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => {
            let _ = writeln!(text, "MIIMonitorSec={interval_ms}ms");
            if *up_delay_ms > 0 || *down_delay_ms > 0 {
                let _ =
                    write!(text, "UpDelaySec={up_delay_ms}ms\nDownDelaySec={down_delay_ms}ms\n");
            }
        }
        Monitor::Arp { interval_ms, targets, validate } => {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let _ = write!(
                text,
                "ARPIntervalSec={interval_ms}ms\nARPIPTargets={}\n",
                targets.join(" ")
            );
            if *validate {
                text.push_str("ARPValidate=all\n");
            }
        }
    }
    if bonding.mode.hashes() {
        let _ = writeln!(text, "TransmitHashPolicy={}", bonding.hash);
    }
    match bonding.mode {
        BondMode::Ieee8023ad => {
            let rate = if bonding.lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
            let _ = writeln!(text, "LACPTransmitRate={rate}\nMinLinks={}", bonding.min_links);
        }
        BondMode::BalanceRr => {
            let _ = writeln!(text, "PacketsPerSlave={}", bonding.packets_per_port);
        }
        mode if mode.has_active_port() => {
            let _ = writeln!(text, "PrimaryReselectPolicy={}", bonding.primary_reselect);
        }
        _ => {}
    }
    let _ = writeln!(
        text,
        "ResendIGMP={}\nGratuitousARP={}",
        bonding.resend_igmp, bonding.peer_notifications
    );
    text
}

fn tunnel_netdev(device: &str, kind: &DeviceKind) -> String {
    match kind {
        DeviceKind::Gretap { local, remote, key, .. } => format!(
            "[NetDev]\nName={device}\nKind={}\n\n[Tunnel]\nLocal={local}\nRemote={remote}\nKey={key}\nTTL=64\n",
            kind.word()
        ),
        DeviceKind::Vxlan { id, local, remote, port, .. } => format!(
            "[NetDev]\nName={device}\nKind=vxlan\n\n[VXLAN]\nVNI={id}\nLocal={local}\nRemote={remote}\nDestinationPort={port}\nTTL=64\n"
        ),
        DeviceKind::Bond(_) | DeviceKind::WireGuard { .. } => String::new(),
    }
}

fn own_network(group: &Group) -> String {
    let mut text = format!("[Match]\nName={}\n\n[Network]\n", group.name);
    for address in &group.addresses {
        let _ = writeln!(text, "Address={address}");
    }
    for operation in group.setup().operations {
        if let Operation::Route(route) = operation
            && route.device.as_deref() == Some(group.name.as_str())
        {
            let _ = write!(text, "\n[Route]\nDestination={}\n", route.destination);
            text.extend(route.gateway.map(|gateway| format!("Gateway={gateway}\n")));
            let _ = writeln!(text, "Metric={}", route.metric);
        }
    }
    text
}

/// Each link's own addresses and routes, and one multipath route: networkd has no group that
/// spans several files, so the route lists its hops.
fn ecmp_files(group: &Group) -> Vec<Exported> {
    let ports = carrier::carry(group).ports;
    let mut files: Vec<Exported> = ports
        .iter()
        .filter(|port| group.over == Over::Direct || port.egresses.is_empty())
        .map(|port| {
            named(group, &format!("20-{}.network", port.device), &link_network(group, port))
        })
        .collect();
    let setup = group.setup();
    if group.over != Over::Direct {
        for operation in &setup.operations {
            if let Operation::Create { device, kind } = operation {
                let contents = tunnel_netdev(device.as_str(), kind);
                files.push(named(group, &format!("11-{device}.netdev"), &contents));
            }
        }
        files.extend(ports.iter().map(|port| {
            named(group, &format!("20-{}.network", port.device), &link_network(group, port))
        }));
    }
    let mut lo = "[Match]\nName=lo\n\n[Network]\n".to_owned();
    for address in &group.addresses {
        let _ = writeln!(lo, "Address={address}");
    }
    for route in &group.routes {
        let family = Family::of(route.addr());
        let hops: Vec<(IpAddr, &Port)> =
            ports.iter().filter_map(|port| Some((port.egress(family)?.gateway?, port))).collect();
        let _ = write!(lo, "\n[Route]\nDestination={}\nMetric=50\n", route.trunc());
        for (gateway, port) in hops {
            let _ = writeln!(lo, "MultiPathRoute={gateway}@{} {}", port.device, port.weight);
        }
    }
    files.push(file(group, "30", "network", &lo));
    let sysctl: String = setup
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Sysctl { key, value } => Some(format!("{key} = {value}\n")),
            _ => None,
        })
        .collect();
    let path = format!("/etc/sysctl.d/50-{}.conf", group.name);
    files.push(Exported { path, contents: head(group, "#") + &sysctl });
    files
}

/// A link's address, and its own table for packets with that address.
fn link_network(group: &Group, port: &Port) -> String {
    let mut text = format!("[Match]\nName={}\n\n[Network]\n", port.device);
    for egress in &port.egresses {
        let _ = writeln!(text, "Address={}", egress.source);
    }
    let table = crate::policy::table(group, port);
    for egress in &port.egresses {
        if let Some(gateway) = egress.gateway {
            let _ = write!(text, "\n[Route]\nGateway={gateway}\nTable={table}\n");
            if egress.is_beyond() {
                text.push_str("GatewayOnLink=true\n");
            }
        }
        let source = egress.source.addr();
        let priority = group.numbers.priority + crate::numbers::OUTER + port.number;
        let _ = write!(
            text,
            "\n[RoutingPolicyRule]\nFrom={source}\nTable={table}\nPriority={priority}\n"
        );
    }
    text
}

fn file(group: &Group, order: &str, kind: &str, contents: &str) -> Exported {
    named(group, &format!("{order}-{}.{kind}", group.name), contents)
}

fn named(group: &Group, name: &str, contents: &str) -> Exported {
    Exported { path: format!("/etc/systemd/network/{name}"), contents: head(group, "#") + contents }
}
