use super::failure::{self, Failure, print_line};
use super::view::{self, Line, Tone, View};
use super::{Global, JsonFlag, group_table, status_table};
use braid_control::client::Client;
use braid_control::config::AnyConfig;
use clap::Args;
use serde::Serialize;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "For each path: DOWN and UP are the current rates, UPMAX is the sending rate that it was measured to carry (kept while idle), DELAY is its one-way delay beyond the fastest path's.\n\nExamples:\n  braid status\n  braid status --watch\n  braid status --json | jq '.peers[].paths[].srtt_ms'"
)]
pub struct StatusCommand {
    #[command(flatten)]
    _json: JsonFlag,
    /// Refresh every second, until `q` is pressed
    #[arg(short, long)]
    watch: bool,
}

const EVERY: Duration = Duration::from_secs(1);

impl StatusCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (client, group) = match global.client() {
            Ok(client) => {
                let group = match &global.args.socket {
                    // The config may belong to something else.
                    Some(_) => client.group_status().is_ok(),
                    None => matches!(global.load_any_config()?, AnyConfig::Group(_)),
                };
                (client, group)
            }
            Err(wrong) => {
                // It keeps using the config that it has read.
                let Some(client) = global.running_without_config() else { return Err(wrong) };
                failure::tell(&format!(
                    "{wrong}\nthe running tunnel uses the version it read before:"
                ));
                let group = client.group_status().is_ok();
                (client, group)
            }
        };
        if !self.watch {
            return self.once(global, &client, group);
        }
        let view = if global.json { None } else { View::open() };
        match view {
            Some(view) => watch(view, &client, group),
            None => loop {
                self.once(global, &client, group)?;
                std::thread::sleep(EVERY);
            },
        }
    }

    fn once(&self, global: &Global, client: &Client, group: bool) -> Result<(), Failure> {
        if group {
            let status = client.group_status()?;
            return self.show(global, &status, || group_table::render(&status));
        }
        let status = client.status()?;
        self.show(global, &status, || view::text(&status_table::lines(&status, None)))
    }

    fn show(
        &self,
        global: &Global,
        status: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.watch && global.json {
            // One per line, for programs that read continuously.
            let line = serde_json::to_string(status).map_err(|e| Failure::failed(e.to_string()))?;
            return print_line(&line);
        }
        global.print(status, text)
    }
}

/// Runs until the user quits. A tunnel that doesn't answer now may do so again.
fn watch(mut view: View, client: &Client, group: bool) -> Result<(), Failure> {
    let terminal = |error| Failure::io("the terminal", &error);
    loop {
        let lines = match group {
            true => client.group_status().map(|status| {
                let text = group_table::render(&status);
                text.lines().map(|line| Line::from(line.to_owned())).collect()
            }),
            false => client.status().map(|status| status_table::lines(&status, Some(view.width()))),
        };
        let lines = lines.unwrap_or_else(|error| {
            let error = error.to_string();
            error.lines().map(|line| Line::toned(line.to_owned(), Tone::Fault)).collect()
        });
        view.paint(lines).map_err(terminal)?;
        if view.wait(EVERY).map_err(terminal)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status_table::PATH_HEAD;

    /// Headings that need no explanation.
    const PLAIN: [&str; 7] = ["LINK", "STATE", "TIER", "RTT", "LOSS", "MTU", "QUOTA"];

    #[test]
    fn the_help_explains_each_column_that_does_not_by_its_name() {
        let mut command = StatusCommand::augment_args(clap::Command::new("status"));
        let help = command.render_help().to_string();
        for column in PATH_HEAD.iter().filter(|column| !PLAIN.contains(column)) {
            let words = help.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(words.into_iter().any(|word| word == *column), "{column} isn't in\n{help}");
        }
    }
}
