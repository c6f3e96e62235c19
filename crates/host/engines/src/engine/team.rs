//! The team driver, led by teamd (teamd.conf(5)).

use crate::group::{Group, Trouble};
use crate::operation::Operation;
use crate::port::Port;
use crate::words::words;
use crate::{Feature, Over, XmitHash};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;

/// Settings of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    /// How frames are spread.
    pub runner: Runner,
    /// What is hashed, by the runners that hash.
    pub hash: XmitHash,
    /// How a dead link is noticed.
    pub watch: LinkWatch,
}

words! {
    /// How a team spreads frames.
    Runner {
        /// In turn.
        RoundRobin = "roundrobin",
        /// Through one port; another when it fails.
        ActiveBackup = "activebackup",
        /// By hash, and by load.
        LoadBalance = "loadbalance",
        /// By hash, negotiated with the other end by LACP.
        Lacp = "lacp",
        /// Each through all ports.
        Broadcast = "broadcast",
        /// Randomly.
        Random = "random",
    }
}

/// How a dead link is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkWatch {
    /// By its carrier.
    Ethtool,
    /// By ARP requests to a host behind it.
    ArpPing {
        /// Milliseconds between requests.
        interval_ms: u32,
        /// The host to ask.
        target: Ipv4Addr,
    },
}

impl Default for Team {
    fn default() -> Team {
        Team { runner: Runner::ActiveBackup, hash: XmitHash::Layer34, watch: LinkWatch::Ethtool }
    }
}

impl Runner {
    /// Whether it hashes.
    pub const fn hashes(self) -> bool {
        matches!(self, Runner::LoadBalance | Runner::Lacp)
    }
}

pub(crate) fn check(team: &Team, group: &Group, found: &mut Vec<Trouble>) {
    if matches!(group.over, Over::Vxlan { .. }) {
        found.push(Trouble::new(
            "over",
            "teamd gives its ports an MTU of 1500 first, which VXLAN refuses",
            "write over = \"gretap\", or engine = \"bonding\"",
        ));
    }
    if team.runner.hashes() && matches!(team.hash, XmitHash::VlanSrcmac) {
        found.push(Trouble::new(
            "hash",
            "teamd can't hash vlan+srcmac",
            "write layer2, layer2+3 or layer3+4",
        ));
    }
}

pub(crate) fn needs() -> Vec<Feature> {
    vec![Feature::Team, Feature::Teamd]
}

pub(crate) fn operations(team: &Team, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let file = group.state_file("teamd.conf");
    let contents = configuration(team, group, ports);
    // teamd wants its ports down, and sets them up itself.
    let mut operations: Vec<Operation> =
        ports.iter().map(|port| Operation::Down { device: port.device.clone() }).collect();
    operations.push(Operation::File { path: file.clone(), contents, mode: 0o644 });
    operations.push(Operation::Process {
        name: "teamd".into(),
        argv: vec!["teamd".into(), "-f".into(), file.display().to_string()],
        pid_file: group.state_file("teamd.pid"),
        provides: Some(group.name.clone()),
    });
    operations
}

/// Tenths of a second.
const BALANCING_INTERVAL: u32 = 10;

/// teamd's configuration file.
pub(crate) fn configuration(team: &Team, group: &Group, ports: &[Port]) -> String {
    let mut runner = Map::from_iter([("name".to_owned(), json!(team.runner.as_str()))]);
    if team.runner.hashes() {
        runner.insert("tx_hash".into(), hashed(team.hash));
        // The lowest bit of the hash alone would pick between two ports, and
        // that of Linux' ports of outgoing connections is always the same: so
        // buckets are dealt out by their load, each second.
        runner.insert(
            "tx_balancer".into(),
            json!({ "name": "basic", "balancing_interval": BALANCING_INTERVAL }),
        );
    }
    if team.runner == Runner::Lacp {
        runner.insert("active".into(), json!(true));
        runner.insert("fast_rate".into(), json!(true));
    }
    let watch = match &team.watch {
        LinkWatch::Ethtool => json!({ "name": "ethtool" }),
        LinkWatch::ArpPing { interval_ms, target } => json!({
            "name": "arp_ping",
            "interval": interval_ms,
            "missed_max": 3,
            "source_host": group.first_v4().map(|address| address.to_string()),
            "target_host": target.to_string(),
        }),
    };
    // Over plain cables both ends have to agree on the active port: the first.
    let first = ports.iter().find(|port| !port.standby).or(ports.first());
    let settings = |port: &Port| {
        let is_first = first.is_some_and(|first| first.number == port.number);
        match (team.runner, port.standby) {
            // Higher is preferred; 0 is the others'.
            (Runner::ActiveBackup, _) if is_first => json!({ "prio": 10 }),
            (Runner::ActiveBackup, true) => json!({ "prio": -10 }),
            _ => json!({}),
        }
    };
    let ports: Map<String, Value> =
        ports.iter().map(|port| (port.device.to_string(), settings(port))).collect();
    let document = json!({
        "device": group.name.as_str(),
        "runner": runner,
        "link_watch": watch,
        "ports": ports,
    });
    format!("{document:#}\n")
}

/// Fragments of `tx_hash`, teamd.conf(5).
fn hashed(hash: XmitHash) -> Value {
    match hash {
        XmitHash::Layer2 | XmitHash::VlanSrcmac => json!(["eth"]),
        XmitHash::Layer23 | XmitHash::Encap23 => json!(["eth", "ip"]),
        XmitHash::Layer34 | XmitHash::Encap34 => json!(["ip", "l4"]),
    }
}
