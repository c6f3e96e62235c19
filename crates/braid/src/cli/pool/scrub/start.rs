use super::PoolNames;
use crate::cli::failure::{Failure, print_line, tell};
use crate::cli::pool::health::PoolHealth;
use crate::cli::progress::ProgressLine;
use crate::cli::{Global, JsonFlag};
use braid_disks::HostRoot;
use braid_pool::observed::ObservedPool;
use braid_pool::uuid::Uuid;
use braid_runner::progress::{Eta, Progress};
use braid_runner::scrub::{self, Look, Outcome};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool scrub start photos\n  braid pool scrub start --all --wait\n\nExit codes with --wait: 0 nothing wrong, 10 errors were corrected or it was stopped, 11 errors that could not be corrected"
)]
pub struct Start {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    pools: PoolNames,
    /// Scrub one pool after the other, wait for each, and report what was found
    #[arg(short, long)]
    wait: bool,
    /// Show what would be scrubbed without starting
    #[arg(long)]
    dry_run: bool,
}

/// What `--json` prints, for each pool.
#[derive(Serialize)]
struct Report {
    pool: String,
    uuid: Uuid,
    /// `started`, `would-start`, or how it ended.
    #[serde(flatten)]
    result: Result,
}

#[derive(Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
enum Result {
    WouldStart,
    Started,
    Ended(Outcome),
}

const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Start {
    pub fn run(&self, global: &Global) -> std::result::Result<ExitCode, Failure> {
        let host = HostRoot::real();
        let mut reports = Vec::new();
        for pool in self.pools.required()? {
            let result = match (self.dry_run, self.wait) {
                (true, _) => Result::WouldStart,
                (false, true) => Result::Ended(wait(&host, &pool)?),
                (false, false) => {
                    scrub::start_in_background(&host, &pool)?;
                    Result::Started
                }
            };
            if !global.json {
                print_line(&format!("{}: {}", pool.name(), result.says()))?;
            }
            reports.push(Report { pool: pool.name(), uuid: pool.uuid(), result });
        }
        if global.json {
            global.print(&reports, String::new)?;
        }
        let worst = reports.iter().map(|report| report.result.health()).max();
        Ok(worst.unwrap_or(PoolHealth::Well).into())
    }
}

fn wait(host: &HostRoot, pool: &ObservedPool) -> std::result::Result<Outcome, Failure> {
    let mut running = scrub::start(host, pool)?;
    tell(&format!("{}: scrub started", pool.name()));
    let line = ProgressLine::new(0);
    let mut eta = Eta::default();
    let begun = Instant::now();
    loop {
        let share = match running.look(host)? {
            Look::Ended(outcome) => {
                line.end();
                return Ok(outcome);
            }
            Look::Runs(share) => share,
        };
        let left = share.and_then(|share| eta.left(begun.elapsed(), share));
        let left = left.map(|left| Duration::from_secs(left.as_secs() + 1));
        line.shows(&Progress { doing: "scrub".to_owned(), share, left });
        thread::sleep(LOOK_EVERY);
    }
}

impl Result {
    fn says(&self) -> String {
        match self {
            Result::WouldStart => "would be scrubbed".to_owned(),
            Result::Started => "scrub started; `braid pool scrub status` shows it".to_owned(),
            Result::Ended(outcome) if !outcome.complete => {
                "scrub stopped before its end".to_owned()
            }
            Result::Ended(Outcome { corrected: 0, uncorrectable: 0, .. }) => {
                "scrub ended, nothing wrong".to_owned()
            }
            Result::Ended(Outcome { corrected, uncorrectable, .. }) => format!(
                "scrub ended: {corrected} errors that copies can correct, {uncorrectable} that \
                 they can't"
            ),
        }
    }

    fn health(&self) -> PoolHealth {
        match self {
            Result::Ended(outcome) if outcome.uncorrectable > 0 => PoolHealth::Danger,
            Result::Ended(outcome) if outcome.corrected > 0 || !outcome.complete => {
                PoolHealth::Attention
            }
            _ => PoolHealth::Well,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scrub_found_is_its_exit_status() {
        let ended = |complete, corrected, uncorrectable| {
            Result::Ended(Outcome { complete, corrected, uncorrectable }).health()
        };
        assert_eq!(ended(true, 0, 0), PoolHealth::Well);
        assert_eq!(ended(true, 3, 0), PoolHealth::Attention);
        assert_eq!(ended(false, 0, 0), PoolHealth::Attention);
        assert_eq!(ended(true, 3, 1), PoolHealth::Danger);
    }
}
