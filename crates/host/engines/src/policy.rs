//! Policy routing that several engines share: each link by its own table.

use crate::Device;
use crate::carrier::Port;
use crate::group::{Group, GroupLink, Way};
use crate::numbers::OUTER;
use crate::operation::{Next, Operation, Route, Rule};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Where the group's own rule stands, behind those of its links.
pub(crate) const GROUP_RULE: u32 = 62;

/// Answers may come by another link than the route back says.
pub(crate) fn sysctls(ports: &[Port]) -> Vec<Operation> {
    let loose = |port: &Port| Operation::Sysctl {
        key: format!("net/ipv4/conf/{}/rp_filter", port.device),
        value: "2".into(),
    };
    ports.iter().filter(|port| port.way(false).is_some()).map(loose).collect()
}

/// The table of a link.
pub(crate) fn table(group: &Group, port: &Port) -> u32 {
    group.numbers.table + port.number
}

/// Each link's table and the rule that sends packets from its address there.
pub(crate) fn link_tables(group: &Group, ports: &[Port]) -> Vec<Operation> {
    let one = |port| {
        let port: &Port = port;
        let priority = group.numbers.priority + OUTER + port.number;
        by_source(table(group, port), priority, &port.device, &port.ways)
    };
    ports.iter().flat_map(one).collect()
}

/// What has a link's address leaves by this link. Rules by mark come before
/// these: a mark is meant, an address often is the kernel's first choice only.
fn by_source(table: u32, priority: u32, device: &Device, ways: &[Way]) -> Vec<Operation> {
    let mut operations = Vec::new();
    for way in ways {
        let v6 = way.source.addr().is_ipv6();
        let route = |destination, next| {
            Operation::Route(Route { destination, table, next, source: None, metric: 0 })
        };
        let by = |gateway: Option<std::net::IpAddr>| Next::Device {
            device: device.clone(),
            gateway,
            on_link: gateway.is_some() && way.is_beyond(),
        };
        operations.push(route(way.source.trunc(), by(None)));
        operations.push(route(all(v6), by(way.gateway)));
        operations.push(Operation::Rule(Rule {
            from: Some(IpNet::from(way.source.addr())),
            ..Rule::new(v6, priority, table)
        }));
    }
    operations
}

/// The same for the packets of a tunnel over a link, in a table of their own.
pub(crate) fn outer(group: &Group, link: &GroupLink) -> Vec<Operation> {
    let numbers = &group.numbers;
    let number = OUTER + link.number;
    by_source(numbers.table + number, numbers.priority + number, &link.device, &link.ways)
}

/// What has a link's mark leaves by this link: a tunnel's own packets.
pub(crate) fn by_mark(group: &Group, link: &GroupLink, v6: bool) -> Vec<Operation> {
    let number = OUTER + link.number;
    vec![Operation::Rule(Rule {
        fwmark: Some(group.numbers.mark + number),
        ..Rule::new(v6, group.numbers.priority + number, group.numbers.table + number)
    })]
}

/// Near networks come before the group's own rules: the main table is asked
/// first, but for its default route.
pub(crate) fn main_first(group: &Group) -> Vec<Operation> {
    let rule =
        |v6| Rule { suppress_prefix_len: Some(0), ..Rule::new(v6, group.numbers.priority, MAIN) };
    versions(group).into_iter().map(|v6| Operation::Rule(rule(v6))).collect()
}

/// What no link's rule took goes by the group's table.
pub(crate) fn lookup_group(group: &Group, v6: bool) -> Operation {
    let numbers = &group.numbers;
    Operation::Rule(Rule::new(v6, numbers.priority + GROUP_RULE, numbers.table))
}

/// A table that gives what leaves by a link that link's address; `chains` are
/// further ones for it.
pub(crate) fn masquerade(group: &Group, ports: &[Port], chains: &str) -> Vec<Operation> {
    if ports.is_empty() {
        return Vec::new();
    }
    let devices = device_set(ports);
    let chains = format!(
        "{chains}\tchain leaving {{\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\toifname {devices} masquerade\n\t}}\n"
    );
    vec![Operation::Nft { group: group.name.clone(), chains }]
}

/// nft's set of the ports' devices.
pub(crate) fn device_set(ports: &[Port]) -> String {
    let quoted: Vec<String> = ports.iter().map(|port| format!("\"{}\"", port.device)).collect();
    format!("{{ {} }}", quoted.join(", "))
}

/// The IP versions that the group routes.
fn versions(group: &Group) -> Vec<bool> {
    let routes = |v6: &bool| group.routes.iter().any(|net| net.addr().is_ipv6() == *v6);
    [false, true].into_iter().filter(routes).collect()
}

/// All of an IP version.
fn all(v6: bool) -> IpNet {
    match v6 {
        false => Ipv4Net::default().into(),
        true => Ipv6Net::default().into(),
    }
}

/// `RT_TABLE_MAIN`.
const MAIN: u32 = 254;
