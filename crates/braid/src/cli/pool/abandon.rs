use super::carry_out::{Ending, go_back};
use super::encrypt::lent_to_undo;
use super::seen::Seen;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::step::{Step, Undo};
use braid_runner::journal::{Log, Record, StepState};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool abandon data --dry-run\n  braid pool abandon data\n\nUndoes the steps of an interrupted plan, the last first, and says what can't be undone."
)]
pub struct Abandon {
    /// The pool's name
    name: String,
    #[command(flatten)]
    ending: Ending,
}

impl Abandon {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut journal = self.ending.place.state().reopen(&self.name)?;
        if self.ending.dry_run {
            return show(journal.record(), global);
        }
        let host = Seen::now(&self.ending.place.config()).host;
        let lent = lent_to_undo(journal.record(), &host, self.ending.passphrase_file.as_deref())?;
        let remains = go_back(&mut journal, &self.ending.place)?;
        drop(lent);
        global.print(&json!({ "abandoned": true, "remains": remains }), || {
            if remains.is_empty() {
                return "everything is as before".to_owned();
            }
            let lines = remains.iter().map(|each| format!("  {}: {}", each.step, each.why));
            format!("undone, but for:\n{}", lines.collect::<Vec<_>>().join("\n"))
        })
    }
}

/// Shows the started steps, last one first. How far each got, and whether its result is in use, is
/// only known when it is undone.
fn show(record: &Record, global: &Global) -> Result<(), Failure> {
    let plan = &record.plan;
    let begun = |state: &StepState| {
        matches!(
            state,
            StepState::Begun | StepState::Done | StepState::PassedOver | StepState::Undoing
        )
    };
    let begun = plan.steps.iter().zip(&record.steps).filter(|(_, state)| begun(state));
    let mut begun: Vec<&Step> = begun.map(|(step, _)| step).collect();
    begun.reverse();
    global.print(&json!({ "plan": plan, "steps_to_undo": begun, "abandoned": false }), || {
        let lines: Vec<String> = begun.iter().copied().flat_map(undoing).collect();
        match lines.is_empty() {
            true => format!("{}\nno step had begun", plan.title),
            false => format!("{}\nto be undone:\n{}", plan.title, lines.join("\n")),
        }
    })
}

fn undoing(step: &Step) -> Vec<String> {
    let mut lines = vec![format!("  {}", step.says)];
    match &step.undo {
        Undo::By(actions) => {
            lines.extend(actions.iter().map(|action| format!("       {action}")));
        }
        Undo::Nothing => {}
        Undo::Never(why) => lines.push(format!("       can't be undone: {why}")),
    }
    lines
}
