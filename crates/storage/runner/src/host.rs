//! The real host.

mod command;
mod condition;
mod config_root;
mod exclusive;
mod file;
mod file_action;
mod file_condition;
mod filesystem_size;
mod long;
mod probe;
mod wake;

pub use condition::Observation;
pub use config_root::ConfigRoot;
pub use file_action::{back_up_header, with_line, without_line};
pub use probe::{observe, observe_host, observe_host_of};

use crate::progress::Progress;
use crate::system::{Answer, LeftBehind, System, SystemError, Waking};
use braid_pool::step::{Action, Argv, Condition, Plan};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often, and at what interval, the host is asked again until it shows what was done.
const SETTLE: Duration = Duration::from_millis(200);
const SETTLE_TRIES: u32 = 25;

/// How long one observation of all disks and pools is reused for further conditions.
const FRESH: Duration = Duration::from_millis(500);

/// The host that this process runs on.
#[derive(Debug)]
pub struct Host {
    config: ConfigRoot,
    outputs: PathBuf,
    stop: Arc<AtomicBool>,
    seen: Option<(Instant, Observation)>,
}

impl Host {
    /// `outputs`: the file to which commands' output is appended. `stop`: set from elsewhere
    /// (Ctrl-C) when the user wants to stop.
    pub fn new(config: ConfigRoot, outputs: PathBuf, stop: Arc<AtomicBool>) -> Host {
        Host { config, outputs, stop, seen: None }
    }

    /// What was seen a moment ago, if we have done nothing since.
    fn observation(&mut self) -> &Observation {
        let fresh = |seen: &(Instant, Observation)| seen.0.elapsed() < FRESH;
        let seen = self.seen.take().filter(fresh);
        let look = || {
            let observation = probe::observe();
            (Instant::now(), observation)
        };
        &self.seen.insert(seen.unwrap_or_else(look)).1
    }

    /// What prevents the plan before anything is shown or done: the conditions on the mount points
    /// that it makes.
    ///
    /// # Errors
    /// When it can't be found out.
    pub fn hidden_by(plan: &Plan, config: &ConfigRoot) -> Result<Option<String>, SystemError> {
        for condition in plan.steps.iter().flat_map(|step| &step.before) {
            let Condition::HidesNothing { at } = condition else { continue };
            if let Some(Answer::Fails(why)) = file_condition::check(config, condition)? {
                return Ok(Some(format!("nothing can be mounted at {at}: {why}")));
            }
        }
        Ok(None)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl System for Host {
    fn look(&mut self, condition: &Condition, left: &LeftBehind) -> Result<Answer, SystemError> {
        match file_condition::check(&self.config, condition)? {
            Some(answer) => Ok(answer),
            None => probe::check(self, condition, left),
        }
    }

    fn perform(
        &mut self,
        action: &Action,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError> {
        if self.stopped() {
            return Err(SystemError::Stopped);
        }
        self.seen = None;
        match action {
            Action::Run(argv) => self.run(argv, tell),
            Action::WaitFor { until, progress } => self.wait_for(until, progress, tell),
            other => file_action::perform(&self.config, other),
        }
    }

    fn follow(
        &mut self,
        action: &Action,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<bool, SystemError> {
        self.seen = None;
        match action {
            Action::Run(argv) => match &argv.progress {
                Some(progress) => self.follow_running(progress, tell),
                None => Ok(false),
            },
            _ => Ok(false),
        }
    }

    fn cancel(&mut self, action: &Action) -> Result<bool, SystemError> {
        self.seen = None;
        match action {
            Action::Run(Argv { progress: Some(progress), .. }) => self.cancel_running(progress),
            _ => Ok(false),
        }
    }

    fn wake(&mut self, plan: &Plan, waking: Waking) -> Result<(), SystemError> {
        wake::wake(self, plan, waking)
    }

    fn settle(&mut self, tries: u32) -> bool {
        self.seen = None;
        std::thread::sleep(SETTLE);
        tries < SETTLE_TRIES && !self.stopped()
    }
}
