//! `braid pool key`: what opens an encrypted pool. All its disks have the same keys.

mod add;
mod change;
mod list;
mod remove;
mod sheet;

use super::carry_out::Place;
use super::encrypt::{headers, line_of};
use super::secret::{Lent, Secret};
use super::seen::Seen;
use super::volumes::{self, Opener, back_up_headers};
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_pool::luks::{Header, LuksVolume};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What can be done with keys.
#[derive(Subcommand)]
#[command(
    after_help = "Examples:\n  braid pool key list data\n  braid pool key add data\n  braid pool key change data\n  braid pool key remove data\n  braid pool key sheet data | lpr\n\nAfter each change the backups of the LUKS headers are made anew: with an old one,\na key that was removed would still open the disk."
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
            Key::Sheet(command) => command.run(global),
        }
    }
}

/// Which pool, and a key that opens it now.
#[derive(Args)]
struct Present {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: String,
    /// Read the passphrase that opens it now from this file (- for standard input) instead of
    /// asking, or using the key file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// A key file that opens it now, if not the one that /etc/crypttab names
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

impl Present {
    /// The pool's disks.
    fn volumes(&self) -> Result<(Seen, Vec<LuksVolume>), Failure> {
        let seen = Seen::now(&self.place.config());
        let volumes = volumes::of_pool(&seen, &self.name)?;
        Ok((seen, volumes))
    }

    /// The same, each with a header whose keys can be changed; on some only would be worse than on
    /// none.
    fn changeable(&self) -> Result<(Seen, Vec<LuksVolume>), Failure> {
        let (seen, volumes) = self.volumes()?;
        if let Some(bad) = volumes.iter().find(|volume| volume.header == Header::Gone) {
            return Err(Failure::failed(format!(
                "the LUKS header on {0} is destroyed: first `braid pool header restore {1} {0}`",
                bad.path, self.name
            )));
        }
        Ok((seen, volumes))
    }

    fn opener(&self, seen: &Seen, volumes: &[LuksVolume]) -> Result<Opener, Failure> {
        let (key, passphrase) = (self.key_file.as_deref(), self.passphrase_file.as_deref());
        Opener::find(seen, &self.name, volumes, key, passphrase)
    }

    /// What opens it, if that is a file: a passphrase isn't asked for.
    fn opener_if_file(
        &self,
        seen: &Seen,
        volumes: &[LuksVolume],
    ) -> Result<Option<Opener>, Failure> {
        let named = volumes.iter().find_map(|volume| line_of(volume, &seen.host)?.key_file);
        match self.key_file.is_some() || named.is_some() {
            true => self.opener(seen, volumes).map(Some),
            false => Ok(None),
        }
    }

    /// Saves the headers as they are now.
    fn saved(&self, volumes: &[LuksVolume]) -> Result<(), Failure> {
        back_up_headers(&headers(&self.place, &self.name)?, volumes).map(drop).map_err(|error| {
            Failure::failed(format!(
                "{error}\nthe backups of the headers still have the keys as they were: `braid pool header backup {}` makes them anew",
                self.name
            ))
        })
    }

    /// Lends a further secret, beside the one that opens the pool now; `+` is in no pool's name.
    fn lend_new(&self, secret: &Secret) -> Result<Lent, Failure> {
        secret.lend(&format!("{}+new", self.name))
    }
}
