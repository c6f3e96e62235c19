//! One action on the host or look at it, and the result.

use crate::journal::JournalError;
use crate::progress::Progress;
use crate::system::{Answer, LeftBehind, System, SystemError, Waking};
use braid_pool::step::{Action, Condition, Plan, Step};

/// What is reported to the user meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening<'a> {
    /// The step is being performed or undone.
    Begun(&'a Step),
    /// Its progress.
    Goes(&'a Step, Progress),
    /// It is done, or undone.
    Done(&'a Step),
    /// It was so already.
    Kept(&'a Step),
    /// It couldn't be done, and the plan continues without it.
    PassedOver {
        /// The step.
        step: &'a Step,
        /// What was said.
        why: &'a str,
        /// What that means, and what the user can do.
        otherwise: &'a str,
    },
}

/// Why a plan stopped. What was done until then is in its journal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something isn't as the step needs it; no part of the step was done.
    #[error("{step}: not done, since this must hold: {needs}; but {instead}")]
    Unmet {
        /// The step.
        step: String,
        /// What must hold.
        needs: String,
        /// What is the case.
        instead: String,
    },
    /// The step was performed but had no effect.
    #[error("{step}: was performed, but this doesn't hold: {needs}; {instead}")]
    Ineffective {
        /// The step.
        step: String,
        /// What should hold.
        needs: String,
        /// What is the case.
        instead: String,
    },
    /// The host failed.
    #[error("{step}: {error}")]
    System {
        /// The step.
        step: String,
        /// What it said.
        error: SystemError,
    },
    /// The plan is being undone, so it can't continue.
    #[error(
        "\"{title}\" is being abandoned and can't go on: `braid pool abandon {pool}` ends that"
    )]
    BeingAbandoned {
        /// What was planned.
        title: String,
        /// Its pool.
        pool: String,
    },
    /// The journal can't be written: nothing more is done.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl RunError {
    /// Whether nothing failed: the user stopped it, or nothing can be written any more.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(self, RunError::Journal(_) | RunError::System { error: SystemError::Stopped, .. })
    }
}

/// Tells the host that a plan is continued or undone.
pub(crate) fn wake(system: &mut dyn System, plan: &Plan, waking: Waking) -> Result<(), RunError> {
    system.wake(plan, waking).map_err(|error| RunError::System { step: plan.title.clone(), error })
}

/// Performs one action of the step.
pub(crate) fn perform(
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
    step: &Step,
    action: &Action,
) -> Result<(), RunError> {
    let performed =
        system.perform(action, &mut |progress| tell(Happening::Goes(step, progress.clone())));
    performed.map_err(|error| RunError::System { step: step.says.clone(), error })
}

/// Waits for what an earlier run left running.
pub(crate) fn follow(
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
    step: &Step,
) -> Result<bool, RunError> {
    let followed =
        system.follow(&step.action, &mut |progress| tell(Happening::Goes(step, progress.clone())));
    followed.map_err(|error| RunError::System { step: step.says.clone(), error })
}

/// The first of the conditions that doesn't hold, and what is the case instead.
pub(crate) fn unmet(
    system: &mut dyn System,
    step: &Step,
    conditions: &[Condition],
    left: &LeftBehind,
) -> Result<Option<(String, String)>, RunError> {
    for condition in conditions {
        let answer = system
            .check(condition, left)
            .map_err(|error| RunError::System { step: step.says.clone(), error })?;
        if let Answer::Fails(instead) = answer {
            return Ok(Some((condition.to_string(), instead)));
        }
    }
    Ok(None)
}
