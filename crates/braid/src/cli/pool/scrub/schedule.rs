use super::PoolNames;
use crate::cli::failure::{Failure, FailureKind, print_line};
use crate::cli::{Global, JsonFlag};
use braid_pool::observed::ObservedPool;
use braid_pool::upkeep::{Calendar, MadeBy, ScheduledPool, Unit, When, scrub_service, scrub_timer};
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool scrub schedule --all\n  braid pool scrub schedule photos --on weekly --jitter 12h\n  braid pool scrub schedule photos --remove"
)]
pub struct Schedule {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    pools: PoolNames,
    /// When to scrub, as a systemd calendar expression
    #[arg(long, default_value = "monthly", value_name = "CALENDAR")]
    on: Calendar,
    /// Delay each start by a random time up to this, so that not all pools start at once
    #[arg(long, default_value = "24h", value_name = "TIME", value_parser = braid_units::parse_duration)]
    jitter: std::time::Duration,
    /// Remove the schedule
    #[arg(long)]
    remove: bool,
    /// Show the units without writing them
    #[arg(long)]
    dry_run: bool,
    /// Folder of systemd's units
    #[arg(long, default_value = "/etc/systemd/system", value_name = "FOLDER", hide = true)]
    units: PathBuf,
}

impl Schedule {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let pools = self.pools.required()?;
        let timers: Vec<Unit> = pools.iter().map(|pool| self.timer(pool)).collect();
        let mut units = vec![scrub_service()];
        units.extend(timers);
        if self.dry_run {
            return show(&units, global);
        }
        let is_default = self.units == Path::new("/etc/systemd/system");
        if is_default && !Path::new("/run/systemd/system").exists() {
            let message = "systemd isn't running here; let cron run `braid pool scrub start --all \
                           --wait` instead, at a time that differs from other hosts'";
            return Err(Failure::failed(message));
        }
        match self.remove {
            true => self.take_away(&units, is_default)?,
            false => self.put(&units, is_default)?,
        }
        let word =
            if self.remove { "not scrubbed regularly any more" } else { "scrubbed regularly" };
        let names: Vec<String> = pools.iter().map(ObservedPool::name).collect();
        let files: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
        global.print(&json!({ "pools": names, "units": files, "removed": self.remove }), || {
            names.iter().map(|name| format!("{name}: {word}")).collect::<Vec<_>>().join("\n")
        })
    }

    fn timer(&self, pool: &ObservedPool) -> Unit {
        let when = When { on: self.on.clone(), jitter: self.jitter };
        let scheduled =
            ScheduledPool { name: &pool.name(), uuid: pool.uuid(), by: MadeBy::Schedule };
        scrub_timer(&scheduled, &when)
    }

    fn put(&self, units: &[Unit], enable: bool) -> Result<(), Failure> {
        for unit in units {
            let file = self.units.join(&unit.name);
            let doing = format!("writing {}", file.display());
            braid_durable::replace(&file, unit.text.as_bytes(), Some(0o644))
                .map_err(|error| Failure::io(&doing, &error))?;
        }
        if !enable {
            return Ok(());
        }
        systemctl(&["daemon-reload"])?;
        timers(units).try_for_each(|timer| systemctl(&["enable", "--now", timer]))
    }

    /// The service stays: other pools' timers use it.
    fn take_away(&self, units: &[Unit], disable: bool) -> Result<(), Failure> {
        for timer in timers(units) {
            let file = self.units.join(timer);
            if !file.exists() {
                continue;
            }
            if disable {
                systemctl(&["disable", "--now", timer])?;
            }
            let doing = format!("removing {}", file.display());
            fs::remove_file(&file).map_err(|error| Failure::io(&doing, &error))?;
        }
        if disable { systemctl(&["daemon-reload"]) } else { Ok(()) }
    }
}

fn timers(units: &[Unit]) -> impl Iterator<Item = &str> {
    units.iter().filter(|unit| unit.is_timer()).map(|unit| unit.name.as_str())
}

fn show(units: &[Unit], global: &Global) -> Result<(), Failure> {
    let texts: serde_json::Map<String, serde_json::Value> =
        units.iter().map(|unit| (unit.name.clone(), json!(unit.text))).collect();
    if global.json {
        return global.print(&json!({ "units": texts }), String::new);
    }
    units.iter().try_for_each(|unit| print_line(&format!("{}:\n{}", unit.name, unit.text)))
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("systemctl")
        .args(arguments)
        .output()
        .map_err(|error| Failure::io("systemctl", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = format!("systemctl {}: {}", arguments.join(" "), said.trim());
    Err(Failure::new(FailureKind::Failed, message))
}
