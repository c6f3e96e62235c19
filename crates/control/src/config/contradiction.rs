use super::diagnostic::Diagnostics;
use super::interface::{ETHERNET_MAX_MTU, IPV6_MIN_MTU, Interface, Layer};
use super::name::Name;
use super::network::Prefix;
use super::routing::PlacedRouting;
use super::rule::{Action, Rule};
use super::section::{Placed, Places};
use super::transport::TransportChoice;
use super::{Alert, Cap, Fleet, History, Link, Peer, Protocol, SplitTcp, Ui, closest};
use std::collections::HashMap;
use std::hash::Hash;

/// Rate limits have a one-byte number on the wire, and 0 means none.
const MOST_LIMITS: usize = 255;

/// All sections, each valid by itself.
pub(super) struct Sections {
    pub(super) interface: Option<Placed<Interface>>,
    pub(super) rules: Vec<Placed<Rule>>,
    /// Rules that are written as `[[class]]`.
    pub(super) classes: Vec<Placed<Rule>>,
    pub(super) links: Vec<Placed<Link>>,
    /// Whether links are written, readable or not.
    pub(super) has_links: bool,
    pub(super) peers: Vec<Placed<Peer>>,
    pub(super) routing: Option<PlacedRouting>,
    pub(super) history: Option<History>,
    pub(super) ui: Ui,
    pub(super) alerts: Vec<Alert>,
    pub(super) split_tcp: Option<Placed<Option<SplitTcp>>>,
    pub(super) fleet: Option<Placed<Fleet>>,
}

/// Reports contradictions.
pub(super) fn check(sections: &Sections, found: &mut Diagnostics) {
    if let Some(interface) = &sections.interface {
        check_interface(interface, found);
        check_reachability(interface, sections, found);
        check_loops(interface, sections, found);
    }
    check_uniqueness(sections, found);
    check_stand_ins(sections, found);
    check_announcing(sections, found);
    check_fleet(sections, found);
    if let Some(routing) = &sections.routing {
        check_routing(routing, sections, found);
        check_forwarding(routing, sections, found);
    }
    check_split_tcp(sections, found);
    check_transports(sections, found);
    check_rules(sections, found);
}

/// TLS needs a port at the peer.
fn check_transports(sections: &Sections, found: &mut Diagnostics) {
    let reached = sections.peers.iter().any(|peer| peer.value.fallback_port.is_some());
    if reached || sections.peers.is_empty() {
        return;
    }
    for link in &sections.links {
        let (key, what) = match (&link.value.transport, &link.value.proxy) {
            (TransportChoice::Tls, _) => ("transport", "transport = \"tls\""),
            (_, Some(_)) => ("proxy", "proxy, which carries TLS alone"),
            _ => continue,
        };
        found.add_with_hint(
            link.places.key(key).unwrap_or(link.places.section),
            format!("link.{what}, but no peer has a port for TLS"),
            "write fallback_port = 443 in [[peer]], if the concentrator has listen_tls there",
        );
    }
}

fn check_rules(sections: &Sections, found: &mut Diagnostics) {
    let routing = sections.routing.as_ref().map(|it| &it.routing.value);
    let l2 = sections.interface.as_ref().is_some_and(|it| it.value.layer == Layer::L2);
    let links: Vec<&str> = sections.links.iter().map(|link| link.value.name.as_str()).collect();
    let limits = |rule: &&Placed<Rule>| matches!(rule.value.action, Action::Tunnel(it) if it.rate != Cap::default());
    if let Some(one_too_many) = sections.rules.iter().filter(limits).nth(MOST_LIMITS) {
        found.add_with_hint(
            one_too_many.places.key("rate").unwrap_or(one_too_many.places.section),
            format!("more than {MOST_LIMITS} rules have a rate"),
            "use one rule for several devices or networks: they share its rate",
        );
    }
    let by_origin = |rule: &&Placed<Rule>| rule.value.matches.to.by_origin();
    for rule in &sections.rules {
        let at = |key| rule.places.key(key).unwrap_or(rule.places.section);
        let action = &rule.value.action;
        let of_host = !matches!(action, Action::Tunnel(treatment) if treatment.mode.is_some());
        if of_host && routing.is_some_and(|it| it.leave_host_alone) {
            found.add_with_hint(
                at("do"),
                "a rule that contradicts routing.leave_host_alone = true: it needs the host's firewall",
                "remove one of them; only do = \"tunnel\" with a mode works without it",
            );
        } else if of_host && l2 {
            found.add_with_hint(
                at("do"),
                "a rule with layer = \"l2\": rules are for IP packets, Ethernet frames are carried \
                 as they are",
                "remove it, or write layer = \"l3\"",
            );
        }
        let unnamed = sections.interface.as_ref().is_some_and(|it| it.value.addresses.is_empty());
        if rule.value.matches.to.by_name() && unnamed {
            found.add_with_hint(
                at("match"),
                "a rule with domains, but the tunnel's device has no address to serve DNS on",
                "write addresses = [\"10.77.0.2/24\"] in [interface]",
            );
        }
        let Action::Direct(direct) = action else { continue };
        if routing.is_some_and(|it| it.link_marks.bits() == 0) {
            found.add_with_hint(
                at("do"),
                "do = \"direct\" with routing.link_marks = \"off\": connections need marks to stay \
                 on their link",
                "give bits that nothing else uses, or remove link_marks",
            );
        }
        if !sections.has_links {
            found.add_with_hint(at("do"), "do = \"direct\" without any link", "add [[link]]");
        }
        for (index, link) in direct.links.iter().map(Name::as_str).enumerate() {
            if !links.is_empty() && !links.contains(&link) {
                let hint = match closest(link, links.iter().copied()) {
                    Some(close) => format!("did you mean {close:?}?"),
                    None => format!("the links are: {}", links.join(", ")),
                };
                let offset = rule.places.element("links", index);
                found.add_with_hint(offset, format!("no link is named {link:?}"), hint);
            }
        }
    }
    let table = routing.is_some_and(|it| it.origins.is_some());
    if let (Some(rule), false) = (sections.rules.iter().find(by_origin), table) {
        found.add_with_hint(
            rule.places.key("match").unwrap_or(rule.places.section),
            "a rule with country or asn, but no table says which networks these have",
            "give a table such as iptoasn.com's: origins = \"ip2asn-combined.tsv\" in [routing]",
        );
    }
}

fn check_split_tcp(sections: &Sections, found: &mut Diagnostics) {
    let Some(Placed { value: Some(_), places }) = &sections.split_tcp else { return };
    let alone = sections.routing.as_ref().is_some_and(|it| it.routing.value.leave_host_alone);
    if alone {
        found.add_with_hint(
            places.section,
            "[split_tcp] contradicts routing.leave_host_alone = true: connections get to the \
             proxy by rules of the host",
            "remove one of them",
        );
    }
    if sections.interface.as_ref().is_some_and(|it| it.value.layer == Layer::L2) {
        found.add_with_hint(
            places.section,
            "[split_tcp] with layer = \"l2\": it is for IP packets, Ethernet frames are carried as \
             they are",
            "remove it, or write layer = \"l3\"",
        );
    }
}

fn check_interface(interface: &Placed<Interface>, found: &mut Diagnostics) {
    let Placed { value, places } = interface;
    let v6 = value.addresses.iter().position(|net| net.addr().is_ipv6());
    if let (Some(index), true) = (v6, value.mtu < IPV6_MIN_MTU) {
        found.add_with_hint(
            places.element("addresses", index),
            format!("an IPv6 address on a device with MTU {}", value.mtu),
            format!("IPv6 needs mtu = {IPV6_MIN_MTU} or more"),
        );
    }
    if value.layer == Layer::L2 && value.mtu > ETHERNET_MAX_MTU {
        found.add_with_hint(
            places.key("mtu").unwrap_or(places.section),
            format!("an Ethernet device with MTU {}", value.mtu),
            format!("with layer = \"l2\" the largest is mtu = {ETHERNET_MAX_MTU}"),
        );
    }
    if let (Some(offset), Layer::L3) = (places.key("bridge"), value.layer) {
        found.add_with_hint(
            offset,
            "interface.bridge with layer = \"l3\": only Ethernet can be bridged",
            "write layer = \"l2\", or remove bridge",
        );
    }
    if let (Some(_), Some(bridge), false) =
        (places.key("bridge"), &value.bridge, value.addresses.is_empty())
    {
        found.add_with_hint(
            places.element("addresses", 0),
            format!("addresses on {}, which becomes a port of {bridge}", value.name),
            "give the addresses to the bridge",
        );
    }
    report_repeated(
        value.addresses.iter().map(|net| net.addr()),
        |index| places.element("addresses", index),
        |address| format!("the address {address} appears twice"),
        found,
    );
    report_repeated(
        value.listen.iter().copied(),
        |index| places.element("listen", index),
        |address| format!("listen has {address} twice"),
        found,
    );
}

/// Both ends must be able to find each other, over some link.
fn check_reachability(interface: &Placed<Interface>, sections: &Sections, found: &mut Diagnostics) {
    let listens = !interface.value.listen.is_empty();
    for peer in &sections.peers {
        let reachable = !peer.value.endpoints.is_empty();
        // An unreadable list was reported already.
        if !reachable && !listens && peer.places.key("endpoints").is_none() {
            found.add_with_hint(
                peer.places.section,
                format!("peer {:?} can't be reached: it has no endpoints, and interface.listen \
                         isn't set", peer.value.name.as_str()),
                "add endpoints = [\"host:51900\"] here, or listen = [\"0.0.0.0:51900\"] to [interface]",
            );
        }
    }
    let needs_links = sections.peers.iter().any(|peer| !peer.value.endpoints.is_empty());
    if needs_links && !listens && !sections.has_links {
        found.add_with_hint(
            interface.places.section,
            "no [[link]]: the peers' endpoints can't be reached over anything",
            "add [[link]] with name = \"dsl\" and interface = \"eth1\" for every way out",
        );
    }
}

/// The tunnel's own packets must not be routed into the tunnel.
fn check_loops(interface: &Placed<Interface>, sections: &Sections, found: &mut Diagnostics) {
    let own = &interface.value;
    for link in &sections.links {
        let binding = &link.value.binding;
        let at = |key| link.places.key(key).unwrap_or(link.places.section);
        if binding.interface.as_ref() == Some(&own.name) {
            found.add_with_hint(
                at("interface"),
                format!("a link that leaves by {}, the tunnel itself", own.name),
                "name the device of an uplink, such as \"eth1\"",
            );
        }
        if let Some(source) = binding.source
            && own.addresses.iter().any(|net| net.addr() == source)
        {
            found.add_with_hint(
                at("source"),
                format!("a link that leaves from {source}, the tunnel's own address"),
                "name the address that an uplink has",
            );
        }
    }
    let Some(routing) = &sections.routing else { return };
    for (index, public) in routing.routing.value.public_prefixes.iter().enumerate() {
        if public.on_link.as_ref() == Some(&own.name) {
            found.add_with_hint(
                placed(&routing.public_prefixes, index, "on_link"),
                format!("on_link = {:?} is the tunnel itself", own.name.as_str()),
                "name the device towards the provider, such as \"eth0\"",
            );
        }
    }
    for (index, forward) in routing.routing.value.forward_ports.iter().enumerate() {
        let homes_call_there = own.listen.iter().any(|listen| listen.port() == forward.public);
        if forward.protocol == Protocol::Udp && homes_call_there {
            found.add_with_hint(
                placed(&routing.forward_ports, index, "public"),
                format!(
                    "UDP port {} is where homes connect: it can't be forwarded",
                    forward.public
                ),
                "forward another port, or listen on another",
            );
        }
    }
}

fn check_uniqueness(sections: &Sections, found: &mut Diagnostics) {
    let at = |places: &Places, key: &str| places.key(key).unwrap_or(places.section);
    let Sections { links, peers, .. } = sections;
    let rules: Vec<_> = sections.rules.iter().chain(&sections.classes).collect();
    report_repeated(
        rules.iter().map(|rule| &rule.value.name),
        |index| rules.get(index).map_or(0, |rule| at(&rule.places, "name")),
        |name| format!("two rules are named {:?}", name.as_str()),
        found,
    );
    report_repeated(
        links.iter().map(|link| &link.value.name),
        |index| links.get(index).map_or(0, |link| at(&link.places, "name")),
        |name| format!("two links are named {:?}", name.as_str()),
        found,
    );
    report_repeated(
        links.iter().map(|link| &link.value.binding),
        |index| links.get(index).map_or(0, |link| link.places.section),
        |_| "this link leaves by the same way as an earlier one".to_owned(),
        found,
    );
    report_repeated(
        peers.iter().map(|peer| &peer.value.name),
        |index| peers.get(index).map_or(0, |peer| at(&peer.places, "name")),
        |name| format!("two peers are named {:?}", name.as_str()),
        found,
    );
    report_repeated(
        peers.iter().map(|peer| peer.value.public_key),
        |index| {
            let places = peers.get(index).map(|peer| &peer.places);
            let key = |places: &Places| places.key("public_key").or(places.key("enrolment_key"));
            places.map_or(0, |places| key(places).unwrap_or(places.section))
        },
        |_| "two peers have the same public key".to_owned(),
        found,
    );
    let prefixes: Vec<(Prefix, usize)> = peers
        .iter()
        .flat_map(|peer| {
            let prefixes = peer.value.allowed_ips.iter().enumerate();
            prefixes.map(|(index, prefix)| (*prefix, peer.places.element("allowed_ips", index)))
        })
        .collect();
    report_repeated(
        prefixes.iter().map(|(prefix, _)| *prefix),
        |index| prefixes.get(index).map_or(0, |(_, offset)| *offset),
        |prefix| format!("{prefix} is in allowed_ips twice: it must belong to one peer"),
        found,
    );
}

fn check_fleet(sections: &Sections, found: &mut Diagnostics) {
    let Some(Placed { places, .. }) = &sections.fleet else { return };
    let Some(interface) = sections.interface.as_ref().map(|it| &it.value) else { return };
    if interface.listen.is_empty() || interface.layer == Layer::L2 {
        found.add_with_hint(
            places.section,
            "[fleet] is for concentrators with layer = \"l3\": homes have theirs as [[peer]]",
            "remove it; at home: `braid home join LINE --stand-in`",
        );
    }
}

fn check_announcing(sections: &Sections, found: &mut Diagnostics) {
    let Some(routing) = &sections.routing else { return };
    let Placed { value, places } = &routing.routing;
    let Some(interface) = sections.interface.as_ref().map(|it| &it.value) else { return };
    if value.announce_table.is_none() {
        return;
    }
    let offset = places.key("announce_table").unwrap_or(places.section);
    if interface.listen.is_empty() {
        found.add_with_hint(
            offset,
            "routing.announce_table without interface.listen: only a concentrator has homes to announce",
            "remove it",
        );
    } else if interface.layer == Layer::L2 {
        found.add_with_hint(
            offset,
            "routing.announce_table with layer = \"l2\": homes' addresses aren't known here",
            "remove it, or write layer = \"l3\"",
        );
    }
}

fn check_stand_ins(sections: &Sections, found: &mut Diagnostics) {
    let ethernet = sections.interface.as_ref().is_some_and(|it| it.value.layer == Layer::L2);
    for Placed { value: peer, places } in &sections.peers {
        let Some(owner) = peer.stands_in_for.as_ref() else { continue };
        let offset = places.key("stands_in_for").unwrap_or(places.section);
        let owner = owner.as_str();
        let others = sections.peers.iter().map(|other| &other.value);
        let called: Vec<&Peer> = others
            .filter(|other| other.name != peer.name && !other.endpoints.is_empty())
            .filter(|other| other.stands_in_for.is_none())
            .collect();
        if ethernet {
            found.add_with_hint(
                offset,
                "peer.stands_in_for with layer = \"l2\": the tunnel learns which peer has which \
                 MAC address",
                "remove it, or write layer = \"l3\"",
            );
        } else if peer.endpoints.is_empty() {
            found.add_with_hint(
                offset,
                "peer.stands_in_for without endpoints: only a home has concentrators that stand in",
                "add endpoints, or remove it",
            );
        } else if !called.iter().any(|other| other.name.as_str() == owner) {
            let names = called.iter().map(|other| other.name.as_str());
            let hint = match closest(owner, names.clone()) {
                Some(close) => format!("did you mean {close:?}?"),
                None => match names.collect::<Vec<_>>().join(", ") {
                    none if none.is_empty() => {
                        "it must be a peer with endpoints that doesn't stand in itself; there is \
                         none"
                            .into()
                    }
                    names => format!(
                        "it must be a peer with endpoints that doesn't stand in itself: {names}"
                    ),
                },
            };
            found.add_with_hint(offset, format!("no other peer is named {owner:?}"), hint);
        }
        if !peer.allowed_ips.is_empty() {
            found.add_with_hint(
                places.element("allowed_ips", 0),
                format!(
                    "allowed_ips of a peer that stands in for {owner:?}, whose allowed_ips it \
                     takes over"
                ),
                "remove them",
            );
        }
    }
}

fn check_routing(routing: &PlacedRouting, sections: &Sections, found: &mut Diagnostics) {
    let Placed { value, places } = &routing.routing;
    if value.leave_host_alone {
        let also = [
            ("default_route", value.default_route),
            ("when_concentrator_gone", places.key("when_concentrator_gone").is_some()),
            ("clamp_mss", value.clamp_mss),
            ("masquerade", value.masquerade),
            ("forward_ports", !value.forward_ports.is_empty()),
            ("public_prefixes", !value.public_prefixes.is_empty()),
            ("untranslated", !value.untranslated.is_empty()),
            ("dns", value.dns.as_ref().is_some_and(|dns| !dns.is_empty())),
            ("dns_domains", !value.dns_domains.is_empty()),
        ];
        for (key, asked) in also {
            if let (Some(offset), true) = (places.key(key), asked) {
                found.add_with_hint(
                    offset,
                    format!("routing.{key} contradicts leave_host_alone = true"),
                    "remove one of them",
                );
            }
        }
        return;
    }
    let everything = |peer: &Placed<Peer>| {
        let all = [Prefix::ALL_V4, Prefix::ALL_V6];
        peer.value.allowed_ips.iter().any(|prefix| all.contains(prefix))
    };
    let has_servers = value.dns.as_ref().is_some_and(|dns| !dns.is_empty());
    if let (Some(offset), false) = (places.key("dns_domains"), has_servers) {
        found.add_with_hint(
            offset,
            "routing.dns_domains without name servers to resolve them",
            "write dns = [\"10.77.0.1\"], a server reached through the tunnel",
        );
    }
    if let (Some(offset), false) = (places.key("untranslated"), value.masquerade) {
        found.add_with_hint(
            offset,
            "routing.untranslated with masquerade = false: nothing is translated anyway",
            "remove one of them",
        );
    }
    if let (Some(offset), true) = (places.key("default_route"), value.default_route) {
        let l2 = sections.interface.as_ref().is_some_and(|i| i.value.layer == Layer::L2);
        if l2 {
            found.add_with_hint(
                offset,
                "routing.default_route with layer = \"l2\": Ethernet has no default route",
                "remove it, or write layer = \"l3\"",
            );
        } else if !sections.peers.iter().any(everything) {
            found.add_with_hint(
                offset,
                "routing.default_route, but no peer's allowed_ips has all addresses",
                "write allowed_ips = [\"0.0.0.0/0\", \"::/0\"] for the concentrator",
            );
        }
    }
    if let (Some(offset), false) = (places.key("when_concentrator_gone"), value.default_route) {
        found.add_with_hint(
            offset,
            "routing.when_concentrator_gone applies only with default_route = true",
            "add default_route = true, or remove it",
        );
    }
}

fn check_forwarding(routing: &PlacedRouting, sections: &Sections, found: &mut Diagnostics) {
    let value = &routing.routing.value;
    for (index, forward) in value.forward_ports.iter().enumerate() {
        let owns = |peer: &Placed<Peer>| {
            peer.value.allowed_ips.iter().any(|prefix| prefix.contains(forward.to.ip()))
        };
        if !sections.peers.iter().any(owns) {
            found.add_with_hint(
                placed(&routing.forward_ports, index, "to"),
                format!(
                    "{} is in no peer's allowed_ips: nothing can answer there",
                    forward.to.ip()
                ),
                "add the address to a peer's allowed_ips, or correct it",
            );
        }
    }
    report_repeated(
        value.forward_ports.iter().map(|forward| (forward.protocol, forward.public)),
        |index| placed(&routing.forward_ports, index, "public"),
        |(protocol, port)| format!("{protocol} port {port} is forwarded twice"),
        found,
    );
    let names: Vec<&str> = sections.peers.iter().map(|peer| peer.value.name.as_str()).collect();
    for (index, public) in value.public_prefixes.iter().enumerate() {
        let name = public.peer.as_str();
        if !names.contains(&name) {
            let hint = match closest(name, names.iter().copied()) {
                Some(close) => format!("did you mean {close:?}?"),
                None => format!("the peers are: {}", names.join(", ")),
            };
            let offset = placed(&routing.public_prefixes, index, "peer");
            found.add_with_hint(offset, format!("no peer is named {name:?}"), hint);
        }
    }
    report_repeated(
        value.public_prefixes.iter().map(|public| public.prefix),
        |index| placed(&routing.public_prefixes, index, "prefix"),
        |prefix| format!("{prefix} is routed twice"),
        found,
    );
}

fn placed(places: &[Places], index: usize, key: &str) -> usize {
    places.get(index).map_or(0, |places| places.element(key, 0))
}

fn report_repeated<T: Eq + Hash>(
    items: impl Iterator<Item = T>,
    offset_of: impl Fn(usize) -> usize,
    what: impl Fn(&T) -> String,
    found: &mut Diagnostics,
) {
    let mut first_seen: HashMap<T, usize> = HashMap::new();
    for (index, item) in items.enumerate() {
        let offset = offset_of(index);
        match first_seen.get(&item) {
            Some(first) => {
                let line = found.line_at(*first);
                let hint = format!("line {line} has it first; change or remove one");
                found.add_with_hint(offset, what(&item), hint);
            }
            None => {
                first_seen.insert(item, offset);
            }
        }
    }
}
