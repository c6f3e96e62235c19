use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::pool_key::PoolKey;
use crate::cli::pool::secret::{self, Lent, Secret};
use crate::cli::pool::volumes::{Opener, run, usage};
use braid_pool::luks::LuksVolume;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid pool key change data\n\nIt asks for the old passphrase and the new one. If interrupted, repeat it with the same passphrases. A key file can't be changed: add a new one, name it in /etc/crypttab, remove the old one."
)]
pub struct Change {
    #[command(flatten)]
    key: PoolKey,
    /// Read the new passphrase from this file instead of asking
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
}

impl Change {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        if self.key.key_file.is_some() {
            return Err(usage(
                "a key file can't be changed: `key add --new-key-file`, then `key remove`",
            ));
        }
        let (_, volumes) = self.key.changeable()?;
        let name = &self.key.name;
        let question = format!("Current passphrase of pool {name}: ");
        let old = Secret::given(self.key.passphrase_file.as_deref(), &question)?.lend(name)?;
        let new = self.key.lend_new(&Secret::new_one(self.new_passphrase_file.as_deref())?)?;
        if old.is_same(&new)? {
            return Err(usage("the new passphrase equals the old one: nothing was changed"));
        }
        // All are checked first: a mistyped passphrase changes nothing.
        let (mut to_change, mut to_finish) = (Vec::new(), Vec::new());
        for volume in &volumes {
            match (old.opens(&volume.path)?, new.opens(&volume.path)?) {
                (true, false) => to_change.push(volume),
                // cryptsetup was interrupted after it had added the new one.
                (true, true) => to_finish.push(volume),
                (false, true) => {}
                (false, false) => {
                    let called = Opener::Passphrase(old).called().to_owned();
                    return Err(Failure::failed(format!(
                        "{called} doesn't open {}: nothing was changed",
                        volume.path
                    )));
                }
            }
        }
        let done = changed(&to_change, &to_finish, &old, &new);
        // Save them even if it failed on some: the old headers of the others have the old
        // passphrase.
        let saved = self.key.saved(&volumes);
        done?;
        saved?;
        let changed = to_change.len() + to_finish.len();
        let value = json!({ "disks": volumes.len(), "changed": changed });
        global.print(&value, || {
            format!("{} disks of pool {name} have the new passphrase", volumes.len())
        })
    }
}

fn changed(
    to_change: &[&LuksVolume],
    to_finish: &[&LuksVolume],
    old: &Lent,
    new: &Lent,
) -> Result<(), Failure> {
    let (old, new) = (old.text(), new.text());
    for volume in to_change {
        let args = ["luksChangeKey", "--batch-mode", "--key-file", &old, &volume.path, &new];
        run("cryptsetup", &args).map_err(|error| {
            Failure::failed(format!(
                "{error}\nsome disks may already have the new passphrase: repeat the command to finish"
            ))
        })?;
        if !secret::opens(&new, &volume.path)? {
            return Err(Failure::failed(format!(
                "the new passphrase doesn't open {}",
                volume.path
            )));
        }
    }
    for volume in to_finish {
        run("cryptsetup", &["luksRemoveKey", "--batch-mode", &volume.path, &old])?;
    }
    Ok(())
}
