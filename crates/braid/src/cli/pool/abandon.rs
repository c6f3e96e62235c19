use super::carry_out::{Place, go_back};
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid pool abandon data\n\nUndoes the steps of an interrupted plan, the last first, and says what can't be undone."
)]
pub struct Abandon {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Abandon {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut journal = self.place.state().reopen(&self.name)?;
        let remains = go_back(&mut journal, &self.place)?;
        global.print(&json!({ "abandoned": true, "remains": remains }), || {
            if remains.is_empty() {
                return "all is as it was before".to_owned();
            }
            let lines = remains.iter().map(|each| format!("  {}: {}", each.step, each.why));
            format!("undone, but for:\n{}", lines.collect::<Vec<_>>().join("\n"))
        })
    }
}
