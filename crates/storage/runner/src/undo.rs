//! Undoes one step.

use crate::action::{Happening, RunError, perform, unmet};
use crate::system::{LeftBehind, System};
use braid_pool::step::{Action, Condition, Step};
use braid_pool::uuid::Uuid;

/// Performs the step's undo actions. Perhaps only part of the step was done, or a reboot has undone
/// some of it: so a failing action is forgiven if in the end everything is as before.
pub(crate) fn undo(
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
    step: &Step,
    actions: &[Action],
) -> Result<(), RunError> {
    let mut first_error = None;
    for action in actions {
        match perform(system, tell, step, action) {
            Ok(()) => {}
            Err(error) if !error.is_interruption() => {
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let Some(error) = first_error else { return Ok(()) };
    let left = LeftBehind::Half(made_by(step));
    let as_before = unmet(system, step, &step.before, &left)?.is_none();
    let still_done = !step.after.is_empty() && unmet(system, step, &step.after, &left)?.is_none();
    if as_before && !still_done { Ok(()) } else { Err(error) }
}

/// The conditions on the disks that the step takes, before it runs.
pub(crate) fn claims(step: &Step) -> Vec<Condition> {
    let is_claim = |condition: &&Condition| {
        matches!(
            condition,
            Condition::AsClaimed(_) | Condition::Empty { .. } | Condition::OpenAndEmpty { .. }
        )
    };
    step.before.iter().filter(is_claim).cloned().collect()
}

/// What the step creates, by its conditions for success.
pub(crate) fn made_by(step: &Step) -> Vec<Uuid> {
    let mut made = Vec::new();
    step.after.iter().for_each(|condition| collect(condition, &mut made));
    made
}

fn collect(condition: &Condition, made: &mut Vec<Uuid>) {
    match condition {
        Condition::Filesystem { uuid, .. }
        | Condition::BtrfsMember { uuid, .. }
        | Condition::LuksKey { uuid, .. }
        | Condition::ArrayIs { uuid, .. }
        | Condition::ArrayMember { uuid, .. } => made.push(*uuid),
        Condition::Tagged { tag, value, .. } if tag == "PTUUID" => {
            made.extend(value.parse::<Uuid>())
        }
        Condition::Any(some) => some.iter().for_each(|each| collect(each, made)),
        _ => {}
    }
}
