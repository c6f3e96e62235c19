//! `braid pool header`: backups of the LUKS headers, without which nothing on a disk can be read.

mod backup;
mod restore;

use crate::cli::Global;
use crate::cli::failure::Failure;
use clap::Subcommand;

/// What can be done with headers.
#[derive(Subcommand)]
#[command(
    after_help = "Examples:\n  braid pool header backup data\n  braid pool header backup data --to /media/stick\n  braid pool header restore data /dev/sdb\n\nA backup of a header contains the disk's key slots as they are now: with it, a key of that day opens the disk even after the key was removed."
)]
pub enum HeaderCommand {
    /// Back up the LUKS headers of a pool's disks
    Backup(backup::Backup),
    /// Put a damaged LUKS header back from its backup
    Restore(restore::Restore),
}

impl HeaderCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            HeaderCommand::Backup(command) => command.run(global),
            HeaderCommand::Restore(command) => command.run(global),
        }
    }
}
