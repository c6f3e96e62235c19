//! What the runner needs from a host.

use crate::progress::Progress;
use braid_pool::step::{Action, Condition, Plan};
use braid_pool::uuid::Uuid;

/// A host that steps are performed on: the real one ([`crate::host`]) or a simulated one
/// ([`crate::simulated`]).
pub trait System {
    /// Whether the condition, which isn't composed of others, holds now.
    ///
    /// # Errors
    /// The host can't be asked, so the answer isn't known.
    fn look(&mut self, condition: &Condition, left: &LeftBehind) -> Result<Answer, SystemError>;

    /// Whether the condition holds now.
    ///
    /// # Errors
    /// Those of [`System::look`].
    fn check(&mut self, condition: &Condition, left: &LeftBehind) -> Result<Answer, SystemError> {
        match condition {
            Condition::Not(inner) => {
                let holds = self.check(inner, left)?.holds();
                Ok(Answer::when(!holds, || format!("{inner}")))
            }
            Condition::Any(some) => {
                let mut instead = Vec::new();
                for each in some {
                    match self.check(each, left)? {
                        Answer::Holds => return Ok(Answer::Holds),
                        Answer::Fails(why) => instead.push(why),
                    }
                }
                Ok(Answer::Fails(instead.join("; ")))
            }
            simple => self.look(simple, left),
        }
    }

    /// Does it, to its end.
    ///
    /// # Errors
    /// It failed, or the user wants to stop; some of it may be done.
    fn perform(
        &mut self,
        action: &Action,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError>;

    /// If the host is still busy with the action, which an earlier run of this program began (the
    /// kernel's long operations outlive it, some even a reboot): makes sure that it continues,
    /// waits for its end and returns `true`; otherwise returns `false` at once.
    ///
    /// # Errors
    /// The operation ended badly, the host can't be asked, or the user wants to stop.
    fn follow(
        &mut self,
        _action: &Action,
        _tell: &mut dyn FnMut(&Progress),
    ) -> Result<bool, SystemError> {
        Ok(false)
    }

    /// Stops the action if the host is still busy with it and returns `true`, else `false`. Only
    /// what it has already moved stays moved.
    ///
    /// # Errors
    /// It can't be stopped.
    fn cancel(&mut self, _action: &Action) -> Result<bool, SystemError> {
        Ok(false)
    }

    /// Called before an earlier run's plan is continued or undone: after a reboot the kernel may
    /// not know the arrays and filesystems that it made.
    ///
    /// # Errors
    /// Something that is needed couldn't be brought up.
    fn wake(&mut self, _plan: &Plan, _waking: Waking) -> Result<(), SystemError> {
        Ok(())
    }

    /// Gives the host a moment to show what was done to it (device nodes appear a little later);
    /// `false` when there was enough time.
    fn settle(&mut self, _tries: u32) -> bool {
        false
    }
}

/// What happens to the plan that a host is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// It goes on.
    GoOn,
    /// It is undone.
    Undo,
}

/// The answer to a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is so.
    Holds,
    /// It isn't; this is the case instead.
    Fails(String),
}

/// What an earlier attempt at a step may have left on the disks that it claims, so that they may
/// legitimately differ from when the plan was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeftBehind {
    /// Nothing: it was never begun.
    #[default]
    Nothing,
    /// It was interrupted: the disks may be empty or carry the filesystems and arrays of these
    /// UUIDs, which the step makes.
    Half(Vec<Uuid>),
    /// The same, and these may be in use, since the step is about to be undone.
    InUse(Vec<Uuid>),
}

/// Why the host couldn't do or answer something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// It failed.
    #[error("{0}")]
    Failed(String),
    /// The user wants to stop; the kernel may continue what it is doing.
    #[error("stopped")]
    Stopped,
}

impl Answer {
    /// Whether it is so.
    pub fn holds(&self) -> bool {
        *self == Answer::Holds
    }

    /// Holds if `so`; otherwise what is the case instead.
    pub fn when(so: bool, instead: impl FnOnce() -> String) -> Answer {
        if so { Answer::Holds } else { Answer::Fails(instead()) }
    }
}
