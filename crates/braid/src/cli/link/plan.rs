//! `braid link plan`: which engine fits these links.

use super::super::failure::{Failure, FailureKind};
use super::super::status_table::columns;
use super::super::{Global, JsonFlag};
use braid_control::client::Client;
use braid_control::config::{AnyConfig, Config, GroupConfig};
use braid_engines::plan::{Adjacency, Facts, LinkFacts, Peer, Row, Wish, rank};
use braid_engines::{Feature, GroupLink, Over};
use braid_linux::{icmp, probe};
use braid_units::{Rate, Ratio, parse_duration};
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid link plan --wish one --peer linux\n  braid link plan --link dsl=50Mbit,25ms --link lte=20Mbit,60ms,0.5% --peer braid\n  braid link plan --link a=1Gbit,0.2ms,ethernet --link b=1Gbit,0.2ms,ethernet --peer linux"
)]
pub struct Plan {
    #[command(flatten)]
    _json: JsonFlag,
    /// What shall be good above all: one (fast connection), many, never-break, udp
    #[arg(long, default_value = "one")]
    wish: Wish,
    /// What the other end is: nobody, linux, braid, routeros, switch
    #[arg(long)]
    peer: Option<Peer>,
    /// A link as NAME=RATE[,RTT][,LOSS][,ethernet|routed], instead of the config's; may be repeated
    #[arg(long, value_name = "NAME=FACTS", value_parser = parse_link)]
    link: Vec<LinkFacts>,
}

impl Plan {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (links, usual_peer) = match self.link.is_empty() {
            true => look(global)?,
            false => (self.link.clone(), Peer::Nobody),
        };
        if links.is_empty() {
            let message = "there are no links; name some with --link dsl=50Mbit,25ms, or write [[link]] into the config";
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let (lacks, unprobed) = match probe::lacking() {
            Ok(lacks) => (lacks, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let facts = Facts { links, peer: self.peer.unwrap_or(usual_peer), lacks };
        let rows = rank(&facts, self.wish);
        let value = json!({
            "wish": self.wish.as_str(),
            "peer": facts.peer.as_str(),
            "links": facts.links.iter().map(link_json).collect::<Vec<_>>(),
            "lacks": facts.lacks.iter().map(|feature: &Feature| feature.as_str()).collect::<Vec<_>>(),
            "unprobed": unprobed,
            "engines": rows.iter().map(row_json).collect::<Vec<_>>(),
        });
        global.print(&value, || {
            let mut lines = vec![facts_table(&facts), String::new()];
            lines.push(format!("wish: {}, other end: {}", self.wish, facts.peer));
            lines.extend(
                unprobed.map(|why| format!("what this kernel has could not be tried: {why}")),
            );
            lines.push(String::new());
            lines.extend(ranking(&rows));
            lines.join("\n")
        })
    }
}

/// The config's links, as config, system and running tunnel know them.
fn look(global: &Global) -> Result<(Vec<LinkFacts>, Peer), Failure> {
    match global.load_any_config()? {
        AnyConfig::Group(config) => {
            let links = group_links(&config)?;
            let routed = config.group.engine.kind().routes() && config.group.over == Over::Direct;
            Ok((links, if routed { Peer::Nobody } else { Peer::Linux }))
        }
        AnyConfig::Tunnel(config) => Ok((tunnel_links(&config), Peer::Braid)),
    }
}

fn tunnel_links(config: &Config) -> Vec<LinkFacts> {
    let status = Client::new(&config.interface.control).status().ok();
    let paths = || status.iter().flat_map(|status| &status.peers).flat_map(|peer| &peer.paths);
    let rate = |mbps: Option<f64>| mbps.map(|mbps| Rate::from_bits_per_sec((mbps * 1e6) as u64));
    let facts = config.links.iter().map(|link| {
        let path = paths().find(|path| path.link == link.name.as_str());
        let device = link.binding.interface.as_ref().map(ToString::to_string);
        let wire = device.as_deref().and_then(wire_speed);
        LinkFacts {
            name: link.name.to_string(),
            down: link.cap.down.or(wire),
            up: link.cap.up.or(path.and_then(|path| rate(path.rate_tx_mbps))).or(wire),
            rtt: path.and_then(|path| path.min_rtt_ms).map(|ms| Duration::from_secs_f64(ms / 1e3)),
            loss: path.map(|path| Ratio::from_fraction(path.loss)),
            mtu: 1500,
            adjacency: Adjacency::Routed,
        }
    });
    facts.collect()
}

fn group_links(config: &GroupConfig) -> Result<Vec<LinkFacts>, Failure> {
    let group = crate::daemon::observed_group(config)
        .map_err(|error| Failure::io("looking at the host's network", &error))?;
    let facts = group.links.iter().map(|link| {
        let wire = wire_speed(link.device.as_str());
        let adjacency = match (&group.over, group.engine.kind().routes()) {
            (Over::Direct, false) => Adjacency::Ethernet,
            _ if is_near(link) => Adjacency::Ethernet,
            _ => Adjacency::Routed,
        };
        LinkFacts {
            name: link.name.clone(),
            down: wire,
            up: wire,
            rtt: round_trip(link),
            loss: None,
            mtu: link.mtu,
            adjacency,
        }
    });
    Ok(facts.collect())
}

/// Whether the other end is in the link's own network.
fn is_near(link: &GroupLink) -> bool {
    let remote = link.remote;
    link.ways.iter().any(|way| remote.is_some_and(|remote| way.source.contains(&remote)))
}

/// The least of three pings to the other end, or else to the link's router.
fn round_trip(link: &GroupLink) -> Option<Duration> {
    let way = link.ways.first()?;
    let host = link.remote.or(way.gateway)?;
    let source = way.source.addr();
    let patience = Duration::from_millis(700);
    let pings = (0..3).filter_map(|number| {
        icmp::ping(link.device.as_str(), source, host, number, patience).ok().flatten()
    });
    pings.min()
}

/// What the network card says, where it says something.
fn wire_speed(device: &str) -> Option<Rate> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|megabits| *megabits > 0).map(Rate::from_mbit)
}

fn parse_link(text: &str) -> Result<LinkFacts, String> {
    let form = "write it as dsl=50Mbit,25ms,0.1%,routed";
    let (name, facts) = text.split_once('=').ok_or_else(|| format!("no \"=\"; {form}"))?;
    let mut link = LinkFacts {
        name: name.to_owned(),
        down: None,
        up: None,
        rtt: None,
        loss: None,
        mtu: 1500,
        adjacency: Adjacency::Routed,
    };
    for fact in facts.split(',').map(str::trim) {
        if let Ok(adjacency) = fact.parse() {
            link.adjacency = adjacency;
        } else if let Ok(loss) = fact.parse::<Ratio>() {
            link.loss = Some(loss);
        } else if let Ok(rate) = fact.parse::<Rate>() {
            (link.down, link.up) = (Some(rate), Some(rate));
        } else if let Ok(rtt) = parse_duration(fact) {
            link.rtt = Some(rtt);
        } else {
            return Err(format!(
                "{fact:?} is neither a rate, a time, a share nor ethernet or routed; {form}"
            ));
        }
    }
    Ok(link)
}

fn facts_table(facts: &Facts) -> String {
    let unknown = || "unknown".to_owned();
    let mut rows = vec![["LINK", "DOWN", "RTT", "LOSS", "REACHED BY"].map(str::to_owned).to_vec()];
    rows.extend(facts.links.iter().map(|link| {
        vec![
            link.name.clone(),
            link.down.map_or_else(unknown, |rate| rate.to_string()),
            link.rtt.map_or_else(unknown, |rtt| format!("{:.1}ms", rtt.as_secs_f64() * 1e3)),
            link.loss.map_or_else(unknown, |loss| loss.to_string()),
            link.adjacency.to_string(),
        ]
    }));
    columns(&rows).join("\n")
}

fn ranking(rows: &[Row]) -> Vec<String> {
    let head = ["", "ENGINE", "1 CONNECTION", "MANY", "UDP", "LINK GOES SILENT"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(rows.iter().zip(1..).map(|(row, place)| {
        let estimate = &row.estimate;
        let mbit = |rate: Rate| format!("{:.0}Mbit", rate.mbit());
        let place = if row.obstacle.is_some() { "-".to_owned() } else { place.to_string() };
        let mut cells = vec![place, row.candidate.to_string()];
        cells.extend([estimate.one, estimate.many, estimate.udp].map(mbit));
        cells.push(row.stall_words());
        cells
    }));
    let mut lines = Vec::new();
    for (line, row) in
        columns(&table).into_iter().zip(std::iter::once(None).chain(rows.iter().map(Some)))
    {
        lines.push(line);
        let Some(row) = row else { continue };
        match &row.obstacle {
            Some(obstacle) => lines.push(format!("     not here: {obstacle}")),
            None => lines.extend(row.estimate.reasons.iter().map(|why| format!("     {why}"))),
        }
    }
    lines.push(String::new());
    lines.push("estimates, to compare by; `braid lab` measures".to_owned());
    lines
}

fn link_json(link: &LinkFacts) -> Value {
    json!({
        "name": link.name,
        "down_bps": link.down.map(Rate::bits_per_sec),
        "up_bps": link.up.map(Rate::bits_per_sec),
        "rtt_ms": link.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        "loss": link.loss.map(Ratio::fraction),
        "mtu": link.mtu,
        "adjacency": link.adjacency.as_str(),
    })
}

fn row_json(row: &Row) -> Value {
    json!({
        "engine": row.candidate.to_string(),
        "possible": row.obstacle.is_none(),
        "obstacle": row.obstacle,
        "over": row.over,
        "one_connection_bps": row.estimate.one.bits_per_sec(),
        "many_connections_bps": row.estimate.many.bits_per_sec(),
        "udp_bps": row.estimate.udp.bits_per_sec(),
        "silent_link": row.stall_words(),
        "reasons": row.estimate.reasons,
    })
}
