//! Undoes what an interrupted plan did, last step first.

use crate::action::{Happening, RunError, unmet, wake};
use crate::journal::{Event, Log, StepState};
use crate::system::{LeftBehind, System, Waking};
use crate::undo::{claims, made_by, undo};
use braid_pool::step::{Condition, Plan, Step, Undo};
use braid_pool::uuid::Uuid;

/// A step that was done and isn't undone.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Remains {
    /// What it did.
    pub step: String,
    /// Why it stays.
    pub why: String,
}

/// Undoes the steps that were begun. It stops at one that can't be undone: those before it stay
/// too, since it depends on them. Returns what stays, in the plan's order.
///
/// # Errors
/// [`RunError::System`] when the host fails, can't be asked, or the user stops it;
/// [`RunError::Journal`] when the journal can't be written. Then it can be called again.
pub fn abandon(
    log: &mut dyn Log,
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
) -> Result<Vec<Remains>, RunError> {
    if !log.record().abandoning {
        log.write(Event::Abandoning)?;
    }
    let plan = log.record().plan.clone();
    wake(system, &plan, Waking::Undo)?;
    let mut remains: Vec<Remains> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate().rev() {
        let state = log.record().steps[index];
        if matches!(state, StepState::Kept | StepState::Undone)
            || state == StepState::Untouched
                && !mounted_by_boot(system, &plan, step)?
                && !opened(system, step)?
        {
            continue;
        }
        let cancelled = cancelled(system, step, state)?;
        let why = match (why_it_stays(system, step, state, cancelled)?, remains.last()) {
            (None, Some(later)) => Some(format!("what stays rests on it: {}", later.step)),
            (why, _) => why,
        };
        if let Some(why) = why {
            log.write(Event::Left { step: index, why: why.clone() })?;
            remains.push(Remains { step: step.says.clone(), why });
            continue;
        }
        if let (Undo::By(actions), false) = (&step.undo, untouched(system, step, state)?) {
            log.write(Event::Undoing { step: index })?;
            tell(Happening::Begun(step));
            undo(system, tell, step, actions)?;
        }
        log.write(Event::Undone { step: index })?;
        tell(Happening::Done(step));
    }
    log.write(Event::Abandoned)?;
    remains.reverse();
    Ok(remains)
}

/// Whether the step, which was never begun, would mount what this plan made, and that is mounted:
/// then a boot did it, from the line already in fstab, and what is to be removed would be in use.
fn mounted_by_boot(system: &mut dyn System, plan: &Plan, step: &Step) -> Result<bool, RunError> {
    let mounts = |conditions: &[Condition], of: Uuid| {
        conditions.iter().any(|each| matches!(each, Condition::Mounted { uuid, .. } if *uuid == of))
    };
    let was_there = |uuid: &Uuid| plan.steps.iter().any(|step| mounts(&step.before, *uuid));
    let mut made = plan.steps.iter().flat_map(made_by).filter(|uuid| !was_there(uuid));
    Ok(made.any(|uuid| mounts(&step.after, uuid))
        && unmet(system, step, &step.after, &LeftBehind::Nothing)?.is_none())
}

/// Whether the step, which was never begun, would open a volume that this plan made, and that is
/// open: by a boot, or because it was woken to be undone.
fn opened(system: &mut dyn System, step: &Step) -> Result<bool, RunError> {
    let opens = matches!(step.after.as_slice(), [Condition::Open { .. }]);
    Ok(opens && unmet(system, step, &step.after, &LeftBehind::Nothing)?.is_none())
}

/// Whether the kernel was still busy with the step and could be stopped: then the step counts as
/// undone, even if it couldn't be undone after its end.
fn cancelled(system: &mut dyn System, step: &Step, state: StepState) -> Result<bool, RunError> {
    if !matches!(state, StepState::Begun | StepState::Undoing) {
        return Ok(false);
    }
    let stopped = system.cancel(&step.action);
    let stopped = stopped.map_err(|error| RunError::System { step: step.says.clone(), error })?;
    let half = LeftBehind::Half(made_by(step));
    Ok(stopped && unmet(system, step, &step.after, &half)?.is_some())
}

fn why_it_stays(
    system: &mut dyn System,
    step: &Step,
    state: StepState,
    cancelled: bool,
) -> Result<Option<String>, RunError> {
    if cancelled {
        return Ok(None);
    }
    if let Undo::Never(why) = &step.undo {
        return Ok((!untouched(system, step, state)?).then(|| why.clone()));
    }
    // A claimed disk is written to once more: it must be that disk, with our data on it.
    let ours = LeftBehind::InUse(made_by(step));
    Ok(unmet(system, step, &claims(step), &ours)?.map(|(_, instead)| instead))
}

/// Whether the step was killed before it wrote anything: the disks that it claims still carry their
/// former contents, which must not be taken for ours.
fn untouched(system: &mut dyn System, step: &Step, state: StepState) -> Result<bool, RunError> {
    let claims = claims(step);
    Ok(state == StepState::Begun
        && !claims.is_empty()
        && unmet(system, step, &claims, &LeftBehind::Nothing)?.is_none())
}
