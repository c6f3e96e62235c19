use super::carry_out::{Consent, carry_out};
use super::create::random_uuid;
use super::seen::Seen;
use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind, tell};
use braid_control::config::PoolsConfig;
use braid_pool::desired::{DesiredPool, Named, Reality, next};
use braid_pool::disk::{Disk, DiskId, ErasePermission};
use braid_pool::observed::ObservedPool;
use braid_pool::planner::{PoolName, forgotten_upkeep};
use braid_pool::step::Plan;
use braid_pool::uuid::Uuid;
use clap::Args;
use serde_json::json;
use std::fs;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool apply --dry-run\n  braid pool apply data --erase WD-WCC4E1 --yes\n\nThe config's [[pool]] sections say what should be; what is so already is left alone.\nA pool whose section is gone stays as it is, but for its timers, unless pools are named."
)]
pub struct Apply {
    #[command(flatten)]
    consent: Consent,
    /// Only these pools of the config
    pools: Vec<String>,
    /// Lose for good what the disk of this serial number carries (again for each disk)
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
}

/// Changes of one pool at most; more would mean that one takes another back.
const MOST_CHANGES: usize = 64;

impl Apply {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        let config = PoolsConfig::load_if_any(&file)?;
        self.check_names(&config)?;
        // Units say of which config they were made, however it is called.
        let path = fs::canonicalize(&file)
            .map_err(|error| Failure::io(&file.display().to_string(), &error))?;
        let path = path.to_string_lossy();
        let erase = ErasePermission::for_disks(self.erase.iter().map(DiskId::new));
        let wanted = |pool: &&DesiredPool| {
            self.pools.is_empty() || self.pools.iter().any(|name| name == pool.name.as_str())
        };
        for desired in config.pools.iter().filter(wanted) {
            self.bring_about(desired, &erase, &path, global)?;
        }
        if !self.pools.is_empty() {
            return Ok(());
        }
        let forgotten = self.forgotten(&config, &path);
        if config.pools.is_empty() && forgotten.is_empty() {
            // That is an error, in its usual words.
            PoolsConfig::load(&file)?;
        }
        forgotten.into_iter().try_for_each(|plan| carry_out(plan, &self.consent, global))
    }

    /// What ends the upkeep of pools whose sections are gone from the config.
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

    /// Carries out one plan after the other, each made from what is there then.
    fn bring_about(
        &self,
        desired: &DesiredPool,
        erase: &ErasePermission,
        config: &str,
        global: &Global,
    ) -> Result<(), Failure> {
        for changes in 0..MOST_CHANGES {
            let Some(plan) = self.plan(desired, erase, config)? else {
                if changes > 0 {
                    return Ok(());
                }
                let value = json!({ "pool": desired.name.as_str(), "done": true });
                return global
                    .print(&value, || format!("pool {} is as it should be", desired.name));
            };
            let only_shown = self.consent.dry_run();
            carry_out(plan, &self.consent, global)?;
            if only_shown {
                tell("what comes after this is planned when this is done");
                return Ok(());
            }
        }
        let message = format!("pool {} doesn't become as it should be", desired.name);
        Err(Failure::failed(message))
    }

    fn plan(
        &self,
        desired: &DesiredPool,
        erase: &ErasePermission,
        config: &str,
    ) -> Result<Option<Plan>, Failure> {
        let seen = Seen::now(&self.consent.place.config());
        let find = |name: &str| -> Option<&Disk> { seen.inventory.find(name).ok() };
        let disks: Vec<Named<'_>> =
            desired.disks.iter().map(|name| (name.as_str(), find(name))).collect();
        let reality = Reality {
            pools: &seen.pools,
            disks: &disks,
            host: &seen.host,
            erase,
            new_uuids: (random_uuid()?, random_uuid()?),
            config,
        };
        Ok(next(desired, &reality)?)
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
