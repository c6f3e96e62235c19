//! Executes a plan, from where its journal stands to its end.

use crate::action::{Happening, RunError, follow, perform, unmet, wake};
use crate::journal::{Event, Log, StepState};
use crate::system::{LeftBehind, System, Waking};
use crate::undo::{claims, made_by, undo};
use braid_pool::step::{Action, Condition, Plan, Step, Undo};

/// Performs the plan's steps one by one, with a journal entry before each is begun and when it is
/// done. What is already done, by an earlier run or by somebody else, is left alone. A step that
/// the plan calls dispensable is skipped when it can't be done.
///
/// # Errors
/// [`RunError::BeingAbandoned`]; [`RunError::Unmet`] when something isn't as a step needs it;
/// [`RunError::Ineffective`] when a step or the whole plan was performed without effect;
/// [`RunError::System`] when the host fails or the user stops it; [`RunError::Journal`] when the
/// journal can't be written.
pub fn run(
    log: &mut dyn Log,
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
) -> Result<(), RunError> {
    let plan = log.record().plan.clone();
    if log.record().abandoning {
        return Err(RunError::BeingAbandoned { title: plan.title, pool: plan.pool });
    }
    if log.is_of_earlier_run() {
        wake(system, &plan, Waking::GoOn)?;
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let begun = match log.record().steps[index] {
            StepState::Done | StepState::Kept if !lost(system, step)? => continue,
            StepState::PassedOver => continue,
            StepState::Untouched => false,
            _ => true,
        };
        let result = advance(log, system, tell, index, step, begun);
        let Err(error) = result else { continue };
        let why = error.to_string();
        match plan.otherwise(step) {
            _ if error.is_interruption() => return Err(error),
            Some(otherwise) => {
                log.write(Event::PassedOver { step: index, why: why.clone() })?;
                tell(Happening::PassedOver { step, why: &why, otherwise });
            }
            None => {
                log.write(Event::Failed { step: index, why })?;
                return Err(error);
            }
        }
    }
    check_account(log, system, &plan)?;
    Ok(log.write(Event::Finished)?)
}

/// What must hold for all steps together.
fn check_account(log: &mut dyn Log, system: &mut dyn System, plan: &Plan) -> Result<(), RunError> {
    let Some(last) = plan.steps.last() else { return Ok(()) };
    let Some((needs, instead)) = unmet(system, last, &plan.after, &LeftBehind::Nothing)? else {
        return Ok(());
    };
    let error = RunError::Ineffective { step: plan.title.clone(), needs, instead };
    log.write(Event::Failed { step: plan.steps.len() - 1, why: error.to_string() })?;
    Err(error)
}

fn advance(
    log: &mut dyn Log,
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
    index: usize,
    step: &Step,
    begun: bool,
) -> Result<(), RunError> {
    let left = if begun { LeftBehind::Half(made_by(step)) } else { LeftBehind::Nothing };
    let done = |system: &mut dyn System| -> Result<bool, RunError> {
        Ok(!step.after.is_empty() && unmet(system, step, &step.after, &left)?.is_none())
    };
    let mut reached = done(system)?;
    if begun && !reached {
        let followed = follow(system, tell, step)?;
        // It may also have ended since the last check, when it could no longer be followed.
        reached = (followed && step.after.is_empty()) || done(system)?;
        let mut tries = 0;
        while followed && !reached && system.settle(tries) {
            reached = done(system)?;
            tries += 1;
        }
    }
    if reached {
        let event = if begun { Event::Done { step: index } } else { Event::Kept { step: index } };
        log.write(event)?;
        tell(if begun { Happening::Done(step) } else { Happening::Kept(step) });
        return Ok(());
    }
    if let (true, Undo::By(actions)) = (begun, &step.undo) {
        clear_the_way(system, tell, step, actions)?;
    }
    if let Some((needs, instead)) = unmet(system, step, &step.before, &left)? {
        return Err(RunError::Unmet { step: step.says.clone(), needs, instead });
    }
    log.write(Event::Begun { step: index })?;
    tell(Happening::Begun(step));
    perform(system, tell, step, &step.action)?;
    let half = LeftBehind::Half(made_by(step));
    let mut tries = 0;
    while let Some((needs, instead)) = unmet(system, step, &step.after, &half)? {
        if !system.settle(tries) {
            return Err(RunError::Ineffective { step: step.says.clone(), needs, instead });
        }
        tries += 1;
    }
    log.write(Event::Done { step: index })?;
    tell(Happening::Done(step));
    Ok(())
}

/// Remains of a half-done step on its disks may be in its own way: removes them, so that it can
/// start again. What somebody else has put there since stays.
fn clear_the_way(
    system: &mut dyn System,
    tell: &mut dyn FnMut(Happening),
    step: &Step,
    actions: &[Action],
) -> Result<(), RunError> {
    let claims = claims(step);
    if unmet(system, step, &claims, &LeftBehind::Nothing)?.is_none() {
        return Ok(());
    }
    let ours = LeftBehind::InUse(made_by(step));
    if let Some((needs, instead)) = unmet(system, step, &claims, &ours)? {
        return Err(RunError::Unmet { step: step.says.clone(), needs, instead });
    }
    undo(system, tell, step, actions)
}

/// Whether a reboot has undone the step's effect: mounts, kernel settings, and running operations
/// (md records a `--replace` a little after it begins).
fn lost(system: &mut dyn System, step: &Step) -> Result<bool, RunError> {
    Ok(!step.after.is_empty()
        && step.after.iter().all(is_volatile)
        && unmet(system, step, &step.after, &LeftBehind::Nothing)?.is_some())
}

fn is_volatile(condition: &Condition) -> bool {
    match condition {
        Condition::Mounted { .. }
        | Condition::MountedWithout { .. }
        | Condition::Open { .. }
        | Condition::KernelHas { .. } => true,
        Condition::Not(inner) => matches!(**inner, Condition::ArrayIdle { .. }),
        Condition::Any(some) => some.iter().any(is_volatile),
        _ => false,
    }
}
