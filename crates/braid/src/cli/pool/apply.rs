use super::carry_out::{Consent, Outcome, outcome_of};
use super::create::pool_uuid;
use super::encrypt::{Encrypt, PoolIdentity};
use super::locked;
use super::random_uuid::random_uuid;
use super::secret::Lent;
use super::seen::{Seen, examine_named};
use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind, print_line, tell};
use braid_control::config::PoolsConfig;
use braid_pool::desired::{DesiredPool, Named, Reality, next};
use braid_pool::disk::{Disk, DiskId, ErasePermission};
use braid_pool::observed::ObservedPool;
use braid_pool::planner::{PoolName, forgotten_upkeep};
use braid_pool::step::Plan;
use braid_pool::uuid::Uuid;
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool apply --dry-run\n  braid pool apply data --erase WD-WCC4E1 --yes\n\nThe config's [[pool]] sections describe the desired state; pools that match are left alone. A pool whose section is gone stays, but its timers are removed, unless pools are named."
)]
pub struct Apply {
    #[command(flatten)]
    consent: Consent,
    /// Only these pools of the config
    pools: Vec<String>,
    /// Destroy all data on the disk with this serial number (repeat for each disk)
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
    /// Read the passphrase of an encrypted pool from this file (- for standard input) instead of
    /// asking
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    passphrase_file: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Default, Serialize)]
struct Applied {
    pools: Vec<AppliedPool>,
    /// Results for pools that the config no longer names.
    forgotten: Vec<Outcome>,
}

#[derive(Serialize)]
struct AppliedPool {
    pool: String,
    /// The changes made, in order; empty if everything was as desired.
    changes: Vec<Outcome>,
    /// Whether everything is as desired now.
    done: bool,
}

impl Applied {
    /// People have seen everything already.
    fn print(&self, global: &Global) -> Result<(), Failure> {
        if global.json { global.print(self, String::new) } else { Ok(()) }
    }
}

/// The contents of locked disks can't be compared with the config.
fn check_unlocked(desired: &DesiredPool, seen: &Seen) -> Result<(), Failure> {
    let name = desired.name.as_str();
    match locked::locked(&seen.host).contains_key(name) {
        true => Err(locked::is_locked(name)),
        false => Ok(()),
    }
}

/// Maximum number of changes to one pool; more would mean that they undo each other.
const MOST_CHANGES: usize = 64;

impl Apply {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        let config = PoolsConfig::load_if_any(&file)?;
        self.check_names(&config)?;
        // Units record the config they were made from, by its canonical path.
        let path = fs::canonicalize(&file)
            .map_err(|error| Failure::io(&file.display().to_string(), &error))?;
        let path = path.to_string_lossy();
        let erase = ErasePermission::for_disks(self.erase.iter().map(DiskId::new));
        let wanted = |pool: &&DesiredPool| {
            self.pools.is_empty() || self.pools.iter().any(|name| name == pool.name.as_str())
        };
        let mut applied = Applied::default();
        for desired in config.pools.iter().filter(wanted) {
            applied.pools.push(self.bring_about(desired, &erase, &path, global)?);
        }
        if !self.pools.is_empty() {
            return applied.print(global);
        }
        let forgotten = self.forgotten(&config, &path);
        if config.pools.is_empty() && forgotten.is_empty() {
            // That is an error, with its usual message.
            PoolsConfig::load(&file)?;
        }
        for plan in forgotten {
            applied.forgotten.push(self.told(plan, global)?);
        }
        applied.print(global)
    }

    /// Carries out one plan. People are told at once; `--json` prints everything together at the
    /// end.
    fn told(&self, plan: Plan, global: &Global) -> Result<Outcome, Failure> {
        let outcome = outcome_of(plan, &self.consent)?;
        if !global.json {
            print_line(&outcome.text())?;
        }
        Ok(outcome)
    }

    /// Plans that end the maintenance of pools whose sections were removed from the config.
    fn forgotten(&self, config: &PoolsConfig, path: &str) -> Vec<Plan> {
        let seen = Seen::now(&self.consent.place.config());
        let found = |name: &PoolName| {
            let found = seen.pools.iter().find(|pool| pool.name() == name.as_str());
            found.map(ObservedPool::uuid)
        };
        let named: Vec<(&PoolName, Option<Uuid>)> =
            config.pools.iter().map(|pool| (&pool.name, found(&pool.name))).collect();
        forgotten_upkeep(path, &named, &seen.host)
    }

    /// Carries out one plan after another, each made from the current state.
    fn bring_about(
        &self,
        desired: &DesiredPool,
        erase: &ErasePermission,
        config: &str,
        global: &Global,
    ) -> Result<AppliedPool, Failure> {
        let pool = desired.name.as_str().to_owned();
        let mut applied = AppliedPool { pool, changes: Vec::new(), done: false };
        for _ in 0..MOST_CHANGES {
            let Some((plan, lent)) = self.plan(desired, erase, config)? else {
                if applied.changes.is_empty() && !global.json {
                    print_line(&format!("pool {} matches the config", desired.name))?;
                }
                applied.done = true;
                return Ok(applied);
            };
            // If the same plan comes up again, it didn't help.
            if applied.changes.iter().any(|before| before.is_of(&plan)) {
                let message = format!(
                    "pool {} still doesn't match the config: this was done and changed nothing: {}",
                    desired.name, plan.title
                );
                return Err(Failure::failed(message));
            }
            applied.changes.push(self.told(plan, global)?);
            drop(lent);
            if self.consent.dry_run() {
                tell("later steps are planned once this one is done");
                return Ok(applied);
            }
        }
        let message = format!("pool {} still doesn't match the config", desired.name);
        Err(Failure::failed(message))
    }

    /// The next plan, and secrets that must live until it is carried out.
    fn plan(
        &self,
        desired: &DesiredPool,
        erase: &ErasePermission,
        config: &str,
    ) -> Result<Option<(Plan, Option<Lent>)>, Failure> {
        let mut seen = Seen::now(&self.consent.place.config());
        seen.host.header_backups = Some(self.consent.place.header_backups()?);
        check_unlocked(desired, &seen)?;
        let is_there = |name: &&String| seen.inventory.find(name).is_ok();
        let there: Vec<String> = desired.disks.iter().filter(is_there).cloned().collect();
        examine_named(&mut seen.inventory, &there)?;
        let new_uuids = (random_uuid()?, random_uuid()?);
        let lent = self.encrypted(desired, &there, new_uuids, &mut seen)?;
        let find = |name: &str| -> Option<&Disk> { seen.inventory.find(name).ok() };
        let disks: Vec<Named<'_>> =
            desired.disks.iter().map(|name| (name.as_str(), find(name))).collect();
        let reality = Reality {
            pools: &seen.pools,
            disks: &disks,
            host: &seen.host,
            erase,
            new_uuids,
            config,
        };
        Ok(next(desired, &reality)?.map(|plan| (plan, lent)))
    }

    /// Makes the plan encrypt disks that it may add, like the pool's others or as the config says.
    fn encrypted(
        &self,
        desired: &DesiredPool,
        there: &[String],
        new_uuids: (Uuid, Uuid),
        seen: &mut Seen,
    ) -> Result<Option<Lent>, Failure> {
        let name = desired.name.as_str();
        let pool = seen.pools.iter().find(|pool| pool.name() == name);
        let path = |name: &String| Some(seen.inventory.find(name).ok()?.path.clone());
        let paths: Vec<String> = there.iter().filter_map(path).collect();
        let is_member = |path: &str| {
            seen.host.luks.iter().any(|volume| volume.path == path && volume.open.is_some())
        };
        let paths: Vec<String> = paths.into_iter().filter(|path| !is_member(path)).collect();
        let is_new = |disk: &&mut Disk| paths.contains(&disk.path);
        let disks = seen.inventory.disks.iter_mut().filter(is_new);
        let (place, dry_run) = (&self.consent.place, self.consent.dry_run());
        match pool {
            Some(_) if paths.is_empty() => Ok(None),
            Some(pool) => {
                let encryption = Encrypt::like_the_others(self.passphrase_file.clone());
                encryption.prepared(pool, &seen.host, disks, place, dry_run)
            }
            None if desired.encrypt => {
                let mut new: Vec<&mut Disk> = disks.collect();
                let uuid = pool_uuid(desired.layout, new_uuids);
                Encrypt::by_key_file().new_pool(
                    PoolIdentity { name, uuid },
                    &desired.mount_at,
                    &mut new,
                    &seen.host,
                    place,
                    dry_run,
                )
            }
            None => Ok(None),
        }
    }

    fn check_names(&self, config: &PoolsConfig) -> Result<(), Failure> {
        let known = |name: &&String| config.pools.iter().any(|pool| pool.name.as_str() == *name);
        match self.pools.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let all: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
                let message = format!(
                    "{} has no pool {name}; it has {}",
                    config.file.display(),
                    all.join(", ")
                );
                Err(Failure::new(FailureKind::Usage, message))
            }
        }
    }
}
