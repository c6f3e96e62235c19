//! Debian's ifupdown (interfaces(5)), with ifenslave's options for bonds.

use super::{Exported, Format, Inexpressible, head};
use crate::carrier;
use crate::operation::{DeviceKind, Operation};
use crate::{BondMode, Bonding, Engine, Group, LacpRate, Monitor, Over};
use std::fmt::Write;

pub(super) fn export(group: &Group) -> Result<Vec<Exported>, Inexpressible> {
    match &group.engine {
        Engine::Bonding(bonding) if !matches!(group.over, Over::WireGuard { .. }) => {
            Ok(bond(group, bonding))
        }
        Engine::Bonding(_) => Err(Format::Ifupdown.lacks("Ethernet in GRE in WireGuard")),
        // Its own options are only for bonds; the rest are commands, which it can run.
        Engine::Team(_)
        | Engine::Teql
        | Engine::Ecmp(_)
        | Engine::Mptcp(_)
        | Engine::PppoeMultilink(_)
        | Engine::Pcc(_) => Err(Format::Ifupdown.lacks_engine(group)),
    }
}

fn bond(group: &Group, bonding: &Bonding) -> Vec<Exported> {
    let ports = carrier::carry(group).ports;
    let mut text = head(group, "#");
    text.push_str("# Needs the package ifenslave.\n\n");
    let setup = group.setup();
    for operation in &setup.operations {
        if let Operation::Create { device, kind } = operation {
            text.push_str(&tunnel(device.as_str(), kind));
        }
    }
    let names: Vec<String> = ports.iter().map(|port| port.device.to_string()).collect();
    let v4 = group.addresses.iter().find(|net| net.addr().is_ipv4());
    let method = if v4.is_some() { "static" } else { "manual" };
    // Writing to a String can't fail.
    let _ = write!(text, "auto {0}\niface {0} inet {method}\n", group.name);
    text.extend(v4.map(|net| format!("    address {net}\n")));
    if group.over != Over::Direct {
        // Before ifenslave gives it ports, whose MTU it sets.
        text.extend(group.own_mtu(&ports).map(|mtu| {
            let name = &group.name;
            format!("    pre-up ip link add {name} mtu {mtu} type bond || ip link set {name} mtu {mtu}\n")
        }));
    }
    let _ = write!(text, "    bond-slaves {}\n    bond-mode {}\n", names.join(" "), bonding.mode);
    text.push_str(&monitor(&bonding.monitor));
    text.push_str(&mode(group, bonding));
    for operation in &setup.operations {
        match operation {
            Operation::Primary { port, .. } => {
                let _ = writeln!(text, "    bond-primary {port}");
            }
            Operation::Mtu { device, mtu } if *device == group.name => {
                let _ = writeln!(text, "    mtu {mtu}");
            }
            Operation::Route(route) if route.device.as_deref() == Some(group.name.as_str()) => {
                let via = route.gateway.map(|ip| format!(" via {ip}")).unwrap_or_default();
                let _ = writeln!(
                    text,
                    "    up ip route add {}{via} dev {} metric {}",
                    route.destination, group.name, route.metric
                );
            }
            _ => {}
        }
    }
    for net in group.addresses.iter().filter(|net| net.addr().is_ipv6()) {
        let _ = write!(text, "\niface {} inet6 static\n    address {net}\n", group.name);
    }
    let path = format!("/etc/network/interfaces.d/{}", group.name);
    vec![Exported { path, contents: text }]
}

fn monitor(monitor: &Monitor) -> String {
    match monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => format!(
            "    bond-miimon {interval_ms}\n    bond-updelay {up_delay_ms}\n    bond-downdelay {down_delay_ms}\n"
        ),
        Monitor::Arp { interval_ms, targets, validate } => {
            let targets: Vec<String> = targets.iter().map(|target| format!("+{target}")).collect();
            let validate = if *validate { "    bond-arp-validate all\n" } else { "" };
            format!(
                "    bond-arp-interval {interval_ms}\n    bond-arp-ip-target {}\n{validate}",
                targets.join(" ")
            )
        }
    }
}

/// Options that only some modes have.
fn mode(group: &Group, bonding: &Bonding) -> String {
    let mut text = String::new();
    if bonding.mode.hashes() {
        let _ = writeln!(text, "    bond-xmit-hash-policy {}", bonding.hash);
    }
    match bonding.mode {
        BondMode::Ieee8023ad => {
            let rate = if bonding.lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
            let _ = writeln!(text, "    bond-lacp-rate {rate}");
            if bonding.min_links > 0 {
                // ifenslave has no option for it.
                let _ = writeln!(
                    text,
                    "    up echo {} > /sys/class/net/{}/bonding/min_links",
                    bonding.min_links, group.name
                );
            }
        }
        BondMode::BalanceRr => {
            let _ = writeln!(text, "    bond-packets-per-slave {}", bonding.packets_per_port);
        }
        mode if mode.has_active_port() => {
            let _ = writeln!(text, "    bond-primary-reselect {}", bonding.primary_reselect);
        }
        _ => {}
    }
    text
}

fn tunnel(device: &str, kind: &DeviceKind) -> String {
    let add = match kind {
        DeviceKind::Gretap { local, remote, key, via } => {
            let via = via.as_ref().map(|via| format!(" dev {via}")).unwrap_or_default();
            format!("{} local {local} remote {remote} key {key} ttl 64{via}", kind.word())
        }
        DeviceKind::Vxlan { id, local, remote, port, via } => {
            format!("vxlan id {id} local {local} remote {remote} dstport {port} ttl 64 dev {via}")
        }
        DeviceKind::Bond(_) | DeviceKind::WireGuard { .. } => return String::new(),
    };
    format!(
        "auto {device}\niface {device} inet manual\n    pre-up ip link add {device} type {add}\n    post-down ip link del {device}\n\n"
    )
}
