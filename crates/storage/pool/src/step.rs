//! A plan as plain data: ordered steps, what must hold before and after each, and how it is undone.
//! Executing a plan requires no knowledge of layouts.

mod action;
mod condition;

pub use action::{Action, Argv, Progress, quoted};
pub use condition::{Condition, SyncWanted};

use crate::disk::Claim;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// In a few words: `create pool data: btrfs-raid1 of 2 disks`.
    pub title: String,
    /// The pool's name.
    pub pool: String,
    /// The disks that will be overwritten; each is also a condition of the step that does so.
    pub claims: Vec<Claim>,
    /// What the user should know before saying yes.
    pub warnings: Vec<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Must hold when all of them are done; otherwise the plan has failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Condition>,
    /// The steps that are skipped when they can't be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dispensable: Vec<Dispensable>,
}

/// A step that is skipped when it can't be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispensable {
    /// Its name.
    pub step: String,
    /// What that means, and what the user can do.
    pub otherwise: String,
}

/// One step. It is skipped when all of `after` hold already (and there is something in `after`), so
/// a plan that was interrupted anywhere can be run again from any step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// A short name, unique in its plan, for the journal.
    pub name: String,
    /// What it does, in a sentence.
    pub says: String,
    /// Must hold before it is begun; otherwise the plan stops without doing it.
    pub before: Vec<Condition>,
    /// What is done.
    pub action: Action,
    /// Holds when it is done.
    pub after: Vec<Condition>,
    /// How it is undone.
    pub undo: Undo,
}

/// How a step is undone when the user abandons the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// By these, in this order.
    By(Vec<Action>),
    /// There is nothing to undo: it changes nothing, or what it made disappears with an earlier
    /// step's undo.
    Nothing,
    /// It can't be undone, for this reason. Past this step a plan can't be abandoned, only resumed.
    Never(String),
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The step of this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The consequence when this step can't be done, if the plan can skip it.
    pub fn otherwise(&self, step: &Step) -> Option<&str> {
        let found = self.dispensable.iter().find(|each| each.step == step.name)?;
        Some(&found.otherwise)
    }
}

impl fmt::Display for Plan {
    /// As it is shown before the user confirms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for claim in &self.claims {
            writeln!(f, "  disk {claim}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  note: {warning}")?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:3}. {}", index + 1, step.says)?;
            writeln!(f, "       {}", step.action)?;
            if let Undo::Never(why) = &step.undo {
                writeln!(f, "       can't be undone: {why}")?;
            }
        }
        Ok(())
    }
}
