//! Rules about which connections take the tunnel, leave by a link or are refused. The result of
//! matching a connection's first packet is stored in the connection's mark.

use super::chain;
use super::named::{self, Run};
use super::ruled_traffic::{Fate, RuledTraffic};
use braid_engines::NamedRules;
use braid_rules::{Cgroup, Conditions, Transport};
use ipnet::IpNet;
use std::fmt::{Display, Write as _};

/// How rules direct connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// The mark bits in use.
    pub mask: u32,
    /// In order: the first match applies.
    pub rules: Vec<RuledTraffic>,
    /// How marked connections leave, including those that no current rule marks.
    pub ways: Vec<DirectWay>,
    /// Mark of refused connections.
    pub refused: u32,
    /// The links' interfaces: rules don't apply to packets that come in over them.
    pub links: Vec<String>,
    /// Rules don't apply to packets with one of these marks: the tunnel's own datagrams.
    pub own: Vec<u32>,
}

/// How connections with a mark leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectWay {
    /// The mark, within the mask.
    pub mark: u32,
    /// The interface.
    pub interface: String,
}

/// Matches a connection's first packet. The kernel's `new` matches all until a reply comes.
const FIRST: &str = "ct status ! confirmed";

/// The counter of a rule's connections.
pub fn connections_counter(number: usize) -> String {
    format!("rule_{number}_connections")
}

/// The counter of packets from the initiators of a rule's connections.
pub fn traffic_counter(number: usize) -> String {
    format!("rule_{number}_traffic")
}

impl Ruled {
    /// Counters and chains, in nft's language.
    pub(super) fn chains(&self, tunnel: &str) -> Vec<String> {
        if self.rules.is_empty() && self.ways.is_empty() {
            return Vec::new();
        }
        let mut chains: Vec<String> = self.rules.iter().map(|rule| self.counted(rule)).collect();
        chains.push(named::definitions(&self.named()));
        // nft resolves a control group to its number when it loads the table. A recreated group has
        // the same path but another number, so the table must differ.
        let cgroups = self.rules.iter().flat_map(|rule| rule.conditions.cgroups.iter().flatten());
        let numbers = cgroups.map(|cgroup| format!("\t# {} {}\n", cgroup.path, cgroup.id));
        chains.push(numbers.collect());
        chains.push(list("rules_of_lan", self.matching(false)));
        chains.push(list("rules_of_host", self.matching(true)));
        chains.extend(self.lan(tunnel));
        chains.extend(self.host(tunnel));
        chains.extend(["forward", "output"].into_iter().filter_map(|hook| self.refusal(hook)));
        chains
    }

    /// The rules with domains.
    pub(super) fn named(&self) -> Vec<NamedRules> {
        named::named(&self.rules)
    }

    /// After destination NAT: rules match where a connection really goes.
    fn lan(&self, tunnel: &str) -> Option<String> {
        let outside = self.outside(tunnel);
        let rules = [
            format!("iifname {{ {outside}, \"lo\" }} return"),
            "ct direction reply return".to_owned(),
            "fib daddr type { local, broadcast, multicast, anycast } return".to_owned(),
            // Between networks of the LAN.
            format!("fib daddr oif exists fib daddr oifname != {{ {outside} }} return"),
            "jump rules_of_lan".to_owned(),
        ];
        let rules = rules.into_iter().chain(self.restore());
        chain("ruled_lan", "filter", "prerouting", "dstnat + 5", rules)
    }

    /// Before splitting, which is only for connections through the tunnel.
    fn host(&self, tunnel: &str) -> Option<String> {
        let outside = self.outside(tunnel);
        let own: Vec<String> = self.own.iter().map(|mark| format!("{mark:#x}")).collect();
        let rules = [
            format!("meta mark {{ {} }} return", own.join(", ")),
            // Replies to connections that came in over a link, and packets of other parts of Braid.
            format!("meta mark & {:#x} != 0 return", self.mask),
            "ct direction reply return".to_owned(),
            format!("oifname != {{ {outside} }} return"),
            "jump rules_of_host".to_owned(),
        ];
        let rules = rules.into_iter().chain(self.restore());
        chain("ruled_host", "route", "output", "mangle - 5", rules)
    }

    fn refusal(&self, hook: &str) -> Option<String> {
        let refused = self.marked(self.refused);
        let rules = [
            format!("{refused} meta l4proto tcp reject with tcp reset"),
            format!("{refused} reject with icmpx admin-prohibited"),
        ];
        let refuses = self.rules.iter().any(|rule| rule.fate == Fate::Refused);
        let name = format!("refused_{hook}");
        chain(&name, "filter", hook, "filter - 5", rules.into_iter().filter(|_| refuses))
    }

    /// Their source addresses were chosen for the tunnel's default route, or belong to the LAN.
    pub(super) fn masqueraded(&self) -> impl Iterator<Item = String> {
        self.ways.iter().map(|way| {
            format!("oifname \"{}\" {} masquerade", way.interface, self.marked(way.mark))
        })
    }

    /// What a kill switch lets pass: packets that leave by the link of their mark.
    pub(super) fn let_through(&self) -> impl Iterator<Item = String> {
        self.ways
            .iter()
            .map(|way| format!("oifname \"{}\" {} accept", way.interface, self.marked(way.mark)))
    }

    /// What a kill switch lets this host send. The chain sees the device from before the packet was
    /// marked.
    pub(super) fn let_out(&self) -> impl Iterator<Item = String> {
        self.ways.iter().map(|way| format!("{} accept", self.marked(way.mark)))
    }

    /// Therefore the real outgoing device is checked later.
    pub(super) fn only_by(&self, tunnel: &str, lan: &[&str]) -> impl Iterator<Item = String> {
        let lan: String = lan.iter().map(|device| format!(", \"{device}\"")).collect();
        self.ways.iter().map(move |way| {
            let (interface, marked) = (&way.interface, self.marked(way.mark));
            format!("oifname != {{ \"{interface}\", \"{tunnel}\", \"lo\"{lan} }} {marked} drop")
        })
    }

    fn outside(&self, tunnel: &str) -> String {
        let mut outside = format!("\"{tunnel}\"");
        for link in &self.links {
            // Writing to a String can't fail.
            let _ = write!(outside, ", \"{link}\"");
        }
        outside
    }

    fn counted(&self, rule: &RuledTraffic) -> String {
        let number = rule.number;
        let (connections, traffic) = (connections_counter(number), traffic_counter(number));
        // Builds one nft rule: the first condition that doesn't match ends it. nft's load time
        // depends on the number of rules.
        let mut statements = vec![format!("counter name \"{traffic}\"")];
        if rule.fate == Fate::Refused {
            statements.push(self.set_mark(self.refused));
        }
        statements.push(format!("{FIRST} counter name \"{connections}\""));
        if let Fate::Marked(mark) = rule.fate {
            statements.push(format!(
                "ct mark & {:#x} == 0 ct mark set ct mark & {:#x} | {mark:#x}",
                self.mask, !self.mask
            ));
        }
        let counters: String = [connections, traffic]
            .iter()
            .map(|name| format!("\tcounter {name} {{\n\t}}\n"))
            .collect();
        counters + &list(&rule.chain(), vec![statements.join(" ")])
    }

    /// A connection keeps its route.
    fn restore(&self) -> impl Iterator<Item = String> {
        self.ways.iter().map(|way| {
            let (mask, mark) = (self.mask, way.mark);
            // Connections that have been refused stay refused.
            format!(
                "meta mark & {mask:#x} != {:#x} ct mark & {mask:#x} == {mark:#x} {}",
                self.refused,
                self.set_mark(mark)
            )
        })
    }

    fn marked(&self, mark: u32) -> String {
        format!("meta mark & {:#x} == {mark:#x}", self.mask)
    }

    fn set_mark(&self, mark: u32) -> String {
        format!("meta mark set meta mark & {:#x} | {mark:#x}", !self.mask)
    }

    fn matching(&self, of_host: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for run in named::runs(&self.rules) {
            match run {
                Run::Names(of) => {
                    lines.extend(of.first().into_iter().flat_map(|first| named::look_ups(first)));
                }
                Run::Other(rule) => {
                    let conditions = alternatives(&rule.conditions, of_host).into_iter();
                    lines.extend(conditions.map(|it| format!("{it}goto {}", rule.chain())));
                }
            }
        }
        lines
    }
}

impl RuledTraffic {
    fn chain(&self) -> String {
        let name = self.conditions.to.as_ref().and_then(|to| to.known_as.as_deref());
        // The chain of a rule with domains is named after the rule: references to it outlive its
        // number.
        name.map_or_else(|| format!("rule_{}", self.number), named::chain_of)
    }
}

/// Alternative matches, each of which suffices; empty if it can't match.
fn alternatives(conditions: &Conditions, of_host: bool) -> Vec<String> {
    let Conditions { devices, from, to, transport, ports, dscp, users, cgroups } = conditions;
    let programs = !users.is_empty() || cgroups.is_some();
    if of_host && devices.is_some() || !of_host && programs {
        return Vec::new();
    }
    let mut found = vec![Alternative::default()];
    if let Some(cgroups) = cgroups {
        let known = cgroups.iter().map(|Cgroup { path, level, .. }| Alternative {
            family: None,
            text: format!("socket cgroupv2 level {level} \"{path}\" "),
        });
        found = both(&found, &known.collect::<Vec<_>>());
    }
    if let Some(devices) = devices {
        let mut known = by_family("saddr", &devices.addresses);
        if !devices.macs.is_empty() {
            let text = format!("ether saddr {} ", set(&devices.macs));
            known.push(Alternative { family: None, text });
        }
        found = both(&found, &known);
    }
    if !from.is_empty() {
        found = both(&found, &by_family("saddr", from));
    }
    if let Some(to) = to {
        let mut known = by_family("daddr", &to.networks);
        for family in ["ip", "ip6"].into_iter().filter(|_| to.known_as.is_some()) {
            let name = to.known_as.as_deref().unwrap_or_default();
            let look_ups = named::own_look_ups(name, family);
            known.extend(look_ups.map(|text| Alternative { family: Some(family), text }));
        }
        found = both(&found, &known);
    }
    if let Some(dscp) = dscp {
        let known = ["ip", "ip6"].map(|family| Alternative {
            family: Some(family),
            text: format!("{family} dscp {dscp} "),
        });
        found = both(&found, &known);
    }
    let mut rest = String::new();
    rest += match transport {
        None => "",
        Some(Transport::Tcp) => "meta l4proto tcp ",
        Some(Transport::Udp) => "meta l4proto udp ",
        Some(Transport::Icmp) => "meta l4proto { icmp, ipv6-icmp } ",
    };
    if let Some(ports) = ports {
        // Writing to a String can't fail.
        let _ = write!(rest, "th dport {}-{} ", ports.start(), ports.end());
    }
    if !users.is_empty() {
        let _ = write!(rest, "meta skuid {} ", set(users));
    }
    found.into_iter().map(|it| it.text + &rest).collect()
}

#[derive(Clone, Default)]
struct Alternative {
    family: Option<&'static str>,
    text: String,
}

fn by_family(side: &str, networks: &[IpNet]) -> Vec<Alternative> {
    let networks = IpNet::aggregate(&networks.iter().map(IpNet::trunc).collect());
    let of = |family: &'static str| {
        let of_family = networks.iter().filter(|net| super::family(net.addr()) == family);
        let of_family: Vec<&IpNet> = of_family.collect();
        let text = format!("{family} {side} {} ", set(&of_family));
        (!of_family.is_empty()).then_some(Alternative { family: Some(family), text })
    };
    ["ip", "ip6"].into_iter().filter_map(of).collect()
}

fn both(one: &[Alternative], other: &[Alternative]) -> Vec<Alternative> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let meet =
        pairs.filter(|(a, b)| a.family.is_none() || b.family.is_none() || a.family == b.family);
    meet.map(|(a, b)| Alternative {
        family: a.family.or(b.family),
        text: format!("{}{}", a.text, b.text),
    })
    .collect()
}

fn set<T: Display>(elements: &[T]) -> String {
    let elements: Vec<String> = elements.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", elements.join(", "))
}

/// A chain that others jump to.
fn list(name: &str, rules: Vec<String>) -> String {
    let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    format!("\tchain {name} {{\n{rules}\t}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_rules::{Destinations, Devices};

    fn networks(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn conditions_are_matched_in_each_ip_version_that_they_have() {
        let device = Devices {
            macs: vec!["aa:bb:cc:dd:ee:01".parse().unwrap()],
            addresses: networks(&["192.168.7.2/32"]),
        };
        let to = Destinations {
            networks: networks(&["203.0.113.0/25", "203.0.113.128/25", "2001:db8::/32"]),
            known_as: None,
        };
        let conditions = Conditions {
            devices: Some(device),
            to: Some(to),
            transport: Some(Transport::Tcp),
            ports: Some(443..=443),
            ..Conditions::default()
        };
        assert_eq!(
            alternatives(&conditions, false),
            [
                "ip saddr { 192.168.7.2/32 } ip daddr { 203.0.113.0/24 } meta l4proto tcp th dport 443-443 ",
                "ether saddr { aa:bb:cc:dd:ee:01 } ip daddr { 203.0.113.0/24 } meta l4proto tcp th dport 443-443 ",
                "ether saddr { aa:bb:cc:dd:ee:01 } ip6 daddr { 2001:db8::/32 } meta l4proto tcp th dport 443-443 ",
            ]
        );
        assert_eq!(alternatives(&conditions, true), [""; 0], "this host is no device of the LAN");
        let nowhere = Conditions { to: Some(Destinations::default()), ..Conditions::default() };
        assert_eq!(alternatives(&nowhere, false), [""; 0]);
        assert_eq!(alternatives(&Conditions::default(), true), [""]);
        let backup = Cgroup { path: "system.slice/backup.service".into(), level: 2, id: 7 };
        let backup = Conditions { cgroups: Some(vec![backup]), ..Conditions::default() };
        assert_eq!(
            alternatives(&backup, true),
            ["socket cgroupv2 level 2 \"system.slice/backup.service\" "]
        );
        assert_eq!(alternatives(&backup, false), [""; 0], "nobody of the LAN is in it");
        let gone = Conditions { cgroups: Some(Vec::new()), ..Conditions::default() };
        assert_eq!(alternatives(&gone, true), [""; 0]);
    }
}
