//! The lines of a journal.

use braid_pool::step::Plan;
use serde::{Deserialize, Serialize};

/// The format that this program writes and reads.
pub const VERSION: u32 = 1;

/// One line: an event and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since 1970, by the host's clock: only for people, nothing depends on it.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened to a plan. Steps are numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: the whole plan, before anything of it is done.
    Plan {
        /// Format of the journal, [`VERSION`].
        version: u32,
        /// What is to be done.
        plan: Box<Plan>,
    },
    /// The step's goal was already met: nothing was done, so nothing will be undone.
    Kept {
        /// The step.
        step: usize,
    },
    /// The step is about to be performed.
    Begun {
        /// The step.
        step: usize,
    },
    /// The step's conditions for success hold.
    Done {
        /// The step.
        step: usize,
    },
    /// The step failed; it may be tried again.
    Failed {
        /// The step.
        step: usize,
        /// What was said.
        why: String,
    },
    /// The step can't be done, and the plan continues without it.
    PassedOver {
        /// The step.
        step: usize,
        /// What was said.
        why: String,
    },
    /// From here on steps are undone, last first.
    Abandoning,
    /// The step is about to be undone.
    Undoing {
        /// The step.
        step: usize,
    },
    /// The step's effects are gone.
    Undone {
        /// The step.
        step: usize,
    },
    /// The step's effects remain.
    Left {
        /// The step.
        step: usize,
        /// Why they can't be undone.
        why: String,
    },
    /// Every step is done.
    Finished,
    /// Every step is undone, or left for a reason.
    Abandoned,
}
