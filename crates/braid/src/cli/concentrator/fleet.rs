//! Commands about a fleet, through its registry.

use super::super::Global;
use super::super::failure::{Failure, FailureKind};
use super::super::status_table::columns;
use super::{Forget, MoveHome, Status};
use crate::fleet_store;
use braid_control::config::{Config, Endpoint, Fleet as FleetMember};
use braid_control::join_line::JoinLine;
use braid_handshake::PublicKey;
use braid_registry::{
    Concentrator, Expected, Fleet, Home, Life, Store, StoreError, Written, placement,
};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often to retry a change if somebody else changes the record at the same time.
const TRIES: usize = 10;
/// The holder of this key may add to the fleet, for at most this long.
const ADDING_KEY: &str = "adding";
const ADDING: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Concentrators besides the first that a home is given lines for.
const STAND_INS: usize = 2;

/// A fleet's registry, open.
pub struct Registry {
    store: Box<dyn Store>,
}

impl Registry {
    /// Opens the registry of the config's fleet.
    pub fn of(config: &Config) -> Result<Registry, Failure> {
        let Some(fleet) = &config.fleet else {
            return Err(Failure::new(
                FailureKind::Config,
                format!(
                    "{} has no [fleet]: this concentrator isn't part of one",
                    config.file.display()
                ),
            ));
        };
        let store = fleet_store::open(&fleet.registry).map_err(|error| unread(&error))?;
        Ok(Registry { store })
    }

    /// All records.
    pub fn read(&mut self) -> Result<Fleet, Failure> {
        let entries = self.store.read().map_err(|error| unread(&error))?;
        Fleet::parse(&entries).map_err(|error| unread(&error))
    }

    /// Sets whether homes should leave the concentrator.
    pub fn set_draining(&mut self, name: &str, draining: bool) -> Result<(), Failure> {
        self.change(|fleet| {
            let (found, version) = fleet
                .concentrators
                .get(name)
                .ok_or_else(|| unknown("concentrator", name, fleet.concentrators.keys()))?;
            let changed = Concentrator { draining, ..found.clone() };
            Ok((Concentrator::key(name), Some(json!(changed)), *version))
        })
    }

    /// Removes a concentrator that is gone for good.
    fn forget(&mut self, name: &str, dry_run: bool) -> Result<Vec<String>, Failure> {
        let fleet = self.read()?;
        if fleet.alive.contains_key(name) {
            return Err(Failure::failed(format!(
                "concentrator {name} is alive, and would register itself again: remove [fleet] \
                 from its config, `braid down` and `braid up` there, and wait until it is silent"
            )));
        }
        let homes = fleet.homes.iter().filter(|(_, (home, _))| home.from == name);
        let homes = homes.map(|(home, _)| home.clone()).collect();
        let remove = |fleet: &Fleet| {
            let (_, version) = fleet
                .concentrators
                .get(name)
                .ok_or_else(|| unknown("concentrator", name, fleet.concentrators.keys()))?;
            Ok((Concentrator::key(name), None, *version))
        };
        match dry_run {
            true => remove(&fleet).map(drop)?,
            false => self.change(remove)?,
        }
        Ok(homes)
    }

    /// Sets the home's concentrator; `None` lets the fleet choose.
    fn pin(&mut self, name: &str, to: Option<&str>) -> Result<(), Failure> {
        self.change(|fleet| {
            let (home, version) =
                fleet.homes.get(name).ok_or_else(|| unknown("home", name, fleet.homes.keys()))?;
            if let Some(to) = to.filter(|to| !fleet.concentrators.contains_key(*to)) {
                return Err(unknown("concentrator", to, fleet.concentrators.keys()));
            }
            let changed = Home { pinned: to.map(str::to_owned), ..home.clone() };
            Ok((Home::key(name), Some(json!(changed)), *version))
        })
    }

    /// Removes the home.
    pub fn remove_home(&mut self, name: &str) -> Result<(), Failure> {
        self.change(|fleet| {
            let (_, version) =
                fleet.homes.get(name).ok_or_else(|| unknown("home", name, fleet.homes.keys()))?;
            Ok((Home::key(name), None, *version))
        })
    }

    /// Waits until nobody else adds to the fleet. A crash meanwhile delays others for [`ADDING`].
    pub fn begin_to_add(&mut self) -> Result<(), Failure> {
        self.store.keep_alive(ADDING).map_err(|error| unread(&error))?;
        let until = Instant::now() + 2 * ADDING;
        loop {
            let mine = self.store.write(ADDING_KEY, "", Expected::Absent, Life::Writer);
            match mine.map_err(|error| unread(&error))? {
                Written::Done => return Ok(()),
                Written::Conflict if Instant::now() >= until => {
                    return Err(Failure::failed(
                        "other concentrators keep changing the fleet at the same time: nothing was \
                         done; try again",
                    ));
                }
                Written::Conflict => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Lets others add.
    pub fn end_to_add(&mut self) {
        // Otherwise it expires by itself.
        let _ = self.store.remove(ADDING_KEY, Expected::Any);
    }

    /// Registers a home that is to join. The concentrator with its config adds the rest.
    pub fn write_home(&mut self, name: &str, addresses: &[IpNet]) -> Result<(), Failure> {
        let hosts = addresses.iter().map(|net| IpNet::from(net.addr()).to_string());
        let home = Home { addresses: hosts.collect(), ..Home::default() };
        let value = json!(home).to_string();
        let written = self.store.write(&Home::key(name), &value, Expected::Absent, Life::Lasting);
        // If it exists meanwhile, the tunnel was quicker.
        written.map(drop).map_err(|error| unread(&error))
    }

    /// Registers this concentrator, while nobody else adds to the fleet.
    pub fn write_concentrator(
        &mut self,
        fleet: &Fleet,
        own: &FleetMember,
        public_key: &PublicKey,
        endpoints: &[Endpoint],
    ) -> Result<(), Failure> {
        let name = own.name.as_str();
        if let Some((there, _)) = fleet.concentrators.get(name) {
            let at = there.endpoints.join(", ");
            let how = match fleet.alive.contains_key(name) {
                true => "choose another with --name".to_owned(),
                false => format!(
                    "choose another with --name; if that one is gone for good, `braid concentrator \
                     forget {name}` at one of the others gives its name up"
                ),
            };
            return Err(Failure::failed(format!(
                "the fleet already has a concentrator {name:?}, at {at}: {how}"
            )));
        }
        let concentrator = Concentrator {
            public_key: public_key.to_string(),
            endpoints: endpoints.iter().map(ToString::to_string).collect(),
            capacity: own.capacity,
            ..Concentrator::default()
        };
        let (key, value) = (Concentrator::key(name), json!(concentrator).to_string());
        match self.store.write(&key, &value, Expected::Absent, Life::Lasting) {
            Ok(Written::Done) => Ok(()),
            Ok(Written::Conflict) => {
                Err(Failure::failed(format!("the fleet already has a concentrator {name:?}")))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// Changes a record; retries if somebody else changed it at the same time.
    fn change(
        &mut self,
        change: impl Fn(&Fleet) -> Result<(String, Option<Value>, i64), Failure>,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let (key, value, version) = change(&self.read()?)?;
            let expected = Expected::Version(version);
            let written = match value {
                Some(value) => self.store.write(&key, &value.to_string(), expected, Life::Lasting),
                None => self.store.remove(&key, expected),
            };
            if written.map_err(|error| failed(&error))? == Written::Done {
                return Ok(());
            }
        }
        Err(Failure::failed(
            "others keep changing the same record at the same time: nothing was done; try again",
        ))
    }

    /// The same line for other concentrators of the fleet, in the home's order of preference.
    pub fn stand_ins(&mut self, config: &Config, line: &JoinLine) -> Result<Vec<Value>, Failure> {
        let own = config.fleet.as_ref().map_or("", |fleet| fleet.name.as_str());
        let fleet = self.read()?;
        let order = placement::order(&fleet, line.name.as_str(), &Home::default());
        // A silent one couldn't let anybody in; if all are silent, their lines are for later.
        let any_lives = fleet.alive.keys().any(|name| name != own);
        let serves = |name: &&str| !any_lives || fleet.alive.contains_key(*name);
        let others =
            order.into_iter().filter(|name| *name != own && !fleet.drains(name)).filter(serves);
        let lines = others.take(STAND_INS).filter_map(|name| {
            let (concentrator, _) = fleet.concentrators.get(name)?;
            let endpoints: Vec<Endpoint> =
                concentrator.endpoints.iter().filter_map(|it| it.parse().ok()).collect();
            let concentrator = concentrator.public_key.parse().ok()?;
            // Its record doesn't say whether it listens for TLS.
            let fallback_port = None;
            let line = JoinLine { concentrator, endpoints, fallback_port, ..line.clone() };
            Some(json!({ "concentrator": name, "line": line.to_string() }))
        });
        Ok(lines.collect())
    }
}

impl Status {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let fleet = Registry::of(&config)?.read()?;
        let own = config.fleet.as_ref().map(|fleet| fleet.name.to_string());
        let concentrators: Vec<Value> = fleet
            .concentrators
            .iter()
            .map(|(name, (it, _))| {
                let alive = fleet.alive.get(name);
                json!({
                    "name": name, "this": own.as_ref() == Some(name), "alive": alive.is_some(),
                    "draining": fleet.drains(name), "homes": alive.map(|alive| alive.homes),
                    "site": it.site, "capacity": it.capacity, "kbit": alive.map(|alive| alive.kbit),
                    "endpoints": it.endpoints, "public_key": it.public_key,
                })
            })
            .collect();
        let homes: Vec<Value> = fleet
            .homes
            .iter()
            .map(|(name, (home, _))| {
                json!({
                    "name": name, "joined": home.public_key.is_some(),
                    "served_by": fleet.served.get(name).map(|(served, _)| served.by.clone()),
                    "first": placement::order(&fleet, name, home).first(),
                    "pinned": home.pinned, "config_of": home.from, "addresses": home.addresses,
                })
            })
            .collect();
        let value = json!({ "concentrators": concentrators, "homes": homes });
        global.print(&value, || table(&fleet, own.as_deref()))
    }
}

impl MoveHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let mut registry = Registry::of(&config)?;
        let to = (!self.to_any).then_some(self.concentrator.as_deref()).flatten();
        if to.is_none() && !self.to_any {
            return Err(Failure::new(
                FailureKind::Usage,
                "name a concentrator, or use --to-any to let the fleet choose",
            ));
        }
        registry.pin(&self.home, to)?;
        let value = json!({ "home": self.home, "pinned": to });
        global.print(&value, || match to {
            Some(to) => {
                format!("{} moves to {to} once {to} answers it, and stays there", self.home)
            }
            None => format!("{} goes where the fleet places it", self.home),
        })
    }
}

impl Forget {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let name = &self.concentrator;
        let homes = Registry::of(&config)?.forget(name, self.dry_run)?;
        let value = json!({ "concentrator": name, "dry_run": self.dry_run, "homes": homes });
        global.print(&value, || {
            let begins = match self.dry_run {
                true => format!("{name} would be removed from the fleet"),
                false => format!("{name} is removed from the fleet"),
            };
            match homes.is_empty() {
                true => begins,
                false => format!(
                    "{begins}; homes in its config are served as before, until they are removed \
                     (`braid concentrator remove-home`) or in another config: {}",
                    homes.join(", ")
                ),
            }
        })
    }
}

fn table(fleet: &Fleet, own: Option<&str>) -> String {
    let mut rows = vec![
        ["CONCENTRATOR", "SITE", "STATE", "HOMES", "OF", "MBIT/S"].map(str::to_owned).to_vec(),
    ];
    rows.extend(fleet.concentrators.iter().map(|(name, (it, _))| {
        let alive = fleet.alive.get(name);
        let state = match (alive.is_some(), fleet.drains(name)) {
            (false, _) => "silent",
            (true, true) => "draining",
            (true, false) => "serves",
        };
        let star = if own == Some(name) { " (this)" } else { "" };
        let of_alive = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            format!("{name}{star}"),
            it.site.clone().unwrap_or_else(|| "-".to_owned()),
            state.to_owned(),
            of_alive(alive.map(|alive| alive.homes.to_string())),
            it.capacity.to_string(),
            of_alive(alive.map(|alive| format!("{:.1}", alive.kbit as f64 / 1000.0))),
        ]
    }));
    let mut lines = columns(&rows);
    lines.push(String::new());
    let mut rows = vec![["HOME", "SERVED BY", "FIRST", "CONFIG OF"].map(str::to_owned).to_vec()];
    rows.extend(fleet.homes.iter().map(|(name, (home, _))| {
        let served = fleet.served.get(name).map(|(served, _)| served.by.clone());
        let served = served.unwrap_or_else(|| match &home.public_key {
            Some(_) => "nobody".to_owned(),
            None => "has yet to join".to_owned(),
        });
        let first = placement::order(fleet, name, home).first().map(|first| (*first).to_owned());
        // A home isn't at a pinned concentrator that drains or is gone.
        let is_pinned = first.is_some() && home.pinned == first;
        let pinned = if is_pinned { " (by hand)" } else { "" };
        vec![
            name.clone(),
            served,
            format!("{}{pinned}", first.unwrap_or_default()),
            home.from.clone(),
        ]
    }));
    lines.extend(columns(&rows));
    lines.join("\n")
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Failure {
    let known: Vec<&str> = known.map(String::as_str).collect();
    Failure::failed(format!("the fleet has no {what} {name:?}; it has: {}", known.join(", ")))
}

/// The failure of something that changes nothing, or nothing lasting.
fn unread(error: &StoreError) -> Failure {
    Failure::failed(error.to_string())
}

fn failed(error: &StoreError) -> Failure {
    Failure::failed(format!("{error}; as far as is known, nothing was changed"))
}
