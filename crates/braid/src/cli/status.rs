use super::failure::{Failure, print_line};
use super::{Global, JsonFlag, status_table};
use clap::Args;
use std::io::IsTerminal;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid status\n  braid status --watch\n  braid status --json | jq '.peers[].paths[].srtt_ms'"
)]
pub struct StatusCommand {
    #[command(flatten)]
    _json: JsonFlag,
    /// Show it again and again, each second, until interrupted
    #[arg(short, long)]
    watch: bool,
}

const EVERY: Duration = Duration::from_secs(1);
/// Cursor home, clear to the end of the screen (ECMA-48).
const REPAINT: &str = "\x1b[H\x1b[J";

impl StatusCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = global.client()?;
        if !self.watch {
            let status = client.status()?;
            return global.print(&status, || status_table::render(&status));
        }
        let repaint = std::io::stdout().is_terminal() && !global.json;
        loop {
            let status = client.status()?;
            let text = match global.json {
                true => {
                    serde_json::to_string(&status).map_err(|e| Failure::failed(e.to_string()))?
                }
                false => status_table::render(&status),
            };
            print_line(&format!("{}{text}", if repaint { REPAINT } else { "" }))?;
            std::thread::sleep(EVERY);
        }
    }
}
