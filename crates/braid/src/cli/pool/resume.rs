use super::carry_out::{Ending, NotDone, done_text, go_on};
use super::encrypt::lent_again;
use super::seen::Seen;
use crate::cli::Global;
use crate::cli::failure::{self, Failure};
use braid_runner::journal::{Log, Record, StepState};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool resume\n  braid pool resume data --dry-run\n  braid pool resume data\n\nWithout a name it lists interrupted changes."
)]
pub struct Resume {
    /// The pool's name
    name: Option<String>,
    #[command(flatten)]
    ending: Ending,
}

impl Resume {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let Some(name) = &self.name else { return self.list(global) };
        let mut journal = self.ending.place.state().reopen(name)?;
        if self.ending.dry_run {
            return show(journal.record(), global);
        }
        let host = Seen::now(&self.ending.place.config()).host;
        let lent = lent_again(journal.record(), &host, self.ending.passphrase_file.as_deref())?;
        let title = journal.record().plan.title.clone();
        failure::tell(&format!("continuing: {title}"));
        go_on(&mut journal, &self.ending.place)?;
        drop(lent);
        let not_done = NotDone::all(journal.record());
        let value = json!({ "plan": journal.record().plan, "done": true, "not_done": not_done });
        global.print(&value, || done_text(&title, &not_done))
    }

    fn list(&self, global: &Global) -> Result<(), Failure> {
        let unfinished = self.ending.place.state().interrupted()?;
        let value: Vec<serde_json::Value> = unfinished
            .iter()
            .map(|(pool, record)| {
                json!({
                    "pool": pool,
                    "title": record.plan.title,
                    "steps": record.steps.len(),
                    "steps_done": record.done(),
                    "abandoning": record.abandoning,
                })
            })
            .collect();
        global.print(&json!({ "unfinished": value }), || {
            let line = |(pool, record): &(String, braid_runner::journal::Record)| {
                let (done, all) = (record.done(), record.steps.len());
                format!("{pool}: {} ({done} of {all} steps done)", record.plan.title)
            };
            match unfinished.is_empty() {
                true => "nothing was interrupted".to_owned(),
                false => unfinished.iter().map(line).collect::<Vec<_>>().join("\n"),
            }
        })
    }
}

/// Shows the rest of the plan; each step is checked again before it is carried out.
fn show(record: &Record, global: &Global) -> Result<(), Failure> {
    let plan = &record.plan;
    let is_left = |state: &StepState| {
        !matches!(state, StepState::Done | StepState::Kept | StepState::PassedOver)
    };
    let left = plan.steps.iter().zip(&record.steps).filter(|(_, state)| is_left(state));
    let left: Vec<_> = left.map(|(step, _)| step).collect();
    let value = json!({ "plan": plan, "steps_left": left, "done": false });
    global.print(&value, || {
        let lines = left.iter().map(|step| format!("  {}\n       {}", step.says, step.action));
        format!("{}\nstill to do:\n{}", plan.title, lines.collect::<Vec<_>>().join("\n"))
    })
}
