use super::super::Global;
use super::super::failure::{Failure, FailureKind};
use super::Limit;
use super::add_home::{known_homes, tell_if_others_have_not_heard, tell_tunnel};
use braid_control::config::{Cap, Config, ConfigEditor};
use serde_json::json;

impl Limit {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        let before = limit_of(&config, &self.home)?;
        let limit = match self.none {
            true => Cap::default(),
            false => Cap { down: self.down.or(before.down), up: self.up.or(before.up) },
        };
        if !self.none && self.down.is_none() && self.up.is_none() {
            return Err(Failure::new(
                FailureKind::Usage,
                "give --down RATE, --up RATE, or --none to remove the limits",
            ));
        }
        let mut editor = ConfigEditor::open_alone(&config.file)?;
        editor.set_peer_limit(&self.home, limit)?;
        editor.save()?;
        tell_tunnel(global)?;
        tell_if_others_have_not_heard(&config);
        let rate = |rate: Option<braid_units::Rate>| rate.map(|rate| rate.to_string());
        let value = json!({ "home": self.home, "down": rate(limit.down), "up": rate(limit.up) });
        global.print(&value, || match (limit.down, limit.up) {
            (None, None) => format!("{} has no limit", self.home),
            (Some(down), None) => format!("{} receives at most {down}", self.home),
            (None, Some(up)) => format!("{} sends at most {up}", self.home),
            (Some(down), Some(up)) => {
                format!("{} receives at most {down} and sends at most {up}", self.home)
            }
        })
    }
}

fn limit_of(config: &Config, name: &str) -> Result<Cap, Failure> {
    let Some(peer) = config.peer(name) else {
        let known: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
        return Err(Failure::failed(format!(
            "no home is named {name:?}; the homes are: {}",
            known.join(", ")
        )));
    };
    if peer.of_fleet {
        return Err(Failure::failed(format!(
            "home {name:?} is in another concentrator's config, see `braid concentrator status`: \
             limit it there"
        )));
    }
    Ok(peer.limit)
}
