use super::carry_out::{Consent, StateFolders, carry_out};
use super::seen::Seen;
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_control::config::PoolsConfig;
use braid_pool::observed::ObservedPool;
use braid_pool::planner;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool destroy data --dry-run\n  braid pool destroy data\n  braid pool destroy data --confirm data     # asks nothing\n\nWhat is on the pool is lost, with its snapshots. It is unmounted, its timers and its lines in fstab, crypttab and mdadm.conf go, and its disks are empty then; of an encrypted pool also the keys. What else is on those disks stays."
)]
pub struct Destroy {
    #[command(flatten)]
    _json: JsonFlag,
    /// Show the plan without changing anything
    #[arg(long)]
    dry_run: bool,
    /// The pool's name once more, instead of asking for it
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    #[command(flatten)]
    place: StateFolders,
    /// The pool's name or UUID
    name: String,
}

impl Destroy {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut seen = Seen::now(&self.place.config());
        seen.host.header_backups = Some(self.place.header_backups()?);
        let pool = seen.pool(&self.name)?;
        self.place.check_nothing_unfinished(&planner::journal_name(pool))?;
        let mut plan = planner::destroy(pool, &seen.host)?;
        plan.warnings.extend(backups(pool, &seen.pools, &self.place)?);
        plan.warnings.extend(named_in_config(pool, global));
        let consent =
            Consent::by_name(self.place, self.dry_run, pool.name(), self.confirm.as_deref())?;
        carry_out(plan, &consent, global)
    }
}

/// What can be restored, and from where.
#[cfg(feature = "backup")]
fn backups(
    pool: &ObservedPool,
    pools: &[ObservedPool],
    place: &StateFolders,
) -> Result<Vec<String>, Failure> {
    use super::examined::pool_of;
    use std::path::Path;
    let name = pool.name();
    let lies_here = |path: &Path| pool_of(pools, path).as_deref() == Some(name.as_str());
    let (records, _) = braid_backup::records::Records::new(place.state().backups()).all()?;
    let mut told = Vec::new();
    for record in &records {
        let (target, here) = (&record.target, lies_here(Path::new(&record.target)));
        for (path, source) in record.sources.iter().filter(|(path, _)| lies_here(path)) {
            let path = path.display();
            let at = source.done_s.and_then(|s| jiff::Timestamp::from_second(s as i64).ok());
            told.push(match at {
                Some(at) if !here => format!(
                    "{path} is backed up at {target}, last at {}",
                    at.strftime("%Y-%m-%d %H:%M UTC")
                ),
                _ => format!("{path} has no complete backup at {target} that will remain"),
            });
        }
        if here {
            told.push(format!("the backups in {target} are on this pool and will be lost with it"));
        }
    }
    if told.is_empty() {
        told.push("this host knows of no backup of its data".to_owned());
    }
    Ok(told)
}

#[cfg(not(feature = "backup"))]
fn backups(_: &ObservedPool, _: &[ObservedPool], _: &StateFolders) -> Result<Vec<String>, Failure> {
    Ok(vec!["whether its data is backed up isn't known here".to_owned()])
}

/// A warning if the config names the pool: `braid pool apply` would create it again.
fn named_in_config(pool: &ObservedPool, global: &Global) -> Option<String> {
    let (name, file) = (pool.name(), global.config_file());
    // A config that can't be read names nothing.
    let config = PoolsConfig::load_if_any(&file).ok()?;
    let named = config.pools.iter().any(|pool| pool.name.as_str() == name);
    named.then(|| {
        format!(
            "[[pool]] {name} is still in {}: remove it, or `braid pool apply` creates the pool \
             again",
            file.display()
        )
    })
}
