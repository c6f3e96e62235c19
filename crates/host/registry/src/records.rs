use crate::store::{Entry, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Its Curve25519 public key, base64; none before it has joined.
    pub public_key: Option<String>,
    /// The key of the join line that lets it in, or did.
    #[serde(default)]
    pub enrolment_key: Option<String>,
    /// When the join line expires, RFC 3339.
    #[serde(default)]
    pub enrol_until: Option<String>,
    /// The secret that it shares with the concentrators, base64.
    #[serde(default)]
    pub preshared_key: Option<String>,
    /// The concentrator whose config this is from.
    #[serde(default)]
    pub from: String,
    /// Inner addresses and networks, and public ones, as `allowed_ips`.
    pub addresses: Vec<String>,
    /// Highest rate towards the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_limit_bytes_per_sec: Option<u64>,
    /// Highest rate from the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_limit_bytes_per_sec: Option<u64>,
    /// The concentrator that it was moved to manually.
    #[serde(default)]
    pub pinned: Option<String>,
}

/// A concentrator, as its administrator configured it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concentrator {
    /// Its Curve25519 public key, base64.
    pub public_key: String,
    /// Where homes reach it, HOST:PORT.
    pub endpoints: Vec<String>,
    /// How many homes it can serve.
    pub capacity: u32,
    /// Its failure domain, such as a rack or a data centre: homes get an alternative elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// It is draining.
    #[serde(default)]
    pub draining: bool,
}

/// What a concentrator publishes while it is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Homes that it serves.
    pub homes: u32,
    /// Its load in both directions, kbit/s.
    pub kbit: u64,
    /// Its own config says that it is draining.
    #[serde(default)]
    pub draining: bool,
}

/// Who serves a home, as the home says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The concentrator.
    pub by: String,
    /// Epoch of the home's statement: higher is later.
    pub epoch: u64,
}

/// All records, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// By name, with the version in the store.
    pub homes: BTreeMap<String, (Home, i64)>,
    /// The same.
    pub concentrators: BTreeMap<String, (Concentrator, i64)>,
    /// Live ones, by name.
    pub alive: BTreeMap<String, Alive>,
    /// By the homes' names.
    pub served: BTreeMap<String, (Served, i64)>,
}

impl Home {
    /// The key of its record.
    pub fn key(name: &str) -> String {
        format!("home/{name}")
    }
}

impl Concentrator {
    /// The key of its record.
    pub fn key(name: &str) -> String {
        format!("concentrator/{name}")
    }
}

impl Alive {
    /// The key of its record.
    pub fn key(concentrator: &str) -> String {
        format!("alive/{concentrator}")
    }
}

impl Served {
    /// The key of its record.
    pub fn key(home: &str) -> String {
        format!("served/{home}")
    }
}

impl Fleet {
    /// Whether the concentrator is draining, according to the registry or itself.
    pub fn drains(&self, name: &str) -> bool {
        let recorded = self.concentrators.get(name).is_some_and(|(it, _)| it.draining);
        recorded || self.alive.get(name).is_some_and(|alive| alive.draining)
    }

    /// Parses a store's entries. Unknown kinds of records are ignored.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] with the key whose value can't be parsed.
    pub fn parse(entries: &[Entry]) -> Result<Fleet, StoreError> {
        let mut fleet = Fleet::default();
        for Entry { key, value, version } in entries {
            let foreign = |error: serde_json::Error| StoreError::Foreign(format!("{key}: {error}"));
            let read = value.as_str();
            match key.split_once('/') {
                Some(("home", name)) => {
                    let home = serde_json::from_str(read).map_err(foreign)?;
                    fleet.homes.insert(name.to_owned(), (home, *version));
                }
                Some(("concentrator", name)) => {
                    let concentrator = serde_json::from_str(read).map_err(foreign)?;
                    fleet.concentrators.insert(name.to_owned(), (concentrator, *version));
                }
                Some(("alive", name)) => {
                    let alive = serde_json::from_str(read).map_err(foreign)?;
                    fleet.alive.insert(name.to_owned(), alive);
                }
                Some(("served", name)) => {
                    let served = serde_json::from_str(read).map_err(foreign)?;
                    fleet.served.insert(name.to_owned(), (served, *version));
                }
                _ => {}
            }
        }
        Ok(fleet)
    }
}
