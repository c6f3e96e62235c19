//! The systemd units that a pool's upkeep needs, and those it no longer needs.

use super::{PoolName, Refused};
use crate::observed::{ObservedHost, ObservedPool, ObservedSystemd};
use crate::step::{Action, Argv, Condition, Plan, Step, Undo};
use crate::upkeep::{MadeBy, ScheduledPool, Unit, Upkeep};
use crate::uuid::Uuid;
use std::collections::BTreeMap;

const UNITS: &str = "/etc/systemd/system";
const MODE: u32 = 0o644;

pub(super) fn plan(
    pool: &ObservedPool,
    wanted: &Upkeep,
    at: &str,
    config: &str,
    host: &ObservedHost,
) -> Result<Plan, Refused> {
    let (name, uuid) = (pool.name(), pool.uuid());
    let by = MadeBy::Apply(config);
    let units = wanted.units(&ScheduledPool { name: &name, uuid, by }, at);
    let steps = match &host.systemd {
        Some(there) => steps(&units, there, uuid),
        None if units.is_empty() => vec![],
        None => {
            return Err(Refused::Impossible {
                what: format!(
                    "systemd isn't running here, so nothing would start what the config wants for \
                     pool {name} regularly"
                ),
                instead: "take scrub, snapshot, retain and replicate out of its section, and let \
                          cron do `braid pool scrub start --wait`, `snapshot`, `retain`, \
                          `replicate`"
                    .to_owned(),
            });
        }
    };
    let title = format!("set what is done regularly for pool {name}");
    Ok(Plan {
        title,
        pool: name,
        claims: vec![],
        warnings: vec![],
        steps,
        after: vec![],
        dispensable: vec![],
    })
}

pub(super) fn forgotten(
    config: &str,
    named: &[(&PoolName, Option<Uuid>)],
    host: &ObservedHost,
) -> Vec<Plan> {
    let Some(there) = &host.systemd else { return vec![] };
    // A pool whose disks can't be found now may come back; until then its name identifies it.
    let is_named = |uuid: Uuid, name: &str| {
        named.iter().any(|(known, found)| match found {
            Some(found) => *found == uuid,
            None => known.as_str() == name,
        })
    };
    let mut pools: BTreeMap<Uuid, (&str, ObservedSystemd)> = BTreeMap::new();
    for (unit, text) in &there.units {
        let (Some(uuid), Some(name)) = (Unit::pool_of(unit), Unit::pool_name_of(text)) else {
            continue;
        };
        if Unit::config_of(text) == Some(config) && !is_named(uuid, name) {
            let (_, units) = pools.entry(uuid).or_insert((name, ObservedSystemd::default()));
            units.units.insert(unit.clone(), text.clone());
        }
    }
    let plan = |(uuid, (name, units)): (Uuid, (&str, ObservedSystemd))| Plan {
        title: format!("end what was done regularly for pool {name}, which isn't in {config}"),
        // The journal's name is a file name, for which a label from somebody else may be unfit.
        pool: name.parse::<PoolName>().map_or(uuid.to_string(), |name| name.to_string()),
        claims: vec![],
        warnings: vec![],
        steps: steps(&[], &units, uuid),
        after: vec![],
        dispensable: vec![],
    };
    pools.into_iter().map(plan).collect()
}

/// Ends all upkeep of the pool with this UUID, whoever set it up.
pub(super) fn ended(there: &ObservedSystemd, uuid: Uuid) -> Vec<Step> {
    steps_of(&[], there, &of_pool(there, uuid).collect::<Vec<_>>())
}

fn steps(units: &[Unit], there: &ObservedSystemd, uuid: Uuid) -> Vec<Step> {
    let is_wanted = |name: &str| units.iter().any(|unit| unit.name == name);
    let goes: Vec<(&str, &str)> = of_pool(there, uuid)
        .filter(|(name, text)| Unit::config_of(text).is_some() && !is_wanted(name))
        .collect();
    steps_of(units, there, &goes)
}

/// A pool's units, with their contents.
fn of_pool(there: &ObservedSystemd, uuid: Uuid) -> impl Iterator<Item = (&str, &str)> {
    let all = there.units.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    all.filter(move |(name, _)| Unit::pool_of(name) == Some(uuid))
}

fn steps_of(units: &[Unit], there: &ObservedSystemd, goes: &[(&str, &str)]) -> Vec<Step> {
    let differs = |unit: &&Unit| there.units.get(&unit.name) != Some(&unit.text);
    let written: Vec<&Unit> = units.iter().filter(differs).collect();
    let mut steps = vec![];
    // A timer whose file is gone could no longer be stopped.
    let stopped: Vec<String> = goes
        .iter()
        .filter(|(name, _)| name.ends_with(".timer"))
        .map(|(name, _)| (*name).to_owned())
        .collect();
    if !stopped.is_empty() {
        steps.push(begin_no_more(&stopped));
    }
    steps.extend(goes.iter().map(|(name, text)| remove(name, text)));
    steps.extend(written.iter().map(|unit| write(unit, there)));
    if !steps.is_empty() {
        steps.push(reload());
    }
    let timers = units.iter().filter(|unit| unit.is_timer());
    let (known, new): (Vec<&Unit>, Vec<&Unit>) =
        timers.partition(|unit| there.enabled.contains(&unit.name));
    let names = |units: &[&Unit]| units.iter().map(|unit| unit.name.clone()).collect::<Vec<_>>();
    let changed: Vec<&Unit> = known.into_iter().filter(|unit| written.contains(unit)).collect();
    if !changed.is_empty() {
        steps.push(restart(&names(&changed)));
    }
    if !new.is_empty() {
        steps.push(begin(&names(&new)));
    }
    steps
}

fn write(unit: &Unit, there: &ObservedSystemd) -> Step {
    let path = format!("{UNITS}/{}", unit.name);
    let put =
        |text: &str| Action::WriteFile { path: path.clone(), text: text.to_owned(), mode: MODE };
    let mut undo = match there.units.get(&unit.name) {
        Some(old) => vec![put(old), systemctl(&["daemon-reload"], &[])],
        None => vec![Action::RemoveFile { path: path.clone() }, systemctl(&["daemon-reload"], &[])],
    };
    if there.enabled.contains(&unit.name) {
        undo.push(systemctl(&["restart"], std::slice::from_ref(&unit.name)));
    }
    Step {
        name: format!("write {}", unit.name),
        says: match unit.is_timer() {
            true => format!("a timer: {}", line_of(&unit.text, "OnCalendar=")),
            false => format!("what it begins: {}", line_of(&unit.text, "ExecStart=")),
        },
        before: vec![],
        action: put(&unit.text),
        after: vec![Condition::FileHolds { path: path.clone(), text: unit.text.clone() }],
        undo: Undo::By(undo),
    }
}

fn remove(name: &str, text: &str) -> Step {
    let path = format!("{UNITS}/{name}");
    let put = Action::WriteFile { path: path.clone(), text: text.to_owned(), mode: MODE };
    Step {
        name: format!("remove {name}"),
        says: "nobody wants it any more".to_owned(),
        before: vec![],
        action: Action::RemoveFile { path: path.clone() },
        after: vec![Condition::FileHolds { path, text: text.to_owned() }.negated()],
        undo: Undo::By(vec![put, systemctl(&["daemon-reload"], &[])]),
    }
}

fn reload() -> Step {
    Step {
        name: "reload".to_owned(),
        says: "systemd reads its units anew".to_owned(),
        before: vec![],
        action: systemctl(&["daemon-reload"], &[]),
        after: vec![],
        undo: Undo::Nothing,
    }
}

fn begin(timers: &[String]) -> Step {
    Step {
        name: "enable".to_owned(),
        says: "these timers run now and after every boot".to_owned(),
        before: vec![],
        action: systemctl(&["enable", "--now"], timers),
        after: vec![],
        undo: Undo::By(vec![systemctl(&["disable", "--now"], timers)]),
    }
}

/// Undoing their files does the same with the old times.
fn restart(timers: &[String]) -> Step {
    Step {
        name: "restart".to_owned(),
        says: "timers that run take their new times".to_owned(),
        before: vec![],
        action: systemctl(&["restart"], timers),
        after: vec![],
        undo: Undo::Nothing,
    }
}

fn begin_no_more(timers: &[String]) -> Step {
    Step {
        name: "disable".to_owned(),
        says: "these timers run no more".to_owned(),
        before: vec![],
        action: systemctl(&["disable", "--now"], timers),
        after: vec![],
        undo: Undo::By(vec![systemctl(&["enable", "--now"], timers)]),
    }
}

fn systemctl(verb: &[&str], units: &[String]) -> Action {
    let words = verb.iter().map(|word| (*word).to_owned()).chain(units.iter().cloned());
    Action::Run(Argv::new("systemctl", words))
}

/// A unit's value for `key`.
fn line_of<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep::When;
    use std::time::Duration;

    #[test]
    fn timers_of_a_pool_go_once_no_pool_in_the_config_may_be_it() {
        const CONFIG: &str = "/etc/braid/braid.toml";
        let (uuid, other) = (Uuid::from_bytes([2; 16]), Uuid::from_bytes([3; 16]));
        let scrub = When { on: "weekly".parse().unwrap(), jitter: Duration::ZERO };
        let wanted = Upkeep { scrub: Some(scrub), ..Upkeep::default() };
        let by = MadeBy::Apply(CONFIG);
        let units = wanted.units(&ScheduledPool { name: "data", uuid, by }, "/srv/data");
        let there = ObservedSystemd {
            units: units.into_iter().map(|unit| (unit.name, unit.text)).collect(),
            ..ObservedSystemd::default()
        };
        let host = ObservedHost { systemd: Some(there), ..ObservedHost::default() };
        let (data, films): (PoolName, PoolName) =
            ("data".parse().unwrap(), "films".parse().unwrap());
        for (config, named, plans) in [
            (CONFIG, vec![], 1),
            ("/etc/braid/other.toml", vec![], 0),
            (CONFIG, vec![(&data, Some(uuid))], 0),
            // It has got another name.
            (CONFIG, vec![(&films, Some(uuid))], 0),
            // Its disks are away.
            (CONFIG, vec![(&data, None)], 0),
            (CONFIG, vec![(&films, None)], 1),
            // A new one has its name.
            (CONFIG, vec![(&data, Some(other))], 1),
        ] {
            let found = forgotten(config, &named, &host);
            assert_eq!(found.len(), plans, "{config} {named:?}");
            for plan in found {
                assert_eq!((plan.pool.as_str(), plan.steps.len()), ("data", 3), "{plan}");
            }
        }
    }
}
