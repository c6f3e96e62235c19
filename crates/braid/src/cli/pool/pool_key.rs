use super::carry_out::StateFolders;
use super::encrypt::{headers, line_of};
use super::secret::{Lent, Secret};
use super::seen::Seen;
use super::volumes::{self, Opener, Sorted, back_up_headers};
use crate::cli::JsonFlag;
use crate::cli::failure::Failure;
use braid_pool::luks::{Header, LuksVolume};
use clap::Args;
use std::path::PathBuf;

/// Which pool, and a key that opens it.
#[derive(Args)]
pub struct PoolKey {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name, or its UUID if two pools have the same name
    pub name: String,
    /// Read the passphrase from this file (- for standard input) instead of asking, or using the
    /// key file
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// The key file, if not the one that /etc/crypttab names
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    pub place: StateFolders,
}

impl PoolKey {
    /// The current state of the host.
    pub fn seen(&self) -> Seen {
        Seen::now(&self.place.config())
    }

    /// The disks with the pool's label, sorted into members and others.
    pub fn sorted(&self, seen: &Seen) -> Result<Sorted, Failure> {
        volumes::sorted(seen, &self.name, &self.place)
    }

    /// The pool's disks.
    pub fn volumes(&self) -> Result<(Seen, Vec<LuksVolume>), Failure> {
        let seen = self.seen();
        let volumes = self.sorted(&seen)?.members;
        Ok((seen, volumes))
    }

    /// The same, if the keys of every header can be changed; changing only some would be worse than
    /// none.
    pub fn changeable(&self) -> Result<(Seen, Vec<LuksVolume>), Failure> {
        let (seen, volumes) = self.volumes()?;
        if let Some(bad) = volumes.iter().find(|volume| volume.header == Header::Gone) {
            return Err(Failure::failed(format!(
                "the LUKS header on {0} is destroyed: run `braid pool header restore {1} {0}` \
                 first",
                bad.path, self.name
            )));
        }
        Ok((seen, volumes))
    }

    /// The key for these disks.
    pub fn opener(&self, seen: &Seen, volumes: &[LuksVolume]) -> Result<Opener, Failure> {
        let (key, passphrase) = (self.key_file.as_deref(), self.passphrase_file.as_deref());
        Opener::find(seen, &self.name, volumes, key, passphrase)
    }

    /// The key, if it is a file; doesn't ask for a passphrase.
    pub fn opener_if_file(
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
    pub fn saved(&self, volumes: &[LuksVolume]) -> Result<(), Failure> {
        let name = volumes::name_of(volumes, &self.name);
        back_up_headers(&headers(&self.place, name)?, volumes).map(drop).map_err(|error| {
            Failure::failed(format!(
                "{error}\nthe header backups still contain the old keys: `braid pool header backup {name}` renews them"
            ))
        })
    }

    /// Lends another secret besides the one that opens the pool now; no pool's name contains `+`.
    pub fn lend_new(&self, secret: &Secret) -> Result<Lent, Failure> {
        secret.lend(&format!("{}+new", self.name))
    }
}
