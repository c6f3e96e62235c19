use super::super::Global;
use super::super::failure::{Failure, FailureKind};
use super::add_home::tell_tunnel;
use super::{Drain, Undrain};
use braid_control::config::{Config, ConfigEditor};
use braid_control::status::{PeerStatus, Status};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often to check whether homes have moved.
const LOOK: Duration = Duration::from_millis(200);
/// By then routers know that homes' addresses are no longer announced here, and earlier packets
/// have been forwarded. It takes tens of milliseconds with BIRD and FRR (test `moving_addresses`).
const ROUTERS_HEAR_WITHIN: Duration = Duration::from_secs(1);

impl Drain {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = of_concentrator(global)?;
        if let Some(name) = &self.concentrator {
            return of_fleet(global, &config, name, true, self.dry_run);
        }
        let before = global.status_if_running()?;
        if self.dry_run {
            let homes = before.as_ref().map(Homes::of).unwrap_or_default();
            let value = json!({ "draining": true, "dry_run": true, "homes": homes.json() });
            return global.print(&value, || homes.foretold(before.is_some()));
        }
        set(global, true)?;
        let begun = Instant::now();
        let mut homes = match before {
            // They need some round trips.
            Some(_) => Homes::of(&global.client()?.status()?),
            None => Homes::default(),
        };
        let mut announced = homes.announced;
        while homes.concern_this() && begun.elapsed() < self.within {
            std::thread::sleep(LOOK);
            homes = Homes::of(&global.client()?.status()?);
            announced |= homes.announced;
        }
        if announced && !homes.concern_this() {
            std::thread::sleep(ROUTERS_HEAR_WITHIN);
        }
        let value = json!({ "draining": true, "dry_run": false, "homes": homes.json() });
        global.print(&value, || homes.told())?;
        match homes.going.is_empty() {
            true => Ok(()),
            false => Err(Failure::failed(format!(
                "not moved yet: {}; draining continues: `braid concentrator list` shows which \
                 homes are served here",
                homes.going.join(", ")
            ))),
        }
    }
}

impl Undrain {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = of_concentrator(global)?;
        if let Some(name) = &self.concentrator {
            return of_fleet(global, &config, name, false, self.dry_run);
        }
        let drains = config.interface.draining;
        if drains && !self.dry_run {
            set(global, false)?;
        }
        if let Some(fleet) = &config.fleet {
            // The registry may also say that it drains.
            return of_fleet(global, &config, fleet.name.as_str(), false, self.dry_run);
        }
        let value = json!({ "draining": false, "dry_run": self.dry_run, "changed": drains });
        global.print(&value, || match (drains, self.dry_run) {
            (false, _) => "it already accepts homes".to_owned(),
            (true, true) => "it would accept homes again".to_owned(),
            (true, false) => "it accepts homes again; those that prefer it come back".to_owned(),
        })
    }
}

/// Which homes move and which stay, by name.
#[derive(Default)]
struct Homes {
    /// Served here, and able to move.
    going: Vec<String>,
    elsewhere: Vec<String>,
    /// Homes without another concentrator, or of an older version that doesn't state it.
    staying: Vec<String>,
    /// Other routers still send packets here for a home that is served elsewhere.
    announced: bool,
}

impl Homes {
    fn of(status: &Status) -> Homes {
        let mut homes = Homes::default();
        for PeerStatus { name, served_here, connected, announced, .. } in &status.peers {
            homes.announced |= *announced && *connected && *served_here == Some(false);
            match served_here {
                _ if !connected => {}
                Some(true) => homes.going.push(name.clone()),
                Some(false) => homes.elsewhere.push(name.clone()),
                None => homes.staying.push(name.clone()),
            }
        }
        homes
    }

    /// Whether homes would notice if this concentrator ended now, but soon won't.
    fn concern_this(&self) -> bool {
        !self.going.is_empty() || self.announced
    }

    fn json(&self) -> Value {
        json!({ "served_here": self.going, "elsewhere": self.elsewhere, "staying": self.staying })
    }

    fn foretold(&self, runs: bool) -> String {
        if !runs {
            return "no tunnel is running: draining would start with the next `braid up`"
                .to_owned();
        }
        let going = self.going.len();
        format!("{} would move to another concentrator{}", homes(going), self.stay())
    }

    fn told(&self) -> String {
        let all = self.going.len() + self.elsewhere.len();
        let gone = self.elsewhere.len();
        format!(
            "draining: {gone} of {} have another concentrator serve them{}",
            homes(all),
            self.stay()
        )
    }

    fn stay(&self) -> String {
        match self.staying.as_slice() {
            [] => String::new(),
            names => format!(
                "\nno other concentrator known for {}: cut off when this one stops",
                names.join(", ")
            ),
        }
    }
}

fn homes(count: usize) -> String {
    match count {
        1 => "1 home".to_owned(),
        count => format!("{count} homes"),
    }
}

fn of_concentrator(global: &Global) -> Result<Config, Failure> {
    let config = global.load_config()?;
    match config.interface.listen.is_empty() {
        false => Ok(config),
        true => Err(Failure::new(
            FailureKind::Config,
            "this is not a concentrator: its config has no interface.listen",
        )),
    }
}

/// Drains another concentrator, through the registry.
#[cfg(feature = "fleet")]
fn of_fleet(
    global: &Global,
    config: &Config,
    name: &str,
    draining: bool,
    dry_run: bool,
) -> Result<(), Failure> {
    let mut registry = super::fleet::Registry::of(config)?;
    if !dry_run {
        registry.set_draining(name, draining)?;
    }
    let fleet = registry.read()?;
    let served = fleet.served.iter().filter(|(_, (served, _))| served.by == name);
    let names: Vec<&str> = served.map(|(home, _)| home.as_str()).collect();
    let is_other = config.fleet.as_ref().is_none_or(|own| own.name.as_str() != name);
    if !draining && is_other && fleet.alive.get(name).is_some_and(|alive| alive.draining) {
        return Err(Failure::failed(format!(
            "{name} is draining because of a command given there; it accepts homes again after \
             `braid concentrator undrain` there"
        )));
    }
    let value = json!({
        "concentrator": name, "draining": draining, "dry_run": dry_run, "served_there": names,
    });
    global.print(&value, || match (draining, dry_run) {
        (true, true) => format!("{} would leave {name}", homes(names.len())),
        (true, false) => format!("{} leave {name}, if they can", homes(names.len())),
        (false, true) => format!("{name} would accept homes again"),
        (false, false) => format!("{name} accepts homes again"),
    })
}

#[cfg(not(feature = "fleet"))]
fn of_fleet(_: &Global, _: &Config, _: &str, _: bool, _: bool) -> Result<(), Failure> {
    Err(Failure::failed("this build of braid has no fleet"))
}

fn set(global: &Global, draining: bool) -> Result<(), Failure> {
    let mut editor = ConfigEditor::open_alone(&global.config_file())?;
    editor.set_draining(draining)?;
    editor.save()?;
    tell_tunnel(global)
}
