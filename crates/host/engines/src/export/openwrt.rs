//! OpenWrt: UCI sections for netifd, as a batch for `uci`.

use super::{Exported, Format, Inexpressible, head};
use crate::carrier;
use crate::port::Port;
use crate::{BondMode, Bonding, Classifier, Engine, Family, Group, LacpRate, Monitor, Over, Pcc};
use std::fmt::Write;

pub(super) fn export(group: &Group) -> Result<Vec<Exported>, Inexpressible> {
    match &group.engine {
        Engine::Bonding(bonding) => bond(group, bonding),
        Engine::Pcc(pcc) => mwan3(group, pcc),
        Engine::Team(_)
        | Engine::Teql
        | Engine::Ecmp(_)
        | Engine::Mptcp(_)
        | Engine::PppoeMultilink(_) => Err(Format::Openwrt.lacks_engine(group)),
    }
}

/// `proto bonding` of the package proto-bonding.
fn bond(group: &Group, bonding: &Bonding) -> Result<Vec<Exported>, Inexpressible> {
    if bonding.mode == BondMode::BalanceRr && bonding.packets_per_port != 1 {
        return Err(Format::Openwrt.lacks("packets_per_link other than 1"));
    }
    if matches!(group.over, Over::WireGuard { .. } | Over::Vxlan { .. }) {
        return Err(Format::Openwrt.lacks("a bond over VXLAN or WireGuard"));
    }
    let mut text = head(group, "#");
    text.push_str("# opkg install proto-bonding kmod-bonding");
    if group.over != Over::Direct {
        text.push_str(" gre kmod-gre");
    }
    text.push('\n');
    let name = group.name.as_str();
    let mut set = |line: String| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{line}");
    };
    set(format!("set network.{name}=interface"));
    set(format!("set network.{name}.proto='bonding'"));
    set(format!("set network.{name}.bonding_policy='{}'", bonding.mode));
    let ports = carrier::carry(group).ports;
    let mut slaves = Vec::new();
    for (link, port) in group.links.iter().zip(&ports) {
        if port.device == link.device {
            slaves.push(port.device.to_string());
            continue;
        }
        let section = format!("{name}_g{}", link.number);
        let remote = link.remote.map(|ip| ip.to_string()).unwrap_or_default();
        let egress = link.egress(Family::V4);
        let local = egress.map(|it| it.source.addr().to_string()).unwrap_or_default();
        set(format!("set network.{section}=interface"));
        set(format!("set network.{section}.proto='gretap'"));
        set(format!("set network.{section}.ipaddr='{local}'"));
        set(format!("set network.{section}.peeraddr='{remote}'"));
        set(format!("set network.{section}.ikey='{}'", group.numbers.tunnel + link.number));
        set(format!("set network.{section}.okey='{}'", group.numbers.tunnel + link.number));
        // The name that netifd gives its device.
        slaves.push(format!("gre4t-{section}"));
    }
    for slave in &slaves {
        set(format!("add_list network.{name}.slaves='{slave}'"));
    }
    match &bonding.monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => {
            set(format!("set network.{name}.link_monitoring='mii'"));
            set(format!("set network.{name}.miimon='{interval_ms}'"));
            set(format!("set network.{name}.updelay='{up_delay_ms}'"));
            set(format!("set network.{name}.downdelay='{down_delay_ms}'"));
        }
        Monitor::Arp { interval_ms, targets, .. } => {
            set(format!("set network.{name}.link_monitoring='arp'"));
            set(format!("set network.{name}.arp_interval='{interval_ms}'"));
            for target in targets {
                set(format!("add_list network.{name}.arp_ip_target='{target}'"));
            }
        }
    }
    if bonding.mode.hashes() {
        set(format!("set network.{name}.xmit_hash_policy='{}'", bonding.hash));
    }
    if bonding.mode == BondMode::Ieee8023ad {
        let rate = if bonding.lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
        set(format!("set network.{name}.lacp_rate='{rate}'"));
        set(format!("set network.{name}.min_links='{}'", bonding.min_links));
    }
    for net in group.addresses.iter().filter(|net| net.addr().is_ipv4()) {
        set(format!("set network.{name}.ipaddr='{}'", net.addr()));
        set(format!("set network.{name}.netmask='{}'", net.netmask()));
    }
    for (route, number) in group.routes.iter().filter(|net| net.addr().is_ipv4()).zip(1..) {
        let section = format!("{name}_r{number}");
        set(format!("set network.{section}=route"));
        set(format!("set network.{section}.interface='{name}'"));
        set(format!("set network.{section}.target='{}'", route.trunc()));
        if let Some(gateway) = group.gateway {
            set(format!("set network.{section}.gateway='{gateway}'"));
        }
    }
    set("commit network".into());
    Ok(vec![Exported { path: format!("{name}.uci"), contents: text }])
}

/// mwan3: its members and policies by weight, with ping as check. The links are
/// the interfaces `a`, `b`… of /etc/config/network by their names here.
fn mwan3(group: &Group, pcc: &Pcc) -> Result<Vec<Exported>, Inexpressible> {
    if pcc.classifier != Classifier::Turns {
        return Err(Format::Openwrt.lacks(format_args!("the classifier {}", pcc.classifier)));
    }
    if group.over != Over::Direct {
        return Err(Format::Openwrt.lacks("tunnels under mwan3"));
    }
    let ports = carrier::carry(group).ports;
    let mut text = head(group, "#");
    text.push_str("# opkg install mwan3. The links must be interfaces of /etc/config/network.\n");
    for port in &ports {
        let name = section(port);
        let _ = writeln!(text, "set mwan3.{name}=interface\nset mwan3.{name}.enabled='1'");
        let _ = writeln!(text, "set mwan3.{name}.family='ipv4'\nset mwan3.{name}.reliability='1'");
        if let Some(gateway) = port.egress(Family::V4).and_then(|egress| egress.gateway) {
            let _ = writeln!(text, "add_list mwan3.{name}.track_ip='{gateway}'");
        }
        let member = format!("{name}_m");
        let metric = if port.standby { 2 } else { 1 };
        let _ = write!(
            text,
            "set mwan3.{member}=member\nset mwan3.{member}.interface='{name}'\nset mwan3.{member}.metric='{metric}'\nset mwan3.{member}.weight='{}'\n",
            port.weight
        );
    }
    let policy = group.name.as_str().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let _ = writeln!(text, "set mwan3.{policy}=policy");
    for port in &ports {
        let _ = writeln!(text, "add_list mwan3.{policy}.use_member='{}_m'", section(port));
    }
    for (route, number) in group.routes.iter().filter(|net| net.addr().is_ipv4()).zip(1..) {
        let rule = format!("{policy}_r{number}");
        let _ = write!(
            text,
            "set mwan3.{rule}=rule\nset mwan3.{rule}.dest_ip='{}'\nset mwan3.{rule}.family='ipv4'\nset mwan3.{rule}.proto='all'\nset mwan3.{rule}.use_policy='{policy}'\n",
            route.trunc()
        );
    }
    text.push_str("commit mwan3\n");
    Ok(vec![Exported { path: format!("{}.uci", group.name), contents: text }])
}

/// UCI's names are letters, digits and `_`.
fn section(port: &Port) -> String {
    port.link.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
