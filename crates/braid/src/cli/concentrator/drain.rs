use super::super::Global;
use super::super::failure::{Failure, FailureKind};
use super::add_home::tell_tunnel;
use super::{Drain, Undrain};
use braid_control::config::{Config, ConfigEditor};
use braid_control::status::{PeerStatus, Status};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often it is looked whether homes have gone.
const LOOK: Duration = Duration::from_millis(200);
/// Routers have heard by then that homes' addresses are announced here no more, and what they sent
/// before that has been passed on. It takes tens of milliseconds with BIRD and FRR (test
/// `moving_addresses`).
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
                "not gone yet: {}; it goes on: `braid concentrator list` shows who is served here",
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
            // Others may have asked for it, too.
            return of_fleet(global, &config, fleet.name.as_str(), false, self.dry_run);
        }
        let value = json!({ "draining": false, "dry_run": self.dry_run, "changed": drains });
        global.print(&value, || match (drains, self.dry_run) {
            (false, _) => "it takes homes already".to_owned(),
            (true, true) => "it would take homes again".to_owned(),
            (true, false) => "it takes homes again; those that have it first come back".to_owned(),
        })
    }
}

/// Who goes and who stays, by name.
#[derive(Default)]
struct Homes {
    /// Served here, and could be elsewhere.
    going: Vec<String>,
    elsewhere: Vec<String>,
    /// Have no other concentrator, or don't say so, as they are of an older version.
    staying: Vec<String>,
    /// Other routers still send here what is for one that is served elsewhere.
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

    /// Whether some would notice if this concentrator ended now, and will not soon.
    fn concern_this(&self) -> bool {
        !self.going.is_empty() || self.announced
    }

    fn json(&self) -> Value {
        json!({ "served_here": self.going, "elsewhere": self.elsewhere, "staying": self.staying })
    }

    fn foretold(&self, runs: bool) -> String {
        if !runs {
            return "no tunnel is running: it would drain from the next `braid up` on".to_owned();
        }
        let going = self.going.len();
        format!("{} would go to another concentrator{}", homes(going), self.stay())
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
                "\nno other concentrator, as far as is known here: {}; cut off when this one goes",
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
            "this is no concentrator: its config has no interface.listen",
        )),
    }
}

/// Another concentrator, by the registry.
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
            "{name} drains by a command that was given there, and takes homes again by `braid \
             concentrator undrain` there"
        )));
    }
    let value = json!({
        "concentrator": name, "draining": draining, "dry_run": dry_run, "served_there": names,
    });
    global.print(&value, || match (draining, dry_run) {
        (true, true) => format!("{} would go from {name}", homes(names.len())),
        (true, false) => format!("{} go from {name}, those that can", homes(names.len())),
        (false, true) => format!("{name} would take homes again"),
        (false, false) => format!("{name} takes homes again"),
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
