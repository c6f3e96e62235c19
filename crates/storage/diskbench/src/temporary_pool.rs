//! A pool that is made to be measured and then taken down, by the planner and the runner like any
//! other.
//!
//! Its journal stays unfinished until it is gone: whatever happens meanwhile, `braid pool abandon`
//! takes it down.

use crate::error::BenchError;
use braid_disks::{AskSmart, HostRoot, Inventory, pools};
pub use braid_pool::doctor::MEASURED_POOL as NAME;
use braid_pool::observed::{ObservedHost, ObservedPool};
use braid_pool::planner::{self, NewPool, Refused};
use braid_pool::step::{Condition, Plan, Step};
use braid_runner::host::{ConfigRoot, Host};
use braid_runner::journal::{Event, JournalError, Log, PlanJournal, Record, StateDir};
use braid_runner::{Happening, run};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The plan for a pool that doesn't survive the next boot: `create`'s, without the steps that make
/// it permanent.
///
/// # Errors
/// As [`planner::create`].
pub fn plan(new: &NewPool, host: &ObservedHost) -> Result<Plan, Refused> {
    let mut plan = planner::create(new, host)?;
    plan.title = format!("measure {} on {} disks, then take it down", new.layout, new.disks.len());
    plan.steps.retain(|step| !is_for_the_next_boot(step));
    Ok(plan)
}

fn is_for_the_next_boot(step: &Step) -> bool {
    let for_boot = |condition: &Condition| {
        matches!(condition, Condition::FileHasLine { .. } | Condition::InitramfsFresh)
    };
    step.after.iter().any(for_boot)
}

/// One that is there.
#[derive(Debug)]
pub struct TemporaryPool {
    journal: PlanJournal,
    config: ConfigRoot,
    mount_at: PathBuf,
}

impl TemporaryPool {
    /// Makes it. When that fails it is taken down as far as it was made.
    ///
    /// # Errors
    /// [`BenchError::PlanJournal`] when its journal can't be begun, [`BenchError::NotMade`] when a
    /// step failed and it was taken down, [`BenchError::NotTakenDown`] when that failed, too.
    pub fn make(
        state: &StateDir,
        config: &ConfigRoot,
        new: &NewPool,
        plan: &Plan,
        stop: &Arc<AtomicBool>,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<TemporaryPool, BenchError> {
        let journal = state.begin(&plan.pool, plan.clone())?;
        let mount_at = PathBuf::from(&new.mount_at);
        let mut pool = TemporaryPool { journal, config: config.clone(), mount_at };
        let mut host = pool.host(Arc::clone(stop));
        match run(&mut NeverFinished(&mut pool.journal), &mut host, tell) {
            Ok(()) => {
                wait_until_quiet(new, stop);
                Ok(pool)
            }
            Err(error) => {
                pool.take_down(tell)?;
                Err(BenchError::NotMade(error))
            }
        }
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &PathBuf {
        &self.mount_at
    }

    /// Takes it down: its disks are empty then.
    ///
    /// # Errors
    /// [`BenchError::NotTakenDown`] when it can't be taken down; its journal stays unfinished
    /// then.
    pub fn take_down(mut self, tell: &mut dyn FnMut(Happening)) -> Result<(), BenchError> {
        // Also when the user has just stopped the rest.
        let mut host = self.host(Arc::default());
        let remains = braid_runner::abandon(&mut self.journal, &mut host, tell);
        // Only erasures remain, and they leave nothing behind.
        remains.map(drop).map_err(BenchError::NotTakenDown)
    }

    fn host(&self, stop: Arc<AtomicBool>) -> Host {
        Host::new(self.config.clone(), self.journal.folder().join("output.log"), stop)
    }
}

/// A new array is still being filled: that would be measured too.
fn wait_until_quiet(new: &NewPool, stop: &AtomicBool) {
    let root = HostRoot::real();
    let busy = || {
        let inventory = Inventory::take(&root, AskSmart::No);
        pools::observe(&root, &inventory).iter().any(|pool| {
            matches!(pool, ObservedPool::Md(md) if md.uuid == new.array && md.sync.is_some())
        })
    };
    while busy() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A journal that doesn't end with the plan's last step, since what was made is to be undone.
struct NeverFinished<'a>(&'a mut PlanJournal);

impl Log for NeverFinished<'_> {
    fn record(&self) -> &Record {
        self.0.record()
    }

    fn write(&mut self, event: Event) -> Result<(), JournalError> {
        if matches!(event, Event::Finished) { Ok(()) } else { self.0.write(event) }
    }
}
