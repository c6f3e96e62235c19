//! `braid pool scrub`: reads everything and compares it with its checksums or copies, now or by a
//! timer.

mod cancel;
mod schedule;
mod start;
mod status;

use super::named::PoolNames;
use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind};
use braid_runner::scrub::ScrubError;
use clap::Subcommand;
use std::io;
use std::process::ExitCode;

/// What can be done with scrubs.
#[derive(Subcommand)]
#[command(
    after_help = "Examples:\n  braid pool scrub start photos --wait\n  braid pool scrub status\n  braid pool scrub schedule --all"
)]
pub enum Scrub {
    /// Start scrubbing
    Start(start::Start),
    /// Show running scrubs and when the last one ended
    Status(status::Status),
    /// Stop scrubbing
    Cancel(cancel::Cancel),
    /// Schedule regular scrubs with systemd timers
    Schedule(schedule::Schedule),
}

impl Scrub {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        match self {
            Scrub::Start(command) => return command.run(global),
            Scrub::Status(command) => command.run(global)?,
            Scrub::Cancel(command) => command.run(global)?,
            Scrub::Schedule(command) => command.run(global)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl From<ScrubError> for Failure {
    fn from(error: ScrubError) -> Self {
        let kind = match &error {
            ScrubError::Io(_, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                FailureKind::Permission
            }
            _ => FailureKind::Failed,
        };
        Failure::new(kind, error.to_string())
    }
}
