//! `braid link plan`: which engine fits these links.

mod look;

use super::super::failure::{Failure, FailureKind};
use super::super::status_table::{columns, measured_share};
use super::super::{Global, JsonFlag};
use braid_engines::Feature;
use braid_engines::plan::{Adjacency, Facts, LinkFacts, Peer, Row, UNKNOWN_RATE, Wish, rank};
use braid_linux::probe;
use braid_units::{Rate, Ratio, parse_duration};
use clap::Args;
use look::{Found, look};
use serde_json::{Value, json};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid link plan --wish one --peer linux\n  braid link plan --link dsl=50Mbit,25ms --link lte=20Mbit,60ms,0.5% --peer braid\n  braid link plan --link a=1Gbit,0.2ms,ethernet --link b=1Gbit,0.2ms,ethernet --peer linux"
)]
pub struct Plan {
    #[command(flatten)]
    _json: JsonFlag,
    /// What matters most: one (fast connection), many, never-break, udp
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
        let Found { links, left_out, mut notes, peer } = match self.link.is_empty() {
            true => look(global)?,
            false => Found {
                links: self.link.clone(),
                left_out: Vec::new(),
                notes: Vec::new(),
                peer: Peer::Nobody,
            },
        };
        if links.is_empty() {
            let none = "there are no links; give some with --link dsl=50Mbit,25ms, or add [[link]] \
                        sections to the config";
            let broken = left_out.iter().map(|(name, why)| format!("{name}: {why}"));
            return Err(match left_out.is_empty() {
                true => Failure::new(FailureKind::Usage, none),
                false => Failure::failed(format!(
                    "no link can be used now: {}",
                    broken.collect::<Vec<_>>().join("; ")
                )),
            });
        }
        let unknown = links.iter().filter(|link| link.down.is_none() && link.up.is_none());
        notes.extend(unknown.map(|link| {
            format!("the rate of {} is unknown and counts as {UNKNOWN_RATE}", link.name)
        }));
        let (lacks, unprobed) = match probe::lacking() {
            Ok(lacks) => (lacks, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let facts = Facts { links, peer: self.peer.unwrap_or(peer), lacks };
        let rows = rank(&facts, self.wish);
        let value = json!({
            "wish": self.wish.as_str(),
            "peer": facts.peer.as_str(),
            "links": facts.links.iter().map(link_json).collect::<Vec<_>>(),
            "lacks": facts.lacks.iter().map(|feature: &Feature| feature.as_str()).collect::<Vec<_>>(),
            "left_out": left_out.iter().map(|(link, why)| json!({ "link": link, "why": why })).collect::<Vec<_>>(),
            "notes": notes,
            "unprobed": unprobed,
            "engines": rows.iter().map(row_json).collect::<Vec<_>>(),
        });
        global.print(&value, || {
            let mut lines = vec![facts_table(&facts)];
            lines.extend(left_out.iter().map(|(name, why)| format!("{name} is left out: {why}")));
            lines.extend(notes.iter().map(|note| format!("note: {note}")));
            lines.push(String::new());
            lines.push(format!("wish: {}, other end: {}", self.wish, facts.peer));
            lines.extend(
                unprobed.map(|why| format!("the kernel's features could not be probed: {why}")),
            );
            lines.push(String::new());
            lines.extend(ranking(&rows));
            lines.join("\n")
        })
    }
}

fn parse_link(text: &str) -> Result<LinkFacts, String> {
    let form = "write it as dsl=50Mbit,25ms,0.1%,routed";
    let (name, facts) = text.split_once('=').ok_or_else(|| format!("no \"=\"; {form}"))?;
    if name.is_empty() {
        return Err(format!("a link without a name; {form}"));
    }
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
            if rate == Rate::ZERO {
                return Err(format!("a link with a rate of 0; {form}"));
            }
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
            link.loss.map_or_else(unknown, |loss| measured_share(loss.fraction())),
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
    lines.push("estimates, for comparison; measure with `braid lab`".to_owned());
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
