//! `braid pool backup`: encrypted copies elsewhere, in restic's format.

mod access;
mod check;
mod drill;
mod forget;
mod init;
mod leave;
mod list;
mod lock;
mod repair;
mod restore;
mod run;
mod sheet;

use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind};
use braid_backup::Error;
use clap::{Args, Subcommand};
use std::io;
use std::process::ExitCode;

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  braid pool backup init s3://s3.example.org/photos
  braid pool backup /srv/photos s3://s3.example.org/photos
  braid pool backup list s3://s3.example.org/photos
  braid pool backup restore s3://s3.example.org/photos latest --to /srv/back
  braid pool backup check --read 5 sftp:me@nas:/backup
  braid pool backup repair --dry-run sftp:me@nas:/backup
  braid pool backup sheet s3://s3.example.org/photos   # print it, keep it elsewhere

Targets are s3://HOST/BUCKET[/PREFIX] (s3:http://… without TLS),
sftp:[USER@]HOST:PATH, rest:https://HOST/ and a folder: repositories of restic,
readable without Braid. S3's credentials are AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, in the environment or in /etc/braid/backup.env.
If interrupted, repeat the command: it continues with what has arrived.

Exit codes: 0 done and verified at the target; 1 failed, or files could not be read"
)]
pub struct Backup {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: run::Run,
}

#[derive(Subcommand)]
enum Action {
    /// Prepare a target, and make the key if there is none
    Init(init::Init),
    /// List the backups at a target, or what is in one
    List(list::List),
    /// Check that everything that backups need is at the target
    Check(check::Check),
    /// Repair a damaged target: keep what can be read; the next backup sends the rest again
    Repair(repair::Repair),
    /// Restore a backup, or a file or folder from one
    Restore(restore::Restore),
    /// Restore randomly chosen files and compare them with their originals
    Drill(drill::Drill),
    /// Delete old backups by policy, and the data that only they needed
    Forget(forget::Forget),
    /// Lock what is at a target, so that nobody can delete it for some time
    Lock(lock::Lock),
    /// No longer mind what is at a target; nothing there is deleted
    Leave(leave::Leave),
    /// Print the recovery sheet: the target, the key, and how to restore with them
    Sheet(sheet::Sheet),
}

impl Backup {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        match &self.action {
            None => return self.run.run(global),
            Some(Action::Init(command)) => command.run(global)?,
            Some(Action::List(command)) => command.run(global)?,
            Some(Action::Check(command)) => return command.run(global),
            Some(Action::Repair(command)) => return command.run(global),
            Some(Action::Restore(command)) => command.run(global)?,
            Some(Action::Drill(command)) => return command.run(global),
            Some(Action::Forget(command)) => command.run(global)?,
            Some(Action::Lock(command)) => command.run(global)?,
            Some(Action::Leave(command)) => command.run(global)?,
            Some(Action::Sheet(command)) => command.run(global)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Io { doing, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                Failure::io(doing, error)
            }
            Error::WrongKey { .. } => Failure::new(FailureKind::Config, error.to_string()),
            _ => Failure::failed(error.to_string()),
        }
    }
}
