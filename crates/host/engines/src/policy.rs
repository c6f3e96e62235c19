//! Policy routing shared by several engines: each link has its own table.

use crate::group::{Egress, Group, GroupLink};
use crate::numbers::{GROUP_RULE, OUTER};
use crate::operation::{MAIN_TABLE, Operation, Route, Rule, RuleAction};
use crate::port::Port;
use crate::{Device, Family};
use ipnet::IpNet;
use std::net::IpAddr;

/// Replies may arrive over another link than the reverse path.
pub(crate) fn sysctls(ports: &[Port]) -> Vec<Operation> {
    let loose = |port: &Port| Operation::Sysctl {
        key: format!("net/ipv4/conf/{}/rp_filter", port.device),
        value: "2".into(),
    };
    ports.iter().filter(|port| port.egress(Family::V4).is_some()).map(loose).collect()
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
        by_source(table(group, port), priority, &port.device, &port.egresses)
    };
    ports.iter().flat_map(one).collect()
}

/// Packets with a link's address leave by this link. Rules by mark come first: a mark is
/// deliberate, an address is often only the kernel's first choice.
fn by_source(table: u32, priority: u32, device: &Device, egresses: &[Egress]) -> Vec<Operation> {
    let mut operations = Vec::new();
    for egress in egresses {
        let family = Family::of(egress.source.addr());
        let route = |destination, gateway: Option<IpAddr>| {
            Operation::Route(Route {
                device: Some(device.to_string()),
                gateway,
                on_link: gateway.is_some() && egress.is_beyond(),
                ..Route::new(destination, table)
            })
        };
        operations.push(route(egress.source.trunc(), None));
        operations.push(route(family.everything(), egress.gateway));
        operations.push(Operation::Rule(Rule {
            from: Some(IpNet::from(egress.source.addr())),
            ..Rule::lookup(family, priority, table)
        }));
    }
    operations
}

/// The same for the packets of a tunnel over a link, in a separate table.
pub(crate) fn outer(group: &Group, link: &GroupLink) -> Vec<Operation> {
    let numbers = &group.numbers;
    let number = OUTER + link.number;
    by_source(numbers.table + number, numbers.priority + number, &link.device, &link.egresses)
}

/// Packets with a link's mark leave by this link: a tunnel's own packets.
pub(crate) fn by_mark(group: &Group, link: &GroupLink, family: Family) -> Vec<Operation> {
    let number = OUTER + link.number;
    vec![Operation::Rule(Rule {
        fwmark: Some(group.numbers.mark + number),
        ..Rule::lookup(family, group.numbers.priority + number, group.numbers.table + number)
    })]
}

/// Local networks take precedence over the group's rules: the main table is used first, except its
/// default route.
pub(crate) fn main_first(group: &Group) -> Vec<Operation> {
    let action = RuleAction::Lookup { table: MAIN_TABLE, suppress_prefix_len: Some(0) };
    let rule = |family| Operation::Rule(Rule::new(family, group.numbers.priority, action));
    versions(group).into_iter().map(rule).collect()
}

/// Packets that no link's rule matched use the group's table.
pub(crate) fn lookup_group(group: &Group, family: Family) -> Operation {
    let numbers = &group.numbers;
    Operation::Rule(Rule::lookup(family, numbers.priority + GROUP_RULE, numbers.table))
}

/// A table that masquerades packets with the address of their link, plus the given `chains`.
pub(crate) fn masquerade(group: &Group, ports: &[Port], chains: &str) -> Vec<Operation> {
    if ports.is_empty() {
        return Vec::new();
    }
    let devices = device_set(ports);
    let chains = format!(
        "{chains}\tchain leaving {{\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\toifname {devices} masquerade\n\t}}\n"
    );
    vec![Operation::firewall(&group.name, &chains)]
}

/// nft's set of the ports' devices.
pub(crate) fn device_set(ports: &[Port]) -> String {
    let quoted: Vec<String> = ports.iter().map(|port| format!("\"{}\"", port.device)).collect();
    format!("{{ {} }}", quoted.join(", "))
}

/// The IP versions that the group routes.
fn versions(group: &Group) -> Vec<Family> {
    let routes = |family: &Family| group.routes.iter().any(|net| Family::of(net.addr()) == *family);
    Family::ALL.into_iter().filter(routes).collect()
}
