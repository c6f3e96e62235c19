//! The common part of commands that change a pool: show the plan, ask, carry it out with a journal.

use crate::cli::confirm::{confirm, confirm_by_name};
use crate::cli::failure::{self, Failure, FailureKind};
use crate::cli::progress::ProgressLine;
use crate::cli::{Global, JsonFlag};
use braid_pool::step::{Plan, Step};
use braid_replica::register::Register;
use braid_runner::host::{ConfigRoot, Host};
use braid_runner::journal::{
    DEFAULT_STATE_DIR, JournalError, Log, PlanJournal, Record, StateDir, StepState,
};
use braid_runner::system::SystemError;
use braid_runner::{Happening, Remains, RunError};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
#[cfg(feature = "bench")]
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of every command that makes a plan and carries it out.
#[derive(Args)]
pub struct Consent {
    #[command(flatten)]
    _json: JsonFlag,
    /// Don't ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show the plan without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub place: StateFolders,
    /// The name that is to be typed, where a yes isn't enough.
    #[arg(skip)]
    name: Option<String>,
}

/// Options of the commands that end what was interrupted: the plan was confirmed when it was begun.
#[derive(Args)]
pub struct Ending {
    #[command(flatten)]
    _json: JsonFlag,
    /// Show what would be done without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Read the passphrase of an encrypted pool from this file (- for standard input) instead of
    /// asking
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub passphrase_file: Option<PathBuf>,
    /// Accepted for scripts; this command never asks for confirmation
    #[arg(long, short, hide = true)]
    _yes: bool,
    #[command(flatten)]
    pub place: StateFolders,
}

/// Where journals and the host's configuration are.
#[derive(Args)]
pub struct StateFolders {
    /// Folder of the journals
    #[arg(long, value_name = "FOLDER", env = "BRAID_POOL_STATE_DIR", default_value = DEFAULT_STATE_DIR, hide_short_help = true)]
    state_dir: PathBuf,
    /// Root folder of the system's configuration (etc/fstab, etc/mdadm.conf)
    #[arg(long, value_name = "FOLDER", env = "BRAID_POOL_CONFIG_ROOT", hide = true)]
    config_root: Option<PathBuf>,
}

impl Consent {
    /// Confirms permanent data loss: the user types the pool's name, or has given it already.
    ///
    /// # Errors
    /// Another name was given.
    pub fn by_name(
        place: StateFolders,
        dry_run: bool,
        name: String,
        given: Option<&str>,
    ) -> Result<Consent, Failure> {
        if let Some(other) = given.filter(|given| *given != name) {
            let what =
                format!("nothing was done: --confirm {other:?} isn't the pool's name, {name:?}");
            return Err(Failure::new(FailureKind::Declined, what));
        }
        let (yes, name) = (given.is_some(), Some(name));
        Ok(Consent { _json: JsonFlag { json: false }, yes, dry_run, place, name })
    }

    fn ask(&self) -> Result<(), Failure> {
        match &self.name {
            _ if self.yes => Ok(()),
            Some(name) => confirm_by_name(name),
            None => confirm(),
        }
    }

    /// Asks with `ask`, unless the user has agreed already.
    pub fn confirmed(&self, ask: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.yes { Ok(()) } else { ask() }
    }

    /// Whether this is a dry run.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }
}

impl StateFolders {
    pub fn state(&self) -> StateDir {
        StateDir::new(&self.state_dir)
    }

    /// The folder with backups of LUKS headers.
    pub fn header_backups(&self) -> Result<String, Failure> {
        let folder = self.state().headers();
        let folder = std::path::absolute(&folder)
            .map_err(|error| Failure::io(&folder.display().to_string(), &error))?;
        Ok(folder.display().to_string())
    }

    /// Checks that no plan of this pool was interrupted.
    pub fn check_nothing_unfinished(&self, pool: &str) -> Result<(), Failure> {
        match self.state().unfinished()?.into_iter().find(|(name, _)| name == pool) {
            Some((_, record)) => Err(JournalError::unfinished(pool, &record).into()),
            None => Ok(()),
        }
    }

    /// Checks that no interrupted plan of another pool needs one of these disks.
    fn check_not_awaited(&self, plan: &Plan) -> Result<(), Failure> {
        for (pool, record) in self.state().unfinished()? {
            let awaited = plan.claims.iter().find(|claim| {
                pool != plan.pool && record.plan.claims.iter().any(|its| its.id() == claim.id())
            });
            if let Some(claim) = awaited {
                let unfinished = JournalError::unfinished(&pool, &record);
                let text = format!("{} is one of its disks", claim.path());
                return Err(Failure::failed(format!("{unfinished}; {text}")));
            }
        }
        Ok(())
    }

    /// The register of unfinished replications.
    pub fn register(&self) -> Register {
        Register::new(self.state().replications())
    }

    /// Makes another `braid pool` command use the same folders.
    #[cfg(feature = "bench")]
    pub fn pass_on(&self, command: &mut Command) {
        command.arg("--state-dir").arg(&self.state_dir);
        if let Some(root) = &self.config_root {
            command.arg("--config-root").arg(root);
        }
    }

    pub fn config(&self) -> ConfigRoot {
        self.config_root.as_ref().map_or_else(ConfigRoot::host, ConfigRoot::at)
    }
}

/// Shows the plan, asks, carries it out, and reports the outcome.
pub fn carry_out(plan: Plan, consent: &Consent, global: &Global) -> Result<(), Failure> {
    let outcome = outcome_of(plan, consent)?;
    global.print(&outcome, || outcome.text())
}

/// The outcome of a plan.
#[derive(Serialize)]
pub struct Outcome {
    plan: Plan,
    /// Whether it was carried out.
    pub done: bool,
    not_done: Vec<NotDone>,
    #[serde(skip)]
    shown_only: bool,
}

impl Outcome {
    /// Whether it comes from a plan that does the same.
    pub fn is_of(&self, plan: &Plan) -> bool {
        // The steps can't be compared: they may contain new UUIDs.
        self.plan.title == plan.title
    }

    /// The text for people.
    pub fn text(&self) -> String {
        match self.shown_only {
            true => self.plan.to_string().trim_end().to_owned(),
            false => done_text(&self.plan.title, &self.not_done),
        }
    }
}

/// A step that failed without stopping the plan.
#[derive(Serialize)]
pub struct NotDone {
    step: String,
    /// What that means, and what to do about it.
    otherwise: String,
}

impl NotDone {
    /// The skipped steps of a finished plan.
    pub fn all(record: &Record) -> Vec<NotDone> {
        let steps = record.plan.steps.iter().zip(&record.steps);
        let passed_over = steps.filter(|(_, state)| **state == StepState::PassedOver);
        let not_done = |(step, _): (&Step, _)| NotDone {
            step: step.says.clone(),
            otherwise: record.plan.otherwise(step).unwrap_or_default().to_owned(),
        };
        passed_over.map(not_done).collect()
    }
}

/// The text for people about a finished plan.
pub fn done_text(title: &str, not_done: &[NotDone]) -> String {
    let lines =
        not_done.iter().map(|each| format!("\nbut not: {}\n  {}", each.step, each.otherwise));
    format!("done: {title}{}", lines.collect::<String>())
}

/// Shows the plan, asks, and carries it out; the caller reports the outcome.
pub fn outcome_of(plan: Plan, consent: &Consent) -> Result<Outcome, Failure> {
    let hidden = Host::hidden_by(&plan, &consent.place.config());
    if let Some(why) = hidden.map_err(|error| Failure::failed(error.to_string()))? {
        return Err(Failure::failed(why));
    }
    consent.place.check_not_awaited(&plan)?;
    if consent.dry_run || plan.is_empty() {
        return Ok(Outcome { done: plan.is_empty(), plan, not_done: vec![], shown_only: true });
    }
    consent.place.check_nothing_unfinished(&plan.pool)?;
    failure::tell(plan.to_string().trim_end());
    consent.ask()?;
    let mut journal = consent.place.state().begin(&plan.pool, plan.clone())?;
    go_on(&mut journal, &consent.place)?;
    let not_done = NotDone::all(journal.record());
    Ok(Outcome { done: true, plan, not_done, shown_only: false })
}

/// Carries out the rest of the journal's plan.
pub fn go_on(journal: &mut PlanJournal, place: &StateFolders) -> Result<(), Failure> {
    let record = journal.record();
    let is_behind = |state: &&StepState| {
        matches!(state, StepState::Kept | StepState::Done | StepState::PassedOver)
    };
    let behind = record.steps.iter().filter(is_behind).count();
    let mut line = ProgressLine::new(record.steps.len()).after(behind);
    let mut host = host(journal, place)?;
    let result = braid_runner::run(journal, &mut host, &mut |happening| line.show(&happening));
    line.end();
    result.map_err(|error| explained(&error, journal))
}

/// Undoes what the journal says was done; returns what remains.
pub fn go_back(journal: &mut PlanJournal, place: &StateFolders) -> Result<Vec<Remains>, Failure> {
    let mut line = ProgressLine::undoing();
    let mut host = host(journal, place)?;
    let mut show = |happening: Happening| line.show(&happening);
    let result = braid_runner::abandon(journal, &mut host, &mut show);
    line.end();
    let pool = &journal.record().plan.pool;
    result.map_err(|error| {
        Failure::failed(format!("{error}\n`braid pool abandon {pool}` tries again"))
    })
}

/// The host, which stops at the next safe moment when the user presses Ctrl-C.
fn host(journal: &PlanJournal, place: &StateFolders) -> Result<Host, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::io("listening for signals", &error))?;
    }
    Ok(Host::new(place.config(), journal.folder().join("output.log"), stop))
}

fn explained(error: &RunError, journal: &PlanJournal) -> Failure {
    let pool = &journal.record().plan.pool;
    let how = match error {
        RunError::BeingAbandoned { .. } => return Failure::failed(error.to_string()),
        RunError::System { error: SystemError::Stopped, .. } => {
            "; the operation already started in the kernel continues in the background"
        }
        _ => "",
    };
    let hint = format!(
        "`braid pool resume {pool}` continues, `braid pool abandon {pool}` undoes what was done; \
         the commands' output is in {}",
        journal.folder().join("output.log").display()
    );
    Failure::failed(format!("{error}{how}\n{hint}"))
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let kind = match &error {
            JournalError::Io { error, .. }
                if error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                FailureKind::Permission
            }
            _ => FailureKind::Failed,
        };
        Failure::new(kind, error.to_string())
    }
}
