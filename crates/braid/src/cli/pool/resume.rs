use super::carry_out::{Place, go_on};
use crate::cli::failure::{self, Failure};
use crate::cli::{Global, JsonFlag};
use braid_runner::journal::Log;
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid pool resume data\n\nWithout a name: lists what was interrupted."
)]
pub struct Resume {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Resume {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let Some(name) = &self.name else { return self.list(global) };
        let mut journal = self.place.state().reopen(name)?;
        let title = journal.record().plan.title.clone();
        failure::tell(&format!("going on with: {title}"));
        go_on(&mut journal, &self.place)?;
        let value = json!({ "plan": journal.record().plan, "done": true });
        global.print(&value, || format!("done: {title}"))
    }

    fn list(&self, global: &Global) -> Result<(), Failure> {
        let unfinished = self.place.state().unfinished()?;
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
