mod bundle;
pub mod measure;

use super::failure::{Failure, print_line};
use super::{Global, JsonFlag};
use crate::daemon::look::FirstLook;
use braid_control::client::{Client, ClientError};
use braid_control::finding::Finding;
use braid_control::measured::NewMeasure;
use braid_control::status::Status;
use braid_doctor::{Facts, examine};
use braid_history::{Event, Severity};
use braid_pool::untrusted::one_line;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid doctor\n  braid doctor --measure\n  braid doctor --json | jq -r '.findings[].code'\n  braid doctor --bundle report.txt\n\nFor disks: `braid pool doctor`.\n\nExit codes: 0 nothing wrong, 10 something should be fixed, 11 the tunnel doesn't do its work"
)]
pub struct Doctor {
    #[command(flatten)]
    _json: JsonFlag,
    /// Write findings and state to a new file for a bug report, with keys, addresses and names
    /// blacked out
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// First measure the links to the concentrator, each alone and all together; meanwhile all
    /// traffic goes over the link being measured
    #[arg(long)]
    measure: bool,
    /// Measure links with a quota too
    #[arg(long, requires = "measure")]
    metered: bool,
    /// How long each direction is measured, 1 to 20 [default: 4]
    #[arg(long, value_name = "SECONDS", requires = "measure")]
    seconds: Option<u32>,
}

/// Time between the two looks.
const MOMENT: Duration = Duration::from_secs(1);
/// Number of events to consider.
const EVENTS: u32 = 200;
/// Same codes as for pools, see [`super::pool`].
const ATTENTION: u8 = 10;
const BROKEN: u8 = 11;

impl Doctor {
    fn wish(&self) -> NewMeasure {
        NewMeasure { metered: self.metered, seconds: self.seconds, ..NewMeasure::default() }
    }

    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let config = global.load_config()?;
        let client = global.client()?;
        let measured = match self.measure {
            true => Some(measure::run(&client, &self.wish())?),
            false => None,
        };
        let first = FirstLook::now(&config, status(&client)?);
        thread::sleep(MOMENT);
        let facts = first.then(&config, status(&client)?, events(&client), measured);
        let findings = examine(&facts);
        if let Some(file) = &self.bundle {
            bundle::write(file, &facts, &findings)?;
        }
        let value = json!({ "findings": findings, "measured": facts.measured });
        global.print(&value, || {
            let table = facts.measured.as_ref().map(measure::render).into_iter();
            let found = match findings.as_slice() {
                [] => healthy(&facts),
                findings => findings.iter().map(render).collect::<Vec<_>>().join("\n\n"),
            };
            table.chain([found]).collect::<Vec<_>>().join("\n\n")
        })?;
        if let Some(file) = self.bundle.as_ref().filter(|_| !global.json) {
            print_line(&format!("\n{}: read it before you send it", file.display()))?;
        }
        let worst = findings.iter().map(|finding| finding.severity).max();
        Ok(match worst {
            None => ExitCode::SUCCESS,
            Some(Severity::Note | Severity::Warning) => ExitCode::from(ATTENTION),
            Some(Severity::Critical) => ExitCode::from(BROKEN),
        })
    }
}

fn status(client: &Client) -> Result<Option<Status>, Failure> {
    match client.status() {
        Ok(status) => Ok(Some(status)),
        Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Without history there are none.
fn events(client: &Client) -> Vec<Event> {
    client.events(EVENTS).unwrap_or_default()
}

fn healthy(facts: &Facts) -> String {
    let links = facts.config.links.len();
    match links {
        0 => "nothing wrong".to_owned(),
        1 => "1 link, nothing wrong".to_owned(),
        links => format!("{links} links, nothing wrong"),
    }
}

/// As `braid pool doctor` shows its own.
fn render(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Note => "NOTE",
        Severity::Warning => "ATTENTION",
        Severity::Critical => "BROKEN",
    };
    let mut lines = vec![format!("{word:<10} {} [{}]", one_line(&finding.what), finding.code)];
    let mut more = |name: &str, text: &str| {
        lines.push(format!("{:<10} {name}: {}", "", one_line(text)));
    };
    for evidence in &finding.evidence {
        more("seen", evidence);
    }
    if let Some(gain) = &finding.gain {
        more("gain", gain);
    }
    more("mend it", &finding.mend);
    lines.join("\n")
}
