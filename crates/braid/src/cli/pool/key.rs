//! `braid pool key`: the keys of an encrypted pool. All its disks have the same ones.

mod add;
mod change;
mod erase;
mod list;
mod remove;
mod sheet;

use crate::cli::Global;
use crate::cli::failure::Failure;
use clap::Subcommand;

/// What can be done with keys.
#[derive(Subcommand)]
#[command(
    after_help = "Examples:\n  braid pool key list data\n  braid pool key add data\n  braid pool key change data\n  braid pool key remove data\n  braid pool key erase data /dev/sdd\n  braid pool key sheet data | lpr\n\nAfter each change the backups of the LUKS headers are renewed: with an old one, a removed key would still open the disk."
)]
pub enum Key {
    /// List the key slots of each disk
    List(list::List),
    /// Add a key: a passphrase, a key file, or one that is made now and shown
    Add(add::Add),
    /// Change a passphrase
    Change(change::Change),
    /// Remove a key
    Remove(remove::Remove),
    /// Erase all keys on a disk that has left the pool, so that nobody can read its data
    Erase(erase::Erase),
    /// Print the recovery sheet: the key, and how to read the disks with it
    Sheet(sheet::Sheet),
}

impl Key {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Key::List(command) => command.run(global),
            Key::Add(command) => command.run(global),
            Key::Change(command) => command.run(global),
            Key::Remove(command) => command.run(global),
            Key::Erase(command) => command.run(global),
            Key::Sheet(command) => command.run(global),
        }
    }
}
