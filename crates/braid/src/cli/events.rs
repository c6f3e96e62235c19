use super::status_table::columns;
use super::{Failure, Global, JsonFlag};
use braid_history::{Event, Periods};
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid events\n  braid events --last 1000 --json | jq '.[] | select(.kind == \"link_down\")'"
)]
pub struct Events {
    #[command(flatten)]
    _json: JsonFlag,
    /// Number of events to show, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    last: u32,
}

impl Events {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let events = global.client()?.events(self.last)?;
        global.print(&events, || match events.is_empty() {
            true => "nothing has happened yet".to_owned(),
            false => columns(&events.iter().map(row).collect::<Vec<_>>()).join("\n"),
        })
    }
}

fn row(event: &Event) -> Vec<String> {
    let when = Periods::local_time(event.unix);
    vec![when, event.severity.to_string(), event.text.clone()]
}
