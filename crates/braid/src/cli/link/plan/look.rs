//! Finds the facts about links, from the config, the system, the running tunnel, and pings.

use crate::cli::failure::Failure;
use crate::cli::{Global, uplinks};
use crate::daemon::links_now::{self, LinkNow};
use braid_control::client::Client;
use braid_control::config::{AnyConfig, Config, GroupConfig};
use braid_control::status::PathStatus;
use braid_engines::Over;
use braid_engines::plan::{Adjacency, LinkFacts, Peer};
use braid_linux::icmp;
use braid_units::{Rate, Ratio};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The facts found.
pub struct Found {
    /// Links that can be used now.
    pub links: Vec<LinkFacts>,
    /// The others, and why they can't be used.
    pub left_out: Vec<(String, String)>,
    /// Further remarks about the links.
    pub notes: Vec<String>,
    /// The other end, as far as it is known from the config.
    pub peer: Peer,
}

/// Number of pings per link: enough to notice 2 % loss.
const PINGS: u16 = 50;
const APART: Duration = Duration::from_millis(20);
/// A ping that isn't answered within this time is lost.
const PATIENCE: Duration = Duration::from_millis(700);
/// If none of this many first pings is answered, no more are sent.
const IN_VAIN: u16 = 3;

/// The config's links; without a config the host's uplinks.
pub fn look(global: &Global) -> Result<Found, Failure> {
    let failed = |error| Failure::io("looking at the host's network", &error);
    if global.has_no_config() {
        let uplinks = uplinks::find("").map_err(failed)?;
        let names = uplinks.iter().map(|uplink| uplink.interface.as_str());
        let links = links_now::of_devices(names).map_err(failed)?;
        let mut found = measure(links, |_, link| pinged(link, reached(link)), Peer::Nobody);
        let what = "there is no config: these are the devices with a default route";
        found.notes.insert(0, what.into());
        return Ok(found);
    }
    match global.load_any_config()? {
        AnyConfig::Group(config) => {
            let links = links_now::of_group(&config).map_err(failed)?;
            let peer = match leads_anywhere(&config) {
                true => Peer::Nobody,
                false => Peer::Linux,
            };
            let ports = config.group.over == Over::Direct && !config.group.engine.kind().routes();
            let facts = |_, link: &LinkNow| match ports && is_ethernet(link) {
                true => pinged(link, Adjacency::Ethernet),
                false => pinged(link, reached(link)),
            };
            Ok(measure(links, facts, peer))
        }
        AnyConfig::Tunnel(config) => {
            let links = links_now::of_tunnel(&config).map_err(failed)?;
            let paths = paths(&config);
            let facts = |at, link: &LinkNow| tunnelled(&config, &paths, at, link);
            Ok(measure(links, facts, Peer::Braid))
        }
    }
}

/// Measures the links that work, all at the same time, since pings take a while.
fn measure(
    links: Vec<LinkNow>,
    facts: impl Fn(usize, &LinkNow) -> LinkFacts + Sync,
    peer: Peer,
) -> Found {
    let (working, broken): (Vec<_>, Vec<_>) =
        links.into_iter().enumerate().partition(|(_, link)| link.trouble.is_none());
    let facts = &facts;
    let found: Vec<LinkFacts> = std::thread::scope(|scope| {
        let looking: Vec<_> =
            working.iter().map(|(at, link)| scope.spawn(move || facts(*at, link))).collect();
        looking.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut notes = Vec::new();
    for ((_, link), facts) in working.iter().zip(&found) {
        if let (Some((_, host)), None) = (asked(link), facts.rtt) {
            notes.push(format!(
                "{host} doesn't answer pings over {}: its round trip and loss are unknown",
                link.name
            ));
        }
    }
    notes.extend(near_each_other(working.iter().map(|(_, link)| link).collect()));
    let left_out =
        broken.into_iter().filter_map(|(_, link)| Some((link.name, link.trouble?))).collect();
    Found { links: found, left_out, notes, peer }
}

fn leads_anywhere(config: &GroupConfig) -> bool {
    config.group.engine.kind().routes() && config.group.over == Over::Direct
}

/// The running tunnel's paths; empty if none runs.
fn paths(config: &Config) -> Vec<PathStatus> {
    let status = Client::new(&config.interface.control).for_config(&config.file).status().ok();
    status.into_iter().flat_map(|status| status.peers).flat_map(|peer| peer.paths).collect()
}

/// Facts from the running tunnel, or else from pings.
fn tunnelled(config: &Config, paths: &[PathStatus], at: usize, link: &LinkNow) -> LinkFacts {
    let path = paths.iter().find(|path| path.link == link.name);
    let mut facts = match path.and_then(|path| Some((path, path.min_rtt_ms?))) {
        Some((path, rtt)) => LinkFacts {
            rtt: Some(Duration::from_secs_f64(rtt.max(0.0) / 1e3)),
            loss: Some(Ratio::from_fraction(path.loss)),
            ..known(link, reached(link))
        },
        None => pinged(link, reached(link)),
    };
    let rate = |mbps: f64| Rate::from_bits_per_sec((mbps * 1e6) as u64);
    let cap = config.links.get(at).map(|link| link.cap);
    facts.down = cap.and_then(|cap| cap.down).or(facts.down);
    let sent = path.and_then(|path| path.capacity_tx_mbps).map(rate);
    facts.up = cap.and_then(|cap| cap.up).or(sent).or(facts.up);
    facts
}

/// What the system knows about a link.
fn known(link: &LinkNow, adjacency: Adjacency) -> LinkFacts {
    let wire = link.device.as_ref().and_then(|device| wire_speed(&device.name));
    LinkFacts {
        name: link.name.clone(),
        down: wire,
        up: wire,
        rtt: None,
        loss: None,
        mtu: link.device.as_ref().map_or(1500, |device| device.mtu),
        adjacency,
    }
}

/// The same, with the minimum of its pings' times and the share that wasn't answered.
fn pinged(link: &LinkNow, adjacency: Adjacency) -> LinkFacts {
    let facts = known(link, adjacency);
    let (Some((source, host)), Some(device)) = (asked(link), &link.device) else { return facts };
    let mut times = Vec::new();
    for number in 0..PINGS {
        let began = Instant::now();
        match icmp::ping(&device.name, source, host, number, PATIENCE) {
            Ok(time) => times.extend(time),
            Err(_) => return facts,
        }
        if times.is_empty() && number + 1 >= IN_VAIN {
            return facts;
        }
        std::thread::sleep(APART.saturating_sub(began.elapsed()));
    }
    let answered = times.len() as f64 / f64::from(PINGS);
    LinkFacts {
        rtt: times.into_iter().min(),
        loss: Some(Ratio::from_fraction(1.0 - answered)),
        ..facts
    }
}

/// The address to ping, and the source address: the other end, or else the link's router.
fn asked(link: &LinkNow) -> Option<(IpAddr, IpAddr)> {
    link.egresses.iter().find_map(|egress| {
        let source = egress.source.addr();
        let remote = link.remote.filter(|remote| remote.is_ipv6() == source.is_ipv6());
        Some((source, remote.or(egress.gateway)?))
    })
}

/// Adjacent by Ethernet only if the other end is in the link's own network.
fn reached(link: &LinkNow) -> Adjacency {
    let near = |remote: IpAddr| link.egresses.iter().any(|egress| egress.source.contains(&remote));
    match is_ethernet(link) && link.remote.is_some_and(near) {
        true => Adjacency::Ethernet,
        false => Adjacency::Routed,
    }
}

fn is_ethernet(link: &LinkNow) -> bool {
    link.device.as_ref().is_some_and(|device| device.hardware.is_some() && !device.point_to_point)
}

/// Notes about two network cards in one network: Linux answers ARP for each of its addresses on any
/// of them.
fn near_each_other(links: Vec<&LinkNow>) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, first) in links.iter().enumerate() {
        for second in links.iter().skip(at + 1) {
            let shared = first.egresses.iter().find(|egress| {
                second.egresses.iter().any(|other| egress.source.trunc() == other.source.trunc())
            });
            if let Some(egress) = shared {
                notes.push(format!(
                    "{} and {} are in one network, {}: ARP may send all incoming traffic over one \
                     of them; a bond needs no addresses there",
                    first.name,
                    second.name,
                    egress.source.trunc()
                ));
            }
        }
    }
    notes
}

/// The speed that the network card reports, if any.
fn wire_speed(device: &str) -> Option<Rate> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|megabits| *megabits > 0).map(Rate::from_mbit)
}
