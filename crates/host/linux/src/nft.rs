//! Our own nftables table, `inet braid_<interface>`: NAT, forwarded ports, a routed prefix, MSS
//! clamping, the kill switch. Other tables aren't touched.

mod command;
mod forwarder;
mod kill_switch;
mod learnt;
mod named;
mod names;
mod others;
mod questions;
mod ruled;
mod ruled_traffic;
mod split;
mod table;
mod watch;

pub use forwarder::{HEARD_BYTES, NameForwarder};
pub use kill_switch::KillSwitch;
pub use learnt::{Element, LearntSets};
pub use names::{Asker, Destinations, Diversion};
pub use others::{Owner, Refusing, refusing, refusing_in};
pub use ruled::{DirectWay, Ruled, connections_counter, traffic_counter};
pub use ruled_traffic::{Fate, RuledTraffic};
pub use split::{Split, split_table};
pub use table::{counters, delete, exists, replace};
pub use watch::Watch;

use braid_engines::FirewallTable;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What the firewall does for a tunnel. Empty fields have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// The tunnel's interface.
    pub interface: String,
    /// Inner sources that are masqueraded with our own address when they leave.
    pub masquerade: Vec<IpNet>,
    /// Other sources (a LAN behind this host) enter the tunnel with our address in it, for the IP
    /// versions in `masquerade`.
    pub hide_lan: bool,
    /// Networks of that LAN which keep their addresses in the tunnel.
    pub untranslated: Vec<IpNet>,
    /// On these interfaces, traffic of that LAN that doesn't take the tunnel leaves with our
    /// address: that from private addresses, unless the host translates it itself.
    pub links_outside_tunnel: Vec<String>,
    /// Ports forwarded into the tunnel.
    pub forwards: Vec<PortForward>,
    /// Networks routed through the tunnel untranslated: forwarding to and
    /// from them is accepted.
    pub routed: Vec<IpNet>,
    /// How the MSS of TCP connections through the tunnel is clamped.
    pub mss: Option<MssClamp>,
    /// Blocks traffic outside the tunnel.
    pub kill_switch: Option<KillSwitch>,
    /// Replies leave by the link that the request came in on.
    pub inbound: Option<Inbound>,
    /// Which connections the rules direct elsewhere.
    pub ruled: Option<Ruled>,
    /// Where DNS queries are redirected, whatever server they were for.
    pub forwarder: Option<NameForwarder>,
    /// DNS queries redirected to other name servers.
    pub diversions: Vec<Diversion>,
}

/// Stores in a connection's mark which link it came in on, and marks its replies for the routing
/// rules. Other bits of both marks stay unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The mark bits in use.
    pub mask: u32,
    /// The links.
    pub links: Vec<InboundLink>,
    /// Packets with one of these marks are left alone: the tunnel's own datagrams.
    pub own: Vec<u32>,
}

/// A link over which connections come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundLink {
    /// Its number.
    pub number: u32,
    /// Its interface.
    pub interface: String,
    /// The mark of its replies, within the mask.
    pub mark: u32,
}

/// A port forwarded to a host behind the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// The transport.
    pub transport: Transport,
    /// Our address that it applies to; `None` for all.
    pub address: Option<IpAddr>,
    /// The first and the last port.
    pub ports: (u16, u16),
    /// Where to.
    pub to: IpAddr,
    /// Destination port; `None` for the same.
    pub to_port: Option<u16>,
}

/// A transport that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// How the MSS of connections through the tunnel is clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MssClamp {
    /// To what the route's MTU allows.
    ToMtu,
    /// To this many bytes.
    To(u16),
}

/// Addresses that providers don't route (RFC 1918, 6598 and 4193).
const PRIVATE: [(&str, &str); 2] =
    [("ip", "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16"), ("ip6", "fc00::/7")];

impl Firewall {
    /// Its table; `None` when there is nothing to do.
    pub fn table(&self) -> Option<FirewallTable> {
        let redirected_questions: Vec<String> = [
            self.names_of_host(),
            self.names_of_others(),
            self.names_forwarded_of_host(),
            self.names_forwarded_of_others(),
        ]
        .into_iter()
        .flatten()
        .collect();
        let chains: Vec<String> = [
            self.prerouting(),
            self.postrouting(),
            self.beside(),
            self.mangle(),
            self.forward(),
            self.output(),
            self.arriving(),
            self.inbound(),
            self.answers(),
            self.names_guard(),
            self.names_heard(),
            self.direct_guard(),
        ]
        .into_iter()
        .flatten()
        .chain(redirected_questions.iter().cloned())
        .chain(self.ruled.iter().flat_map(|ruled| ruled.chains(&self.interface)))
        .collect();
        (!chains.is_empty()).then(|| FirewallTable {
            named: self.ruled.iter().flat_map(Ruled::named).collect(),
            redirected_questions,
            ..FirewallTable::of(self.interface.clone(), &chains.concat())
        })
    }

    fn prerouting(&self) -> Option<String> {
        let rules = self.forwards.iter().map(|forward| {
            let family = family(forward.to);
            let asked = match forward.address {
                Some(address) => format!("{} daddr {address}", self::family(address)),
                None => "fib daddr type local".to_owned(),
            };
            let transport = match forward.transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
            };
            let ports = match forward.ports {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            };
            let to = match (forward.to_port, forward.to) {
                (None, to) => to.to_string(),
                (Some(port), IpAddr::V4(to)) => format!("{to}:{port}"),
                (Some(port), IpAddr::V6(to)) => format!("[{to}]:{port}"),
            };
            let version = match forward.to {
                IpAddr::V4(_) => "ipv4",
                IpAddr::V6(_) => "ipv6",
            };
            format!(
                "iifname != \"{}\" meta nfproto {version} {asked} {transport} dport {ports} dnat {family} to {to}",
                self.interface
            )
        });
        chain("prerouting", "nat", "prerouting", "dstnat", rules)
    }

    fn postrouting(&self) -> Option<String> {
        let tunnel = &self.interface;
        let mut rules: Vec<String> = Vec::new();
        for net in &self.masquerade {
            let (family, net) = (family(net.addr()), net.trunc());
            rules.push(format!(
                "oifname != {{ \"{tunnel}\", \"lo\" }} {family} saddr {net} masquerade"
            ));
        }
        for version in ["ip", "ip6"].into_iter().filter(|_| self.hide_lan) {
            let of_version = |net: &&IpNet| family(net.addr()) == version;
            if self.masquerade.iter().any(|net| of_version(&net)) {
                let ours = self.masquerade.iter().chain(&self.untranslated).filter(of_version);
                let ours: Vec<String> = ours.map(|net| net.trunc().to_string()).collect();
                let ours = ours.join(", ");
                rules.push(format!(
                    "oifname \"{tunnel}\" {version} saddr != {{ {ours} }} masquerade"
                ));
            }
        }
        rules.extend(self.diversions.iter().map(Diversion::masqueraded));
        rules.extend(self.ruled.iter().flat_map(Ruled::masqueraded));
        chain("postrouting", "nat", "postrouting", "srcnat", rules.into_iter())
    }

    /// After others' NAT rules: a connection is translated only once.
    fn beside(&self) -> Option<String> {
        let ways: Vec<String> =
            self.links_outside_tunnel.iter().map(|it| format!("\"{it}\"")).collect();
        let ways = ways.join(", ");
        let kept = |version: &str| {
            let nets = self.untranslated.iter().filter(|net| family(net.addr()) == version);
            let nets: Vec<String> = nets.map(|net| net.trunc().to_string()).collect();
            let but = format!(" {version} saddr != {{ {} }}", nets.join(", "));
            if nets.is_empty() { String::new() } else { but }
        };
        let rules = PRIVATE.map(|(version, private)| {
            let kept = kept(version);
            format!(
                "oifname {{ {ways} }} fib saddr type != local {version} saddr {{ {private} }}{kept} \
                 masquerade"
            )
        });
        let rules = rules.into_iter().filter(|_| !self.links_outside_tunnel.is_empty());
        chain("beside", "nat", "postrouting", "srcnat + 10", rules)
    }

    fn mangle(&self) -> Option<String> {
        let size = match self.mss? {
            MssClamp::ToMtu => "rt mtu".to_owned(),
            MssClamp::To(bytes) => bytes.to_string(),
        };
        let rules = ["iifname", "oifname"].into_iter().map(|side| {
            format!(
                "{side} \"{}\" tcp flags & (syn | rst) == syn tcp option maxseg size set {size}",
                self.interface
            )
        });
        chain("mangle", "filter", "forward", "mangle", rules)
    }

    fn forward(&self) -> Option<String> {
        let tunnel = &self.interface;
        let mut rules = Vec::new();
        for net in &self.routed {
            let (family, net) = (family(net.addr()), net.trunc());
            rules.push(format!("oifname \"{tunnel}\" {family} daddr {net} accept"));
            rules.push(format!("iifname \"{tunnel}\" {family} saddr {net} accept"));
        }
        if let Some(kill) = &self.kill_switch {
            rules.extend(kill.forward(tunnel));
            rules.extend(self.ruled.iter().flat_map(Ruled::let_through));
            rules.push("drop".to_owned());
        }
        chain("forward", "filter", "forward", "filter", rules.into_iter())
    }

    fn output(&self) -> Option<String> {
        let mut rules = self.kill_switch.as_ref()?.output(&self.interface);
        rules.extend(self.diversions.iter().map(Diversion::let_out));
        rules.extend(self.ruled.iter().flat_map(Ruled::let_out));
        rules.extend(self.forwarder.iter().flat_map(NameForwarder::let_out));
        rules.push("drop".to_owned());
        chain("output", "filter", "output", "filter", rules.into_iter())
    }

    /// Before the translations of other programs.
    fn names_of_host(&self) -> Option<String> {
        let rules = self.diversions.iter().filter_map(Diversion::of_host);
        chain("names_of_host", "nat", "output", "-105", rules)
    }

    fn names_of_others(&self) -> Option<String> {
        let rules = self.diversions.iter().filter_map(|it| it.of_others(&self.interface));
        chain("names_of_others", "nat", "prerouting", "-105", rules)
    }

    /// Before diversions, which are for the forwarder's own queries.
    fn names_forwarded_of_host(&self) -> Option<String> {
        let rules = self.forwarder.as_ref()?.of_host(&names::spared());
        chain("names_forwarded_of_host", "nat", "output", "-106", rules.into_iter())
    }

    fn names_forwarded_of_others(&self) -> Option<String> {
        let links = self.ruled.as_ref().map(|ruled| ruled.links.as_slice()).unwrap_or_default();
        let rules = self.forwarder.as_ref()?.of_others(&self.interface, links);
        chain("names_forwarded_of_others", "nat", "prerouting", "-106", rules.into_iter())
    }

    fn names_heard(&self) -> Option<String> {
        let (forwarder, ruled) = (self.forwarder.as_ref()?, self.ruled.as_ref()?);
        let rules = forwarder.heard(&self.interface, &ruled.links, &ruled.own);
        chain("names_heard", "filter", "postrouting", "srcnat - 10", rules.into_iter())
    }

    fn names_guard(&self) -> Option<String> {
        self.kill_switch.as_ref()?;
        let diverted = self.diversions.iter().map(|it| it.only_by(&self.interface));
        let forwarded = self.forwarder.iter().flat_map(NameForwarder::only_here);
        let rules = diverted.chain(forwarded);
        chain("names_guard", "filter", "postrouting", "filter", rules)
    }

    fn direct_guard(&self) -> Option<String> {
        let kill = self.kill_switch.as_ref()?;
        let lan: Vec<&str> = kill.lan.iter().map(|(device, _)| device.as_str()).collect();
        let rules = self.ruled.iter().flat_map(|ruled| ruled.only_by(&self.interface, &lan));
        chain("direct_guard", "filter", "postrouting", "filter", rules)
    }
}

impl Firewall {
    /// Other programs, such as firewalld with `fib saddr . mark . iif`, check the return path
    /// before accepting a packet. A link's packets carry its mark for this check, or the return
    /// path would be the tunnel. The mark is removed before routing.
    fn arriving(&self) -> Option<String> {
        let inbound = self.inbound.as_ref()?;
        let rest = !inbound.mask;
        let rules = inbound.links.iter().map(|link| {
            let (interface, mark) = (&link.interface, link.mark);
            format!("iifname \"{interface}\" meta mark set meta mark & {rest:#x} | {mark:#x}")
        });
        chain("arriving", "filter", "prerouting", "raw - 10", rules)
    }

    /// After those checks, firewalld's being the last at `filter + 10`.
    fn inbound(&self) -> Option<String> {
        let inbound = self.inbound.as_ref()?;
        let (mask, rest) = (inbound.mask, !inbound.mask);
        let names = inbound.links.iter().map(|link| format!("\"{}\"", link.interface));
        let names = names.collect::<Vec<_>>().join(", ");
        let arrived = format!("iifname {{ {names} }} meta mark set meta mark & {rest:#x}");
        let note = inbound.links.iter().map(|link| {
            let (interface, mark) = (&link.interface, link.mark);
            format!(
                "iifname \"{interface}\" ct direction original ct mark & {mask:#x} != {mark:#x} \
                 ct mark set ct mark & {rest:#x} | {mark:#x}"
            )
        });
        let restore = inbound
            .links
            .iter()
            .map(|link| format!("iifname != \"{}\" {}", link.interface, inbound.restore(link)));
        let rules = std::iter::once(arrived).chain(note).chain(restore);
        chain("inbound", "filter", "prerouting", "filter + 20", rules)
    }

    /// Replies of this host itself are rerouted because of their mark.
    fn answers(&self) -> Option<String> {
        let inbound = self.inbound.as_ref()?;
        let own: Vec<String> = inbound.own.iter().map(|mark| format!("{mark:#x}")).collect();
        let own = format!("meta mark {{ {} }} return", own.join(", "));
        let restore = inbound.links.iter().map(|link| inbound.restore(link));
        chain("answers", "route", "output", "mangle", std::iter::once(own).chain(restore))
    }
}

impl Inbound {
    fn restore(&self, link: &InboundLink) -> String {
        let (mask, rest, mark) = (self.mask, !self.mask, link.mark);
        format!(
            "ct direction reply ct mark & {mask:#x} == {mark:#x} \
             meta mark set meta mark & {rest:#x} | {mark:#x}"
        )
    }
}

fn chain(
    name: &str,
    kind: &str,
    hook: &str,
    priority: &str,
    rules: impl Iterator<Item = String>,
) -> Option<String> {
    let rules: String = rules.map(|rule| format!("\t\t{rule}\n")).collect();
    let head = format!("\t\ttype {kind} hook {hook} priority {priority}; policy accept;\n");
    (!rules.is_empty()).then(|| format!("\tchain {name} {{\n{head}{rules}\t}}\n"))
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn conditions(number: usize) -> braid_rules::Conditions {
        use braid_rules::{Conditions, Destinations, Devices, Transport};
        match number {
            0 => Conditions {
                devices: Some(Devices {
                    macs: vec!["aa:bb:cc:dd:ee:01".parse().unwrap()],
                    addresses: vec!["fd50::7/128".parse().unwrap()],
                }),
                dscp: Some(46),
                ..Conditions::default()
            },
            1 => Conditions {
                to: Some(Destinations {
                    networks: vec!["203.0.113.0/24".parse().unwrap()],
                    known_as: Some("a-1.b".into()),
                }),
                transport: Some(Transport::Tcp),
                ports: Some(1..=65535),
                ..Conditions::default()
            },
            _ => Conditions { users: vec![0, 7], ..Conditions::default() },
        }
    }

    #[expect(clippy::too_many_lines, reason = "a value of each kind")]
    pub fn everything() -> Firewall {
        Firewall {
            interface: "braid0".into(),
            masquerade: vec!["10.99.0.1/24".parse().unwrap(), "fd99::/64".parse().unwrap()],
            hide_lan: true,
            untranslated: vec!["2001:db8:7::/56".parse().unwrap()],
            links_outside_tunnel: vec!["wan0".into(), "wan1".into()],
            forwards: vec![
                PortForward {
                    transport: Transport::Tcp,
                    address: None,
                    ports: (8443, 8443),
                    to: "10.99.0.2".parse().unwrap(),
                    to_port: Some(443),
                },
                PortForward {
                    transport: Transport::Udp,
                    address: Some("2001:db8::1".parse().unwrap()),
                    ports: (1000, 2000),
                    to: "fd99::2".parse().unwrap(),
                    to_port: None,
                },
                PortForward {
                    transport: Transport::Tcp,
                    address: None,
                    ports: (22, 22),
                    to: "fd99::2".parse().unwrap(),
                    to_port: Some(2222),
                },
            ],
            routed: vec!["203.0.113.8/29".parse().unwrap()],
            mss: Some(MssClamp::ToMtu),
            kill_switch: Some(KillSwitch {
                marks: vec![(0xb1, u32::MAX)],
                lan: vec![(
                    "lan0".into(),
                    vec!["192.168.50.1/24".parse().unwrap(), "fd50::1/64".parse().unwrap()],
                )],
                links: vec![(
                    "wan0".into(),
                    vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
                )],
            }),
            inbound: Some(Inbound {
                mask: 0x7f00_0000,
                links: vec![InboundLink { number: 0, interface: "wan0".into(), mark: 0x100_0000 }],
                own: vec![0xb1, 17],
            }),
            ruled: Some(Ruled {
                mask: 0x7f00_0000,
                rules: [Fate::Refused, Fate::Marked(0x7e00_0000), Fate::Tunnel]
                    .into_iter()
                    .enumerate()
                    .map(|(number, fate)| RuledTraffic {
                        number,
                        conditions: conditions(number),
                        fate,
                    })
                    .collect(),
                ways: vec![DirectWay { mark: 0x7e00_0000, interface: "wan0".into() }],
                refused: 0x7f00_0000,
                links: vec!["wan0".into()],
                own: vec![0xb1, 17],
            }),
            forwarder: Some(NameForwarder {
                addresses: vec!["10.99.0.2".parse().unwrap(), "fd99::2".parse().unwrap()],
                port: 5353,
                mark: 0x62_7401,
                heard_by: Some(0x6201),
            }),
            diversions: vec![
                Diversion {
                    to: "10.99.0.9".parse().unwrap(),
                    from: Destinations::Only(vec!["192.168.1.1/32".parse().unwrap()]),
                    asker: Asker::HostAndLan,
                },
                Diversion {
                    to: "fd99::9".parse().unwrap(),
                    from: Destinations::AllBut(vec!["fd50::/64".parse().unwrap()]),
                    asker: Asker::Homes,
                },
            ],
        }
    }

    #[test]
    fn each_wish_becomes_its_rule() {
        let FirewallTable { ruleset, named, redirected_questions, .. } =
            everything().table().unwrap();
        assert_eq!(named, [braid_engines::NamedRules::Alone("a-1.b".to_owned())]);
        let redirections = ruleset.matches("dport 53 dnat").count();
        assert_eq!(redirected_questions.concat().matches("dport 53 dnat").count(), redirections);
        assert!(redirected_questions.iter().all(|chain| ruleset.contains(chain)));
        for expected in [
            "oifname != { \"braid0\", \"lo\" } ip saddr 10.99.0.0/24 masquerade",
            "oifname \"braid0\" ip saddr != { 10.99.0.0/24 } masquerade",
            "oifname \"braid0\" ip6 saddr != { fd99::/64, 2001:db8:7::/56 } masquerade",
            "oifname { \"wan0\", \"wan1\" } fib saddr type != local ip saddr { 10.0.0.0/8, 100.64.0.0/10, \
             172.16.0.0/12, 192.168.0.0/16 } masquerade",
            "ip6 saddr { fc00::/7 } ip6 saddr != { 2001:db8:7::/56 } masquerade",
            "fib daddr type local tcp dport 8443 dnat ip to 10.99.0.2:443",
            "ip6 daddr 2001:db8::1 udp dport 1000-2000 dnat ip6 to fd99::2",
            "tcp dport 22 dnat ip6 to [fd99::2]:2222",
            "oifname \"braid0\" ip daddr 203.0.113.8/29 accept",
            "tcp option maxseg size set rt mtu",
            "oifname { \"lo\", \"braid0\" } accept",
            "meta mark and 0xffffffff == 0xb1 accept",
            "oifname \"lan0\" ip daddr { 192.168.50.0/24, 224.0.0.0/4, 255.255.255.255/32 } accept",
            "oifname \"wan0\" ct direction reply ct original ip6 daddr { 2001:db8::7 } tcp flags",
            "iifname \"wan0\" ct direction original ct mark & 0x7f000000 != 0x1000000 \
             ct mark set ct mark & 0x80ffffff | 0x1000000",
            "iifname \"wan0\" meta mark set meta mark & 0x80ffffff | 0x1000000",
            "iifname { \"wan0\" } meta mark set meta mark & 0x80ffffff",
            "meta mark { 0xb1, 0x11 } return",
            "ct direction reply ct mark & 0x7f000000 == 0x1000000 \
             meta mark set meta mark & 0x80ffffff | 0x1000000",
        ] {
            assert!(ruleset.contains(expected), "{expected}\nis missing in\n{ruleset}");
        }
        for expected in [
            "meta mark and 0xfffe0000 != 0x62720000 ip daddr { 192.168.1.1/32 } meta l4proto",
            "iifname != \"braid0\" ip daddr { 192.168.1.1/32 } meta l4proto { tcp, udp } th dport 53 dnat ip to 10.99.0.9",
            "iifname \"braid0\" ip6 daddr != { ::1/128, fd50::/64 } fib daddr type != local meta l4proto",
            "oifname != \"braid0\" ct status dnat ip daddr 10.99.0.9 meta l4proto { tcp, udp } th dport 53 drop",
        ] {
            assert!(ruleset.contains(expected), "{expected}\nis missing in\n{ruleset}");
        }
        assert_eq!(Firewall::default().table(), None);
        let clamp = Firewall { mss: Some(MssClamp::To(1360)), ..Firewall::default() };
        assert!(clamp.table().unwrap().ruleset.contains("size set 1360"));
    }
}
