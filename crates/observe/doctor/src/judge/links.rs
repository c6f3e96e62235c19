use super::{More, finding};
use crate::code::Code;
use crate::facts::{Facts, LinkFacts};
use braid_control::finding::Finding;
use braid_control::status::{LinkStatus, PathState, PathStatus, Status};
use braid_history::{EventKind, Severity};
use std::net::IpAddr;

/// Events older than this are ignored, seconds.
const LATELY: i64 = 3600;
/// Errors of a card per second.
const CARD_ERRORS: f64 = 1.0;

/// Each link up to its router, and conflicts between links.
pub(crate) fn links(facts: &Facts, found: &mut Vec<Finding>) {
    for (index, link) in facts.host.links.iter().enumerate() {
        match no_way_out(link).or_else(|| wants_login(facts, link)) {
            Some(why) => found.push(why.gain_mbps(capacity(facts, &link.name))),
            None => found.extend(silent(facts, link)),
        }
        card(facts, index, link, found);
        flaps(facts, link, found);
    }
    beside(facts, found);
    if let Some(status) = &facts.status {
        for link in &status.links {
            quota(facts, link, found);
        }
        one_line(status, found);
    }
}

/// What a link lacks to send anything at all.
fn no_way_out(link: &LinkFacts) -> Option<Finding> {
    let name = &link.name;
    let device = link.device.as_deref().unwrap_or("its device");
    let critical = |code, what: String| finding(code, Severity::Warning, name, what);
    if !link.exists {
        let what = format!("link {name} is missing: the host has no {device}");
        let mend = "check `ip link`; then plug it in, or correct interface or match in the config";
        return Some(critical(Code::LinkAbsent, what).mend(mend));
    }
    if !link.up {
        let what = format!("link {name} is switched off");
        return Some(critical(Code::LinkOff, what).mend(format!("ip link set {device} up")));
    }
    if !link.carrier {
        let what = format!("link {name} has no carrier: no cable, or no signal");
        return Some(critical(Code::NoCarrier, what).mend("check the cable, the modem, the SIM"));
    }
    if !link.addresses.iter().any(|(address, _)| is_routable(*address)) {
        let what = format!("link {name} has no address: its network assigned none");
        let mend = format!("networkctl renew {device}, or dhcpcd {device}; then restart the modem");
        return Some(critical(Code::NoAddress, what).mend(mend));
    }
    if link.gateways.is_empty() && !link.is_point_to_point {
        let what = format!("link {name} has no known router: nothing can leave through it");
        let mend = format!(
            "ip route add default via ROUTER dev {device} metric 1000, or gateway = \"ROUTER\" in its [[link]]"
        );
        return Some(critical(Code::NoGateway, what).mend(mend));
    }
    None
}

fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    }
}

/// Only its network's login page is reachable.
fn wants_login(facts: &Facts, link: &LinkFacts) -> Option<Finding> {
    let links = &facts.status.as_ref()?.links;
    let portal = links.iter().find(|one| one.name == link.name)?.portal.as_ref()?;
    let what =
        format!("link {} requires a login: its network lets only its own page through", link.name);
    let told = finding(Code::WantsLogin, Severity::Warning, &link.name, what);
    Some(told.seen(format!("{portal} was served instead of another page")).mend(format!(
        "braid link login {}: it gives access to that page over this link alone",
        link.name
    )))
}

/// It looks fine from here, but nothing comes back while other links reach the same peer. Reported
/// once, however many peers there are.
fn silent(facts: &Facts, link: &LinkFacts) -> Option<Finding> {
    let mut told: Option<Finding> = None;
    for peer in facts.status.iter().flat_map(|status| &status.peers).filter(|it| it.connected) {
        let (of_link, others): (Vec<&PathStatus>, Vec<&PathStatus>) =
            peer.paths.iter().partition(|path| path.link == link.name);
        let is_dead = |path: &PathStatus| {
            matches!(path.state, PathState::Down | PathState::Probing) && path.tx_packets > 0
        };
        let works = others.iter().any(|path| path.state == PathState::Active);
        if of_link.is_empty() || !of_link.iter().all(|path| is_dead(path)) || !works {
            continue;
        }
        let sent: u64 = of_link.iter().map(|path| path.tx_packets).sum();
        let heard: u64 = of_link.iter().map(|path| path.rx_packets).sum();
        let remote = of_link.iter().find_map(|path| path.remote);
        let port = remote.map_or(51900, |remote| remote.port());
        let what = format!(
            "link {} has an address and a router, but nothing comes back over it: its network is \
             down, or lets no UDP to port {port} through",
            link.name
        );
        let device = link.device.as_deref().unwrap_or("DEVICE");
        let mend = match remote {
            Some(remote) => format!(
                "ping -I {device} {}; if that is answered, have the concentrator listen on UDP 443 too",
                remote.ip()
            ),
            None => format!("ping -I {device} 9.9.9.9"),
        };
        let so_far = told.take().unwrap_or_else(|| {
            finding(Code::UdpBlocked, Severity::Warning, &link.name, what)
                .gain_mbps(of_link.iter().find_map(|path| path.capacity_tx_mbps))
                .mend(mend)
        });
        let seen = format!("{sent} datagrams sent to {}, {heard} received", peer.name);
        told = Some(so_far.seen(seen));
    }
    told
}

fn card(facts: &Facts, index: usize, link: &LinkFacts, found: &mut Vec<Finding>) {
    let device = link.device.as_deref().unwrap_or("DEVICE");
    if link.full_duplex == Some(false) {
        let what = format!(
            "{device} of link {} runs at half duplex: sent and received frames collide",
            link.name
        );
        let mend = format!("ethtool -s {device} autoneg on; else another cable or port");
        let told = finding(Code::HalfDuplex, Severity::Warning, &link.name, what);
        found.push(told.mend(mend));
    }
    let capacity = capacity(facts, &link.name);
    // A card's rate minus the headers of Ethernet and our own.
    let is_full = |speed: u32| capacity.is_some_and(|mbps| mbps > f64::from(speed) * 0.88);
    if let Some(speed) = link.speed_mbps.filter(|speed| *speed <= 100 && is_full(*speed)) {
        let what = format!(
            "{device} of link {} runs at {speed} Mbit/s, which the tunnel fills: the line may \
             carry more",
            link.name
        );
        let told = finding(Code::SlowCard, Severity::Warning, &link.name, what)
            .seen(format!("{:.0} Mbit/s were measured", capacity.unwrap_or(0.0)))
            .mend(format!("ethtool {device}: check whether cable and port support 1000 Mbit/s"));
        found.push(told);
    }
    let counters = (&facts.host.counters, &facts.host.earlier_counters);
    let errors = (counters.0.card_errors.get(index), counters.1.card_errors.get(index));
    if let (Some(now), Some(earlier)) = errors {
        let seconds = facts.between.as_secs_f64().max(0.1);
        let rate = now.saturating_sub(*earlier) as f64 / seconds;
        if rate > CARD_ERRORS {
            let what =
                format!("{device} of link {} reports errors: a bad cable or port", link.name);
            let told = finding(Code::CardErrors, Severity::Warning, &link.name, what)
                .seen(format!("{rate:.0} in a second"))
                .mend(format!("ip -s link show {device}; change the cable"));
            found.push(told);
        }
    }
    // A TUN device may be a modem's; devices of these kinds never are.
    const TUNNELS: [&str; 6] = ["wireguard", "ipip", "gre", "sit", "vti", "xfrm"];
    if let Some(kind) = link.kind.as_deref().filter(|kind| TUNNELS.contains(kind)) {
        let what = format!(
            "link {} leaves by {device}, which is itself a tunnel ({kind}): each packet is \
             encapsulated twice",
            link.name
        );
        let told = finding(Code::LinkInTunnel, Severity::Note, &link.name, what)
            .mend("set interface of the [[link]] to the device below it");
        found.push(told);
    }
}

fn flaps(facts: &Facts, link: &LinkFacts, found: &mut Vec<Finding>) {
    let lately = facts.events.iter().rev().find(|event| {
        event.kind == EventKind::LinkFlapping
            && event.subject == link.name
            && event.unix > facts.now - LATELY
    });
    let Some(event) = lately else { return };
    let what = format!("link {} is flapping", link.name);
    let told = finding(Code::LinkFlaps, Severity::Warning, &link.name, what)
        .seen(format!("{} s ago: {}", facts.now - event.unix, event.text))
        .mend(format!("braid link set {} --standby true, until it is fixed", link.name));
    found.push(told);
}

/// Links that are the same, or interfere with each other.
fn beside(facts: &Facts, found: &mut Vec<Finding>) {
    let links = &facts.host.links;
    for (index, link) in links.iter().enumerate() {
        for other in links.iter().skip(index + 1) {
            let subject = format!("{}, {}", link.name, other.name);
            let same_device = link.device.is_some() && link.device == other.device;
            let gateway = link.gateways.iter().find(|it| other.gateways.contains(it));
            let network = shared_network(link, other);
            if let Some(gateway) = gateway.filter(|_| same_device || network.is_some()) {
                let what = format!(
                    "links {} and {} leave by the same router, {gateway}: two links in the config \
                     are one line",
                    link.name, other.name
                );
                let mend =
                    format!("braid link remove {}, or give it a router of its own", other.name);
                found
                    .push(finding(Code::SameGateway, Severity::Warning, &subject, what).mend(mend));
            } else if let Some(network) = network.filter(|_| !same_device) {
                let what = format!(
                    "{} and {} are both in {network}: the kernel may answer and send through \
                     either",
                    link.name, other.name
                );
                let mend = "give one of the routers another network, such as 192.168.2.0/24";
                found
                    .push(finding(Code::SameNetwork, Severity::Warning, &subject, what).mend(mend));
            }
        }
    }
}

fn shared_network(a: &LinkFacts, b: &LinkFacts) -> Option<String> {
    let network = |(address, length): &(IpAddr, u8)| match address {
        IpAddr::V4(v4) if (1..31).contains(length) => {
            let mask = u32::MAX << (32 - length);
            Some(format!("{}/{length}", std::net::Ipv4Addr::from(u32::from(*v4) & mask)))
        }
        _ => None,
    };
    let of_a: Vec<String> = a.addresses.iter().filter_map(network).collect();
    b.addresses.iter().filter_map(network).find(|net| of_a.contains(net))
}

fn quota(facts: &Facts, link: &LinkStatus, found: &mut Vec<Finding>) {
    let Some(quota) = &link.quota else { return };
    let limit = quota.limit_bytes.max(1) as f64;
    let used = quota.used_bytes as f64 / limit;
    let seen = format!("{:.1} of {:.1} GB", quota.used_bytes as f64 / 1e9, limit / 1e9);
    if used >= 1.0 {
        let what =
            format!("link {} has used up its quota: it is unused until the next period", link.name);
        let told = finding(Code::QuotaUsed, Severity::Warning, &link.name, what)
            .seen(seen)
            .gain_mbps(capacity(facts, &link.name))
            .mend(format!("braid link set {} --quota none, or a larger one", link.name));
        found.push(told);
        return;
    }
    let (Some(start), Some(end)) = (quota.period_start_unix, quota.period_end_unix) else { return };
    let (gone, whole) = (facts.now as f64 - start as f64, end as f64 - start as f64);
    // The use on one day doesn't predict a month's.
    if gone < whole * 0.1 || whole <= 0.0 {
        return;
    }
    let at_end = used / (gone / whole);
    if at_end > 1.0 && used > 0.5 {
        let left_days = (1.0 / at_end * whole - gone) / 86_400.0;
        let what = format!("link {} will use up its quota before the next period", link.name);
        let told = finding(Code::QuotaSoon, Severity::Note, &link.name, what)
            .seen(format!("{seen}; at this pace the rest lasts for {left_days:.1} days"))
            .mend(format!(
                "braid link set {} --tier 2 (mode overflow), or --standby true",
                link.name
            ));
        found.push(told);
    }
}

/// At a concentrator: a home's links that share one address.
fn one_line(status: &Status, found: &mut Vec<Finding>) {
    if status.listen.is_empty() {
        return;
    }
    for peer in &status.peers {
        let active: Vec<&PathStatus> =
            peer.paths.iter().filter(|path| path.state == PathState::Active).collect();
        for (index, path) in active.iter().enumerate() {
            let same = active.iter().skip(index + 1).find(|other| {
                let ip = |path: &PathStatus| path.remote.map(|remote| remote.ip());
                other.link != path.link && ip(other) == ip(path) && ip(path).is_some()
            });
            let Some(other) = same else { continue };
            let what = format!(
                "links {} and {} of {} come from one public address: they may be one line",
                path.link, other.link, peer.name
            );
            let told = finding(Code::SameLine, Severity::Note, &peer.name, what)
                .seen(path.remote.map_or_else(String::new, |remote| remote.ip().to_string()))
                .mend("at home: `braid doctor` finds links with the same router");
            found.push(told);
        }
    }
}

/// The link's measured capacity, if known.
pub(super) fn capacity(facts: &Facts, link: &str) -> Option<f64> {
    let status = facts.status.as_ref()?;
    let paths = status.peers.iter().flat_map(|peer| &peer.paths);
    paths.filter(|path| path.link == link).find_map(|path| path.capacity_tx_mbps)
}
