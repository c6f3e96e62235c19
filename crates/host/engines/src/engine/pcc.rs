//! Policy routing of new connections: nftables marks each with a link, the mark selects the link's
//! table, and connection tracking keeps it there. RouterOS calls this a per-connection classifier.

use crate::Family;
use crate::group::Group;
use crate::operation::{Operation, Route, Rule};
use crate::port::{self, Port};
use crate::words::words;
use crate::{Feature, policy};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Settings of per-connection routing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcc {
    /// What determines a connection's link.
    pub classifier: Classifier,
    /// Masquerades packets with the address of the link that they leave by.
    pub masquerade: bool,
}

words! {
    /// What determines a new connection's link.
    Classifier {
        /// Links in turn.
        Turns = "turns",
        /// Both addresses: a client always uses the same link for a server.
        Addresses = "addresses",
        /// Both addresses and ports.
        Flow = "flow",
        /// The source's address: a client stays on one link.
        Source = "source",
    }
}

impl Default for Pcc {
    fn default() -> Pcc {
        Pcc { classifier: Classifier::Turns, masquerade: true }
    }
}

pub(crate) fn needs(pcc: &Pcc) -> Vec<Feature> {
    let spreads = match pcc.classifier {
        Classifier::Turns => Feature::NftNumgen,
        Classifier::Addresses | Classifier::Flow | Classifier::Source => Feature::NftHash,
    };
    vec![Feature::PolicyRouting, Feature::Nftables, spreads, Feature::Nft]
}

pub(crate) fn operations(pcc: &Pcc, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations = policy::sysctls(ports);
    // Lets the reverse path check see the mark.
    operations.push(Operation::Sysctl {
        key: "net/ipv4/conf/all/src_valid_mark".into(),
        value: "1".into(),
    });
    operations.extend(policy::link_tables(group, ports));
    operations.extend(policy::main_first(group));
    for port in ports {
        for family in port.families() {
            operations.push(Operation::Rule(Rule {
                fwmark: Some(mark(group, port)),
                // Before the links' rules by source: this host's own packets may have the address
                // of one link when they are marked for another.
                ..Rule::lookup(
                    family,
                    group.numbers.priority + port.number,
                    policy::table(group, port),
                )
            }));
        }
    }
    operations.extend(unmarked(group, ports));
    let chains = marking(pcc, group, ports);
    match pcc.masquerade {
        true => operations.extend(policy::masquerade(group, ports, &chains)),
        false => operations.push(Operation::firewall(&group.name, &chains)),
    }
    operations
}

/// Packets without a mark use the first link; the host's own packets are marked only after routing.
fn unmarked(group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations = Vec::new();
    for family in Family::ALL {
        let routes: Vec<_> =
            group.routes.iter().filter(|route| Family::of(route.addr()) == family).collect();
        let usable = port::flowing(ports.iter().filter(|port| port.egress(family).is_some()));
        let Some((port, egress)) =
            usable.first().and_then(|port| Some((port, port.egress(family)?)))
        else {
            continue;
        };
        if routes.is_empty() {
            continue;
        }
        operations.extend(routes.into_iter().map(|route| {
            Operation::Route(Route {
                device: Some(port.device.to_string()),
                gateway: egress.gateway,
                on_link: egress.is_beyond(),
                ..Route::new(route.trunc(), group.numbers.table)
            })
        }));
        operations.push(policy::lookup_group(group, family));
    }
    operations
}

/// The mark of packets that leave through a port.
pub(crate) fn mark(group: &Group, port: &Port) -> u32 {
    group.numbers.mark + port.number
}

/// The chains that mark.
fn marking(pcc: &Pcc, group: &Group, ports: &[Port]) -> String {
    let spread = port::flowing(ports.iter());
    if spread.is_empty() {
        return String::new();
    }
    let devices = policy::device_set(ports);
    let marks: Vec<String> =
        ports.iter().map(|port| format!("{:#010x}", mark(group, port))).collect();
    let marks = marks.join(", ");
    let mut answers = String::new();
    for port in ports {
        // Connections that came in over a link are answered over it. Writing to a String can't
        // fail.
        let _ = writeln!(
            answers,
            "\t\tiifname \"{}\" ct state new ct mark set {:#010x}",
            port.device,
            mark(group, port)
        );
    }
    let (map, total) = weighted(group, &spread);
    let picks = |family: &str, guard: &str| match pcc.classifier {
        Classifier::Turns => format!("numgen inc mod {total} map {{ {map} }}"),
        Classifier::Addresses => {
            format!("jhash {family} saddr . {family} daddr mod {total} map {{ {map} }}")
        }
        Classifier::Flow => format!(
            "jhash {family} saddr . {family} daddr . {guard} sport . {guard} dport mod {total} \
             map {{ {map} }}"
        ),
        Classifier::Source => format!("jhash {family} saddr mod {total} map {{ {map} }}"),
    };
    let mut choose = String::new();
    let unmarked = format!("ct mark != {{ {marks} }}");
    match pcc.classifier {
        Classifier::Turns => {
            let _ = writeln!(choose, "\t\tct state new {unmarked} ct mark set {}", picks("", ""));
        }
        Classifier::Flow => {
            for (version, family) in [("ipv4", "ip"), ("ipv6", "ip6")] {
                for transport in ["tcp", "udp"] {
                    let _ = writeln!(
                        choose,
                        "\t\tmeta nfproto {version} meta l4proto {transport} ct state new {unmarked} ct mark set {}",
                        picks(family, transport)
                    );
                }
                let by_addresses =
                    format!("jhash {family} saddr . {family} daddr mod {total} map {{ {map} }}");
                let _ = writeln!(
                    choose,
                    "\t\tmeta nfproto {version} ct state new {unmarked} ct mark set {by_addresses}"
                );
            }
        }
        Classifier::Addresses | Classifier::Source => {
            for (version, family) in [("ipv4", "ip"), ("ipv6", "ip6")] {
                let _ = writeln!(
                    choose,
                    "\t\tmeta nfproto {version} ct state new {unmarked} ct mark set {}",
                    picks(family, "")
                );
            }
        }
    }
    let take = format!("\t\tct mark {{ {marks} }} meta mark set ct mark\n");
    format!(
        "\tchain forwarded {{\n\t\ttype filter hook prerouting priority mangle; policy accept;\n\
         {answers}\t\tiifname {devices} return\n{choose}{take}\t}}\n\
         \tchain own {{\n\t\ttype route hook output priority mangle; policy accept;\n\
         \t\toifname \"lo\" return\n{choose}{take}\t}}\n"
    )
}

/// An nft map from numbers below the sum of all weights to marks, and that sum.
fn weighted(group: &Group, ports: &[&Port]) -> (String, u32) {
    let mut next = 0;
    let entries: Vec<String> = ports
        .iter()
        .map(|port| {
            let (first, last) = (next, next + u32::from(port.weight.get()) - 1);
            next = last + 1;
            match first == last {
                true => format!("{first} : {:#010x}", mark(group, port)),
                false => format!("{first}-{last} : {:#010x}", mark(group, port)),
            }
        })
        .collect();
    (entries.join(", "), next)
}
