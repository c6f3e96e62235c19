//! Plans the host's routing; pure.

use crate::nft::{DirectWay, Firewall, Inbound, InboundLink, Ruled, RuledTraffic, Split};
use braid_engines::{Family, MAIN_TABLE, Operation, Route, RouteKind, Rule, RuleAction};
use ipnet::IpNet;
use std::net::IpAddr;

/// Where our routing tables start, unless the user says otherwise.
pub const FIRST_TABLE: u32 = 51_900;
/// Where the priorities of our policy rules start, unless the user says
/// otherwise. They must come before the main table's own rule (32,766).
pub const FIRST_PRIORITY: u32 = 5_190;
/// A route that any other beats.
const LAST_METRIC: u32 = u32::MAX;
/// Matches a connection's state in iptables.
const CONNECTION: &str = "-m conntrack --ctstate";
/// The default route into the tunnel.
const TUNNEL_METRIC: u32 = 1;
/// Tables of split connections, counted from [`HostRouting::first_table`] (links use those below):
/// for what the proxy sends through the tunnel, and for what is delivered to it.
const SPLIT_TUNNEL_TABLE: u32 = 254;
const SPLIT_LOCAL_TABLE: u32 = 255;
/// Initial window of the proxy's connections into the tunnel, in segments: some 90 KB, which take
/// 15 ms at 50 Mbit/s. The tunnel's own queue protects other traffic from it.
const SPLIT_INITIAL_WINDOW: u32 = 64;

/// How the host should route for one tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRouting {
    /// The tunnel's interface.
    pub interface: String,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// First of our routing tables, used for the tunnel; link `n` uses the table at `first_table +
    /// 1 + n`.
    pub first_table: u32,
    /// First of our policy rules' priorities.
    pub first_priority: u32,
    /// The mark of the tunnel's own datagrams.
    pub fwmark: u32,
    /// The mark bits that record which link a connection came in on, see [`Inbound`].
    pub link_marks: u32,
    /// The links.
    pub links: Vec<LinkRouting>,
    /// The links' devices, in use or not, that may learn their IPv6 gateway from router
    /// advertisements (`accept_ra` 1 or 2).
    pub believes_advertisements: Vec<String>,
    /// What goes through the tunnel.
    pub through: Through,
    /// Whether this host forwards packets (is a router).
    pub forward: bool,
    /// The IP versions for which Docker forwards only its own traffic.
    pub docker_refuses: Vec<Family>,
    /// Devices that lead to the Internet, for what a concentrator forwards there.
    pub egress_devices: Vec<String>,
    /// Interfaces on which ARP is answered for hosts behind the tunnel.
    pub proxy_arp: Vec<String>,
    /// NAT, port forwards and the like.
    pub firewall: Firewall,
    /// The proxy that splits TCP connections.
    pub split: Option<Split>,
    /// Connections that rules direct elsewhere.
    pub rules: RuledRouting,
    /// What a routing daemon should announce to other routers.
    pub announced: Option<Announced>,
}

/// Networks that other routers should route here, in a table that isn't used for routing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// The table.
    pub table: u32,
    /// The networks.
    pub networks: Vec<IpNet>,
}

/// Protocol number of the routes to announce; other routes of ours have
/// [`crate::netlink::PROTOCOL`].
pub const ANNOUNCED_PROTOCOL: u8 = 178;

/// Which connections rules direct elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuledRouting {
    /// In order: the first match applies.
    pub rules: Vec<RuledTraffic>,
    /// How marked connections leave.
    pub direct: Vec<DirectRouting>,
    /// Mark of refused connections, within [`HostRouting::link_marks`].
    pub refused: u32,
}

/// How connections with a mark leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectRouting {
    /// The mark, within [`HostRouting::link_marks`].
    pub mark: u32,
    /// The link's number.
    pub link: u32,
}

/// One link's way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRouting {
    /// Its number, which determines its table and rules.
    pub number: u32,
    /// Its interface.
    pub interface: String,
    /// Its own mark, if its datagrams are identified by one.
    pub fwmark: Option<u32>,
    /// Its addresses with their networks.
    pub addresses: Vec<IpNet>,
    /// Its gateways, at most one for each IP version; none on point-to-point
    /// links, which then get a default route without one.
    pub gateways: Vec<IpAddr>,
    /// Needs no gateway (PPP, a raw-IP modem).
    pub point_to_point: bool,
    /// The kernel checks the reverse path (`rp_filter` 1 or 2); the check is then set to loose.
    pub checks_reverse_path: bool,
}

/// What goes through the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Through {
    /// Only what other programs route there.
    Nothing,
    /// These networks, through routes in the main table.
    Networks(Vec<IpNet>),
    /// Everything without a more specific route.
    Everything {
        /// Whether the tunnel works now.
        working: bool,
        /// What happens to that traffic when it doesn't.
        otherwise: Otherwise,
    },
}

/// What happens to traffic for the tunnel while it doesn't work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It waits in the tunnel.
    Wait,
    /// It never leaves outside the tunnel, even if this program has died.
    KillSwitch,
    /// It leaves directly over this link.
    Straight {
        /// Its number; `None` uses the host's own routes.
        link: Option<u32>,
    },
}

impl HostRouting {
    /// Everything to set, in order. The firewall comes first: connections forwarded before it is
    /// set would leave without NAT or outside the tunnel, and stay so until they end.
    pub fn desired(&self) -> Vec<Operation> {
        let firewall =
            Firewall { inbound: self.inbound(), ruled: self.ruled(), ..self.firewall.clone() };
        let firewall = firewall.table().map(Operation::Firewall);
        let mut operations = Vec::new();
        if self.firewall.forwarder.as_ref().is_some_and(|it| it.heard_by.is_some()) {
            // The kernel switches this on once a table uses connections' packet counts. We set it
            // first, so that the previous value is recorded.
            let key = "net/netfilter/nf_conntrack_acct".to_owned();
            operations.push(Operation::Sysctl { key, value: "1".to_owned() });
        }
        operations.extend(firewall);
        operations.extend(self.docker_user());
        operations.extend(self.sysctls());
        operations.extend(
            self.addresses
                .iter()
                .map(|&net| Operation::Address { device: self.interface.clone(), net }),
        );
        operations.extend(self.links.iter().flat_map(|link| self.link_routes(link)));
        operations.extend(self.tunnel_routes());
        operations.extend(self.announced.iter().flat_map(|it| self.announcements(it)));
        operations.extend(self.rules());
        operations.extend(self.split.iter().flat_map(|split| self.split_connections(*split)));
        operations
    }

    /// The rules that mark packets come last: until then connections aren't split.
    fn split_connections(&self, split: Split) -> Vec<Operation> {
        let [tunnel, local] = [SPLIT_TUNNEL_TABLE, SPLIT_LOCAL_TABLE].map(|n| self.first_table + n);
        let mut operations = Vec::new();
        for family in Family::ALL.into_iter().filter(|f| *f == Family::V4 || split.v6) {
            operations.push(Operation::Route(Route {
                device: Some(self.interface.clone()),
                metric: TUNNEL_METRIC,
                initial_window: Some(SPLIT_INITIAL_WINDOW),
                ..Route::new(family.everything(), tunnel)
            }));
            operations.push(Operation::Route(Route {
                kind: RouteKind::Local,
                device: Some("lo".to_owned()),
                metric: TUNNEL_METRIC,
                ..Route::new(family.everything(), local)
            }));
            for (mark, table) in [(split.tunnel_mark, tunnel), (split.local_mark, local)] {
                let lookup = RuleAction::Lookup { table, suppress_prefix_len: None };
                let rule = Rule::new(family, self.first_priority, lookup);
                operations.push(Operation::Rule(Rule { fwmark: Some(mark), ..rule }));
            }
        }
        // A client's request is sent with the connection's first packet (TCP Fast Open): both bits,
        // for clients (the default) and servers (Documentation/networking/ip-sysctl.rst).
        operations
            .push(Operation::Sysctl { key: "net/ipv4/tcp_fastopen".into(), value: "3".into() });
        let (elsewhere, refused) = (self.link_marks, self.rules.refused);
        let table = split.firewall_table(&self.interface, elsewhere, refused);
        operations.push(Operation::Firewall(table));
        operations
    }

    fn sysctls(&self) -> Vec<Operation> {
        let set = |key: String, value: &str| Operation::Sysctl { key, value: value.to_owned() };
        let mut operations = Vec::new();
        if self.forward {
            operations.extend(self.forwarded().map(Operation::Forwarding));
            // If somebody else made this host a router, the device lacks its gateway as well.
            for device in self.believes_advertisements.iter().filter(|_| self.has(Family::V6)) {
                operations.push(set(format!("net/ipv6/conf/{device}/accept_ra"), "2"));
            }
        }
        for link in self.links.iter().filter(|link| link.checks_reverse_path) {
            // The concentrator's packets arrive over every link, but the reverse path to it leads
            // through the tunnel.
            operations.push(set(format!("net/ipv4/conf/{}/rp_filter", link.interface), "2"));
        }
        for interface in &self.proxy_arp {
            operations.push(set(format!("net/ipv4/conf/{interface}/proxy_arp"), "1"));
        }
        operations
    }

    /// A link's table: its networks, its gateway, and an unreachable route behind them, so that its
    /// datagrams never take another way.
    fn link_routes(&self, link: &LinkRouting) -> Vec<Operation> {
        let table = self.link_table(link.number);
        let by = |destination, gateway| Route {
            gateway,
            device: Some(link.interface.clone()),
            ..Route::new(destination, table)
        };
        let mut routes: Vec<_> = link.addresses.iter().map(|net| by(net.trunc(), None)).collect();
        routes.dedup();
        for family in Family::ALL {
            let gateway = link.gateways.iter().find(|&&gateway| Family::of(gateway) == family);
            let addressed = link.addresses.iter().any(|net| Family::of(net.addr()) == family);
            match gateway {
                Some(&gateway) => {
                    let near = link.addresses.iter().any(|net| net.contains(&gateway));
                    let on_link = !near && gateway.is_ipv4();
                    routes.push(Route { on_link, ..by(family.everything(), Some(gateway)) });
                }
                None if link.point_to_point && addressed => {
                    routes.push(by(family.everything(), None))
                }
                None => {}
            }
            routes.push(Route {
                kind: RouteKind::Unreachable,
                metric: LAST_METRIC,
                ..Route::new(family.everything(), table)
            });
        }
        routes.into_iter().map(Operation::Route).collect()
    }

    fn tunnel_routes(&self) -> Vec<Operation> {
        let into = |destination, table| Route {
            device: Some(self.interface.clone()),
            metric: TUNNEL_METRIC,
            ..Route::new(destination, table)
        };
        let routes = match &self.through {
            Through::Nothing => Vec::new(),
            Through::Networks(networks) => {
                networks.iter().map(|net| into(net.trunc(), MAIN_TABLE)).collect()
            }
            Through::Everything { working, otherwise } => {
                self.default_routes(*working, *otherwise, |family| {
                    into(family.everything(), self.first_table)
                })
            }
        };
        routes.into_iter().map(Operation::Route).collect()
    }

    fn announcements(&self, announced: &Announced) -> Vec<Operation> {
        let route = |net: &IpNet| {
            Operation::Route(Route {
                device: Some(self.interface.clone()),
                metric: TUNNEL_METRIC,
                protocol: Some(ANNOUNCED_PROTOCOL),
                ..Route::new(net.trunc(), announced.table)
            })
        };
        announced.networks.iter().map(route).collect()
    }

    fn default_routes(
        &self,
        working: bool,
        otherwise: Otherwise,
        into: impl Fn(Family) -> Route,
    ) -> Vec<Route> {
        let mut routes = Vec::new();
        for family in Family::ALL {
            let inside = self.addresses.iter().any(|net| Family::of(net.addr()) == family);
            let straight = matches!(otherwise, Otherwise::Straight { .. });
            if inside && (working || !straight) {
                routes.push(into(family));
            }
            if let (false, Otherwise::Straight { link: Some(number) }) = (working, otherwise) {
                routes.extend(self.straight_out(number, family));
            }
            if otherwise == Otherwise::KillSwitch {
                routes.push(Route {
                    kind: RouteKind::Unreachable,
                    metric: LAST_METRIC,
                    ..Route::new(family.everything(), self.first_table)
                });
            }
        }
        routes
    }

    /// The default route of a link, in the tunnel's table.
    fn straight_out(&self, number: u32, family: Family) -> Option<Route> {
        let link = self.links.iter().find(|link| link.number == number)?;
        self.link_routes(link).into_iter().find_map(|item| match item {
            Operation::Route(route)
                if route.destination == family.everything() && route.kind == RouteKind::Unicast =>
            {
                Some(Route { table: self.first_table, ..route })
            }
            _ => None,
        })
    }

    /// Order of priorities: replies to connections that came in over a link; routes of the main
    /// table more specific than its default route; the links; the tunnel.
    fn rules(&self) -> Vec<Operation> {
        if self.links.is_empty() && !self.everything() {
            return Vec::new();
        }
        let mut rules = Vec::new();
        for family in Family::ALL {
            let lookup = |table| RuleAction::Lookup { table, suppress_prefix_len: None };
            let specific = RuleAction::Lookup { table: MAIN_TABLE, suppress_prefix_len: Some(0) };
            if let Some(inbound) = self.inbound() {
                rules.extend(inbound.links.iter().map(|link| {
                    let table = lookup(self.link_table(link.number));
                    let rule = Rule::new(family, self.first_priority, table);
                    Rule { fwmark: Some(link.mark), mask: Some(inbound.mask), ..rule }
                }));
            }
            rules.push(Rule::new(family, self.first_priority + 1, specific));
            for link in &self.links {
                let priority = self.first_priority + 2 + link.number;
                let rule = || Rule::new(family, priority, lookup(self.link_table(link.number)));
                rules.push(Rule { outgoing: Some(link.interface.clone()), ..rule() });
                let own = link.addresses.iter().map(|net| IpNet::from(net.addr()));
                let own = own.filter(|net| {
                    let local = matches!(net.addr(), IpAddr::V6(a) if a.is_unicast_link_local());
                    Family::of(net.addr()) == family && !local
                });
                rules.extend(self.marks_of(link).map(|mark| Rule {
                    fwmark: Some(mark),
                    mask: Some(self.link_marks),
                    ..rule()
                }));
                rules.extend(own.map(|net| Rule { from: Some(net), ..rule() }));
                rules.extend(link.fwmark.map(|mark| Rule { fwmark: Some(mark), ..rule() }));
            }
            if self.everything() {
                let last = self.links.iter().map(|link| link.number + 1).max().unwrap_or(0);
                let priority = self.first_priority + 2 + last;
                let rule = Rule::new(family, priority, lookup(self.first_table));
                rules.push(Rule { not: true, fwmark: Some(self.fwmark), ..rule });
            }
        }
        rules.into_iter().map(Operation::Rule).collect()
    }

    /// At home everybody except the links' neighbours may enter the tunnel, and replies may come
    /// back. At a concentrator, homes may reach the Internet but not containers, and ports
    /// forwarded to homes may enter. The last rule is evaluated first.
    fn docker_user(&self) -> Vec<Operation> {
        let tunnel = &self.interface;
        let mut rules = Vec::new();
        if self.forward && self.everything() {
            rules.push(format!("-o {tunnel} -j ACCEPT"));
            rules.push(format!("-i {tunnel} {CONNECTION} RELATED,ESTABLISHED -j ACCEPT"));
            let links = self.links.iter().map(|link| &link.interface);
            rules.extend(
                links.map(|link| format!("-i {link} -o {tunnel} {CONNECTION} NEW -j RETURN")),
            );
        } else if self.forward {
            let out = self.egress_devices.iter();
            rules.extend(out.map(|out| format!("-i {tunnel} -o {out} -j ACCEPT")));
            rules.push(format!("-o {tunnel} {CONNECTION} RELATED,ESTABLISHED,DNAT -j ACCEPT"));
        }
        for link in &self.links {
            for mark in self.marks_of(link) {
                let (interface, mask) = (&link.interface, self.link_marks);
                let direct = format!("-m connmark --mark {mark:#x}/{mask:#x} -j ACCEPT");
                rules.push(format!("-o {interface} {direct}"));
                rules.push(format!("-i {interface} {CONNECTION} RELATED,ESTABLISHED {direct}"));
            }
        }
        let mut operations = Vec::new();
        for &family in &self.docker_refuses {
            let item = |rule: &String| Operation::DockerUser { family, rule: rule.clone() };
            operations.extend(
                rules
                    .iter()
                    .map(item)
                    .filter(|item| !operations.contains(item))
                    .collect::<Vec<_>>(),
            );
        }
        operations
    }

    /// The IP versions that are forwarded; others are left alone.
    fn forwarded(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|&family| self.has(family))
    }

    /// Whether the tunnel carries forwarded packets of an IP version.
    fn has(&self, family: Family) -> bool {
        let firewall = &self.firewall;
        let forwards = firewall.forwards.iter().map(|forward| forward.to);
        let networks = self.addresses.iter().chain(&firewall.routed).chain(&firewall.untranslated);
        networks.map(IpNet::addr).chain(forwards).any(|address| Family::of(address) == family)
    }

    /// If the default route leads into the tunnel, replies need rules to leave by the link that the
    /// request came in on.
    fn inbound(&self) -> Option<Inbound> {
        if !self.everything() || self.link_marks == 0 {
            return None;
        }
        let mask = self.link_marks;
        let mut links: Vec<InboundLink> = Vec::new();
        for link in &self.links {
            let known = links.iter().any(|known| known.interface == link.interface);
            if let (false, Some(mark)) = (known, self.inbound_mark(link.number)) {
                links.push(InboundLink {
                    number: link.number,
                    interface: link.interface.clone(),
                    mark,
                });
            }
        }
        (!links.is_empty()).then_some(Inbound { mask, links, own: self.own_marks() })
    }

    /// The marks of packets that the tunnel sends over links, and of those that the proxy sends.
    fn own_marks(&self) -> Vec<u32> {
        let own = self.links.iter().filter_map(|link| link.fwmark).chain([self.fwmark]);
        let split = self.split.iter().flat_map(|it| [it.tunnel_mark, it.outer_mark, it.local_mark]);
        let forwarder = self.firewall.forwarder.iter().map(|it| it.mark);
        own.chain(split).chain(forwarder).collect()
    }

    fn ruled(&self) -> Option<Ruled> {
        let RuledRouting { rules, direct, refused } = &self.rules;
        if self.link_marks == 0 || rules.is_empty() && direct.is_empty() {
            return None;
        }
        let mut links: Vec<String> = self.links.iter().map(|it| it.interface.clone()).collect();
        links.dedup();
        let ways = self.links.iter().flat_map(|link| {
            let interface = &link.interface;
            self.marks_of(link).map(|mark| DirectWay { mark, interface: interface.clone() })
        });
        Some(Ruled {
            mask: self.link_marks,
            rules: rules.clone(),
            ways: ways.collect(),
            refused: *refused,
            links,
            own: self.own_marks(),
        })
    }

    /// The marks of connections that leave by a link, bypassing the tunnel.
    fn marks_of(&self, link: &LinkRouting) -> impl Iterator<Item = u32> {
        let number = link.number;
        self.rules.direct.iter().filter(move |it| it.link == number).map(|it| it.mark)
    }

    /// Never equals the tunnel's own mark in these bits; `None` if there are too few bits.
    fn inbound_mark(&self, number: u32) -> Option<u32> {
        let shift = self.link_marks.trailing_zeros();
        let marks = (1..=self.link_marks.checked_shr(shift)?).map(|value| value << shift);
        let mut free = marks.filter(|mark| mark & self.link_marks == *mark);
        let own = self.fwmark & self.link_marks;
        let mark = free.by_ref().filter(|&mark| mark != own).nth(usize::try_from(number).ok()?)?;
        let rules = &self.rules;
        let ruled = mark == rules.refused || rules.direct.iter().any(|it| it.mark == mark);
        (!ruled).then_some(mark)
    }

    fn everything(&self) -> bool {
        matches!(self.through, Through::Everything { .. })
    }

    fn link_table(&self, number: u32) -> u32 {
        self.first_table + 1 + number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::Firewall;

    fn host(through: Through) -> HostRouting {
        HostRouting {
            interface: "braid0".into(),
            addresses: vec!["10.99.0.2/24".parse().unwrap()],
            first_table: FIRST_TABLE,
            first_priority: FIRST_PRIORITY,
            fwmark: 0xb1,
            link_marks: 0x7f00_0000,
            links: vec![LinkRouting {
                number: 0,
                interface: "ppp0".into(),
                fwmark: None,
                addresses: vec!["198.51.100.7/32".parse().unwrap()],
                gateways: Vec::new(),
                point_to_point: true,
                checks_reverse_path: false,
            }],
            believes_advertisements: Vec::new(),
            through,
            forward: false,
            docker_refuses: Vec::new(),
            egress_devices: Vec::new(),
            proxy_arp: Vec::new(),
            firewall: Firewall::default(),
            split: None,
            announced: None,
            rules: RuledRouting::default(),
        }
    }

    fn written(routing: &HostRouting) -> Vec<String> {
        routing.desired().iter().map(Operation::to_string).collect()
    }

    #[test]
    fn a_host_that_is_left_alone_has_nothing_set() {
        let mut routing = host(Through::Nothing);
        routing.links.clear();
        routing.addresses.clear();
        assert_eq!(routing.desired(), []);
    }

    #[test]
    fn nothing_is_forwarded_before_the_firewall_is_there() {
        let mut routing = host(Through::Nothing);
        routing.forward = true;
        routing.firewall.mss = Some(crate::nft::MssClamp::ToMtu);
        let desired = routing.desired();
        assert!(matches!(desired.first(), Some(Operation::Firewall(_))), "{desired:#?}");
        assert_eq!(desired.iter().filter(|i| matches!(i, Operation::Firewall(_))).count(), 1);
    }

    #[test]
    fn a_point_to_point_link_needs_no_gateway() {
        let operations = written(&host(Through::Nothing));
        assert!(
            operations.contains(&"route 0.0.0.0/0 dev ppp0 table 51901".into()),
            "{operations:#?}"
        );
        assert!(!operations.contains(&"route ::/0 dev ppp0 table 51901".into()), "it has no IPv6");
        assert!(operations.contains(&"route unreachable ::/0 table 51901".into()));
        assert!(operations.contains(&"rule 5192: from 198.51.100.7/32 lookup 51901 (IPv4)".into()));
    }

    #[test]
    fn the_tunnels_rule_comes_after_the_links() {
        let through = Through::Everything { working: true, otherwise: Otherwise::KillSwitch };
        let operations = written(&host(through));
        for expected in [
            "rule 5190: from all fwmark 0x1000000/0x7f000000 lookup 51901 (IPv4)",
            "rule 5191: from all lookup 254 suppress_prefixlength 0 (IPv4)",
            "rule 5192: from all oif ppp0 lookup 51901 (IPv6)",
            "rule 5193: not from all fwmark 0xb1 lookup 51900 (IPv4)",
            "route 0.0.0.0/0 dev braid0 table 51900",
            "route unreachable ::/0 table 51900",
        ] {
            assert!(
                operations.contains(&expected.into()),
                "{expected} is missing in {operations:#?}"
            );
        }
        assert!(
            !operations.contains(&"route ::/0 dev braid0 table 51900".into()),
            "no IPv6 inside"
        );
    }

    #[test]
    fn answers_have_marks_that_are_nobody_elses() {
        let through = Through::Everything { working: true, otherwise: Otherwise::Wait };
        let mut routing = host(through);
        routing.fwmark = 0x0262_0000;
        routing.links[0].fwmark = Some(17);
        let again = LinkRouting { number: 2, ..routing.links[0].clone() };
        let other = LinkRouting { number: 1, interface: "eth1".into(), ..again.clone() };
        routing.links.extend([again, other]);
        let found = routing.inbound().unwrap();
        let marks = found.links.iter().map(|link| (link.interface.as_str(), link.mark));
        assert_eq!(marks.collect::<Vec<_>>(), [("ppp0", 0x0100_0000), ("eth1", 0x0300_0000)]);
        assert!([17, 0x0262_0000].iter().all(|mark| found.own.contains(mark)));
        // One bit gives one mark: the second link has none.
        routing.link_marks = 0x100;
        assert_eq!(routing.inbound().unwrap().links.len(), 1);
        assert_eq!(HostRouting { link_marks: 0, ..routing.clone() }.inbound(), None);
        assert_eq!(HostRouting { through: Through::Nothing, ..routing }.inbound(), None);
    }

    #[test]
    fn networks_go_by_the_main_table() {
        let networks = vec!["10.7.1.1/16".parse().unwrap()];
        let operations = written(&host(Through::Networks(networks)));
        assert!(operations.contains(&"route 10.7.0.0/16 dev braid0 table 254".into()));
        assert!(!operations.iter().any(|item| item.contains("51900")));
    }

    #[test]
    fn straight_out_leaves_by_the_chosen_link_only_while_the_tunnel_fails() {
        for working in [true, false] {
            let otherwise = Otherwise::Straight { link: Some(0) };
            let operations = written(&host(Through::Everything { working, otherwise }));
            let by = |interface| {
                operations.contains(&format!("route 0.0.0.0/0 dev {interface} table 51900"))
            };
            assert_eq!((by("braid0"), by("ppp0")), (working, !working));
        }
    }
}
