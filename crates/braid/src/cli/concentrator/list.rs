use super::super::Global;
use super::super::failure::Failure;
use super::List;
use super::add_home::known_homes;
use braid_control::config::{Config, Peer};
use braid_control::status::{PeerStatus, Status};
use jiff::Timestamp;
use serde::Serialize;

/// A home in the list.
#[derive(Serialize)]
pub struct Home {
    pub name: String,
    pub addresses: Vec<String>,
    #[serde(flatten)]
    pub state: State,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Its line can be used.
    Invited { until: String },
    /// Its line was not used in time.
    Expired { until: String },
    /// Is a peer; `connected` is known while the tunnel runs.
    Joined { public_key: String, connected: Option<bool>, trouble: Option<String> },
}

impl List {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        let running = global.client()?.status().ok();
        let homes = homes(&config, running.as_ref(), Timestamp::now());
        global.print(&homes, || table(&homes))
    }
}

/// All homes of a config, including joined ones; `running` is the tunnel's status.
pub fn homes(config: &Config, running: Option<&Status>, now: Timestamp) -> Vec<Home> {
    let homes = config.peers.iter().map(|peer| {
        let is_it = |status: &&PeerStatus| status.public_key == peer.public_key.to_string();
        let status = running.map(|status| status.peers.iter().find(is_it));
        home(peer, status, now)
    });
    homes.collect()
}

/// `status` is the running tunnel's, if one runs.
fn home(peer: &Peer, status: Option<Option<&PeerStatus>>, now: Timestamp) -> Home {
    let state = match peer.enrolment.filter(|_| !peer.is_known()) {
        Some(line) if line.until < now => State::Expired { until: line.until.to_string() },
        Some(line) => State::Invited { until: line.until.to_string() },
        None => State::Joined {
            public_key: peer.public_key.to_string(),
            connected: status.map(|status| status.is_some_and(|peer| peer.connected)),
            trouble: status.flatten().and_then(|peer| peer.trouble.clone()),
        },
    };
    let addresses = peer.allowed_ips.iter().map(ToString::to_string).collect();
    Home { name: peer.name.to_string(), addresses, state }
}

fn table(homes: &[Home]) -> String {
    if homes.is_empty() {
        return "no homes; `braid concentrator add-home NAME` adds one".to_owned();
    }
    let lines = homes.iter().map(|home| {
        let state = match &home.state {
            State::Invited { until } => format!("has yet to join, until {until}"),
            State::Expired { until } => {
                format!(
                    "has not joined; its join line expired {until}: `braid concentrator renew {}`",
                    home.name
                )
            }
            State::Joined { connected: Some(true), trouble: None, .. } => "connected".to_owned(),
            State::Joined { connected: Some(false), trouble: None, .. } => {
                "not connected".to_owned()
            }
            State::Joined { connected: None, trouble: None, .. } => "has joined".to_owned(),
            State::Joined { trouble: Some(trouble), .. } => trouble.clone(),
        };
        format!("{}  {}  {state}", home.name, home.addresses.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}
