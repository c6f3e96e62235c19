//! A shell script: each operation of the set-up as a command, and its undo.

use super::{Exported, head};
use crate::operation::{DeviceKind, Member, Operation, Route, RouteKind, Rule, RuleAction};
use crate::operation::{forwarding_switch, iptables, nft_table};
use crate::{BondMode, Bonding, Family, Group, LacpRate, Monitor, Resilient};
use std::fmt::Write;
use std::path::Path;

pub(super) fn export(group: &Group) -> Vec<Exported> {
    let setup = group.setup();
    let mut up = Vec::new();
    let mut down = Vec::new();
    for operation in &setup.operations {
        let (does, undoes) = lines(operation, group);
        up.extend(does);
        down.splice(0..0, undoes);
    }
    let mut text = String::from("#!/bin/sh\n");
    text.push_str(&head(group, "#"));
    text.push_str("# up sets it up, down undoes it. Unlike `braid up` it doesn't follow changes\n");
    text.push_str("# of addresses, and doesn't notice dead links.\n");
    for note in &setup.notes {
        // Writing to a String can't fail.
        let _ = writeln!(text, "# {note}");
    }
    text.push_str("set -e\n\nup() {\n");
    text.push_str(&body(&up));
    text.push_str("}\n\ndown() {\n    set +e\n");
    text.push_str(&body(&down));
    text.push_str("}\n\ncase \"$1\" in\nup) up ;;\ndown) down ;;\n*) echo \"use: $0 up|down\" >&2; exit 2 ;;\nesac\n");
    vec![Exported { path: format!("{}.sh", group.name), contents: text }]
}

fn body(commands: &[String]) -> String {
    if commands.is_empty() {
        return "    :\n".into();
    }
    let lines = commands.iter().map(|command| match command.contains("<<") {
        // Here-documents aren't indented.
        true => format!("    {command}\n"),
        false => format!("    {}\n", command.replace('\n', "\n    ")),
    });
    lines.collect()
}

/// Commands that apply it, and that undo it.
type Commands = (Vec<String>, Vec<String>);

fn one(up: String, down: String) -> Commands {
    (vec![up], vec![down])
}

fn lines(operation: &Operation, of: &Group) -> Commands {
    match operation {
        Operation::Module { name, .. } => (vec![format!("modprobe {name}")], Vec::new()),
        Operation::Sysctl { key, value } => sysctl(of, key, value),
        Operation::Forwarding(family) => sysctl(of, forwarding_switch(*family), "1"),
        Operation::Create { device, kind } => create(device.as_str(), kind),
        Operation::Mtu { device, mtu } => {
            (vec![format!("ip link set {device} mtu {mtu}")], Vec::new())
        }
        Operation::Enslave { device, master } => enslave(device.as_str(), master.as_str()),
        Operation::Primary { bond, port } => {
            (vec![format!("ip link set {bond} type bond primary {port}")], Vec::new())
        }
        Operation::Up { device } => (vec![format!("ip link set {device} up")], Vec::new()),
        Operation::Down { device } => {
            one(format!("ip link set {device} down"), format!("ip link set {device} up"))
        }
        Operation::Address { device, net } => one(
            format!("ip addr add {net} dev {device}"),
            format!("ip addr del {net} dev {device}"),
        ),
        Operation::Teql { device, teql } => one(
            format!("tc qdisc add dev {device} root {teql}"),
            format!("tc qdisc del dev {device} root"),
        ),
        Operation::NextHop { id, device, gateway, v6, on_link } => {
            let via = gateway.map(|ip| format!(" via {ip}")).unwrap_or_default();
            let flags = if *on_link { " onlink" } else { "" };
            let ip = version(if *v6 { Family::V6 } else { Family::V4 });
            one(
                format!("{ip} nexthop add id {id}{via} dev {device}{flags}"),
                format!("ip nexthop del id {id}"),
            )
        }
        Operation::NextHopGroup { id, members, resilient } => {
            let words = hop_group_words(members, resilient.as_ref());
            one(format!("ip nexthop add id {id} group {words}"), format!("ip nexthop del id {id}"))
        }
        Operation::Route(route) => {
            let (ip, words) = route_words(route);
            one(format!("{ip} route add {words}"), format!("{ip} route del {words}"))
        }
        Operation::Rule(rule) => {
            let words = rule_words(rule);
            let ip = version(rule.family);
            one(format!("{ip} rule add {words}"), format!("{ip} rule del {words}"))
        }
        Operation::Firewall(table) => one(
            format!("nft -f - <<'END'\n{}END", table.ruleset),
            format!("nft delete table inet {}", nft_table(&table.interface)),
        ),
        Operation::DockerUser { family, rule } => {
            let program = iptables(*family);
            one(
                format!("{program} -I DOCKER-USER {rule}"),
                format!("{program} -D DOCKER-USER {rule}"),
            )
        }
        Operation::MptcpLimits { subflows, add_addr_accepted } => one(
            format!(
                "ip mptcp limits set subflows {subflows} add_addr_accepted {add_addr_accepted}"
            ),
            // The kernel's default (net/mptcp/pm_netlink.c).
            "ip mptcp limits set subflows 2 add_addr_accepted 0".into(),
        ),
        Operation::MptcpEndpoint { id, address, device, subflow, signal, backup, fullmesh } => {
            let flags = [
                (*subflow, " subflow"),
                (*signal, " signal"),
                (*backup, " backup"),
                (*fullmesh, " fullmesh"),
            ];
            let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
            one(
                format!("ip mptcp endpoint add {address} dev {device} id {id}{flags}"),
                format!("ip mptcp endpoint del id {id}"),
            )
        }
        Operation::File { path, contents, mode } => file(path, contents, *mode),
        Operation::Process { argv, pid_file, .. } => process(argv, pid_file),
    }
}

fn create(device: &str, kind: &DeviceKind) -> Commands {
    let mut up = vec![format!("ip link add {device} type {}", kind_words(kind))];
    if let DeviceKind::WireGuard { .. } = kind {
        up.push(wireguard(device, kind));
    }
    (up, vec![format!("ip link del {device}")])
}

fn enslave(device: &str, master: &str) -> Commands {
    (
        vec![
            format!("ip link set {device} down"),
            format!("ip link set {device} master {master}"),
            format!("ip link set {device} up"),
        ],
        vec![format!("ip link set {device} nomaster"), format!("ip link set {device} up")],
    )
}

fn hop_group_words(members: &[Member], resilient: Option<&Resilient>) -> String {
    let members: Vec<String> =
        members.iter().map(|member| format!("{},{}", member.id, member.weight)).collect();
    let kind = resilient.map(|resilient| {
        format!(
            " type resilient buckets {} idle_timer {} unbalanced_timer {}",
            resilient.buckets, resilient.idle_timer_s, resilient.unbalanced_timer_s
        )
    });
    format!("{}{}", members.join("/"), kind.unwrap_or_default())
}

fn file(path: &Path, contents: &str, mode: u32) -> Commands {
    let path = quoted(&path.display().to_string());
    one(
        format!(
            "mkdir -p \"$(dirname {path})\"\n    cat > {path} <<'END'\n{contents}END\n    chmod {mode:o} {path}"
        ),
        format!("rm -f {path}"),
    )
}

fn process(argv: &[String], pid_file: &Path) -> Commands {
    let command: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let file = quoted(&pid_file.display().to_string());
    let mut command = command.join(" ");
    if argv.first().is_some_and(|program| program == "pppd") {
        // It ends with its link.
        command = format!(
            "(trap 'kill $pid; wait $pid; exit' TERM; while :; do {command} & pid=$!; wait $pid; sleep 1; done)"
        );
    }
    one(
        format!("mkdir -p \"$(dirname {file})\"\n{command} & echo $! > {file}\nsleep 1"),
        format!("kill \"$(cat {file})\"; rm -f {file}; sleep 1"),
    )
}

fn sysctl(group: &Group, key: &str, value: &str) -> (Vec<String>, Vec<String>) {
    // The previous value isn't known when this is written, so the script saves it.
    let saved = format!("/run/{}.{}", group.name, key.replace('/', "."));
    (
        vec![format!("cat /proc/sys/{key} > {saved}"), format!("echo {value} > /proc/sys/{key}")],
        vec![format!("cat {saved} > /proc/sys/{key}; rm -f {saved}")],
    )
}

fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip -6",
    }
}

fn kind_words(kind: &DeviceKind) -> String {
    match kind {
        DeviceKind::Bond(bonding) => format!("bond {}", bond_words(bonding)),
        DeviceKind::Gretap { local, remote, key, via } => {
            let via = via.as_ref().map(|device| format!(" dev {device}")).unwrap_or_default();
            let limit = if local.is_ipv6() { " encaplimit none" } else { "" };
            format!("{} local {local} remote {remote} key {key} ttl 64{limit}{via}", kind.word())
        }
        DeviceKind::Vxlan { id, local, remote, port, via } => {
            format!("vxlan id {id} local {local} remote {remote} dstport {port} ttl 64 dev {via}")
        }
        DeviceKind::WireGuard { .. } => "wireguard".into(),
    }
}

fn bond_words(bonding: &Bonding) -> String {
    let mut words = format!("mode {}", bonding.mode);
    match &bonding.monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => {
            let _ = write!(
                words,
                " miimon {interval_ms} updelay {up_delay_ms} downdelay {down_delay_ms}"
            );
        }
        Monitor::Arp { interval_ms, targets, validate } => {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let _ =
                write!(words, " arp_interval {interval_ms} arp_ip_target {}", targets.join(","));
            if *validate {
                words.push_str(" arp_validate all");
            }
        }
    }
    if bonding.mode.hashes() {
        let _ = write!(words, " xmit_hash_policy {}", bonding.hash);
    }
    if bonding.mode.has_active_port() {
        let _ = write!(words, " primary_reselect {}", bonding.primary_reselect);
    }
    match bonding.mode {
        BondMode::Ieee8023ad => {
            let rate = if bonding.lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
            let _ = write!(words, " lacp_rate {rate} min_links {}", bonding.min_links);
        }
        BondMode::BalanceRr => {
            let _ = write!(words, " packets_per_slave {}", bonding.packets_per_port);
        }
        _ => {}
    }
    let _ = write!(
        words,
        " resend_igmp {} num_grat_arp {}",
        bonding.resend_igmp, bonding.peer_notifications
    );
    words
}

fn wireguard(device: &str, kind: &DeviceKind) -> String {
    let DeviceKind::WireGuard { private_key_file, port, peer_public_key, endpoint, mark } = kind
    else {
        return String::new();
    };
    let file = quoted(&private_key_file.display().to_string());
    format!(
        "wg set {device} private-key {file} listen-port {port} fwmark {mark:#x} peer \
         {peer_public_key} endpoint {endpoint} persistent-keepalive 25 allowed-ips 0.0.0.0/0,::/0"
    )
}

fn route_words(route: &Route) -> (&'static str, String) {
    let family = Family::of(route.destination.addr());
    let mut words = String::from(match route.kind {
        RouteKind::Unicast => "",
        RouteKind::Unreachable => "unreachable ",
        RouteKind::Blackhole => "blackhole ",
        RouteKind::Prohibit => "prohibit ",
        RouteKind::Throw => "throw ",
        RouteKind::Local => "local ",
    });
    match route.destination.prefix_len() {
        0 => words.push_str("default"),
        _ => _ = write!(words, "{}", route.destination),
    }
    if let Some(id) = route.next_hop {
        let _ = write!(words, " nhid {id}");
    }
    if let Some(gateway) = route.gateway {
        let other = Family::of(gateway) != family && gateway.is_ipv6();
        let _ = write!(words, " via {}{gateway}", if other { "inet6 " } else { "" });
    }
    if let Some(device) = &route.device {
        let _ = write!(words, " dev {device}");
    }
    if route.on_link {
        words.push_str(" onlink");
    }
    if let Some(source) = route.source {
        let _ = write!(words, " src {source}");
    }
    if let Some(window) = route.initial_window {
        let _ = write!(words, " initcwnd {window} initrwnd {window}");
    }
    if route.metric != 0 {
        let _ = write!(words, " metric {}", route.metric);
    }
    let _ = write!(words, " table {}", route.table);
    (version(family), words)
}

fn rule_words(rule: &Rule) -> String {
    let mut words = String::from(if rule.not { "not " } else { "" });
    match rule.from {
        Some(net) => _ = write!(words, "from {net}"),
        None => words.push_str("from all"),
    }
    if let Some(net) = rule.to {
        let _ = write!(words, " to {net}");
    }
    if let Some(mark) = rule.fwmark {
        let _ = write!(words, " fwmark {mark:#x}");
        let _ = rule.mask.map_or(Ok(()), |mask| write!(words, "/{mask:#x}"));
    }
    for (side, name) in [("iif", &rule.incoming), ("oif", &rule.outgoing)] {
        let _ = name.as_ref().map_or(Ok(()), |name| write!(words, " {side} {name}"));
    }
    let priority = rule.priority;
    let _ = match rule.action {
        RuleAction::Lookup { table, suppress_prefix_len } => {
            let suppressed = suppress_prefix_len.map(|len| format!(" suppress_prefixlength {len}"));
            let suppressed = suppressed.unwrap_or_default();
            write!(words, " lookup {table} priority {priority}{suppressed}")
        }
        RuleAction::Unreachable => write!(words, " priority {priority} unreachable"),
        RuleAction::Blackhole => write!(words, " priority {priority} blackhole"),
    };
    words
}

/// Quotes a word for the shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
