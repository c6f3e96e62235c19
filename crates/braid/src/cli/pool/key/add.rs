use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::pool_key::PoolKey;
use crate::cli::pool::secret::{self, Secret};
use crate::cli::pool::volumes::{Opener, run};
use braid_pool::key_text::{KEY_BYTES, key_text};
use braid_pool::luks::LuksVolume;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use zeroize::Zeroizing;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool key add data\n  braid pool key add data --recovery\n  braid pool key add data --new-key-file /media/stick/data.key\n\nDisks that have the key already are left alone, so an interrupted command can be repeated."
)]
pub struct Add {
    #[command(flatten)]
    key: PoolKey,
    /// Read the new passphrase from this file (- for standard input) instead of asking
    #[arg(long, value_name = "FILE", group = "new")]
    new_passphrase_file: Option<PathBuf>,
    /// Use the contents of this file as the new key
    #[arg(long, value_name = "FILE", group = "new")]
    new_key_file: Option<PathBuf>,
    /// Make a key of 160 random bits and show it, for you to write down
    #[arg(long, group = "new")]
    recovery: bool,
}

impl Add {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (seen, volumes) = self.key.changeable()?;
        let now = self.key.opener(&seen, &volumes)?;
        let recovery = if self.recovery { Some(random_key()?) } else { None };
        let lent = match (&recovery, &self.new_key_file) {
            (Some(text), _) => Some(self.key.lend_new(&Secret::of(text))?),
            (None, Some(_)) => None,
            (None, None) => {
                let new = Secret::new_one(self.new_passphrase_file.as_deref())?;
                Some(self.key.lend_new(&new)?)
            }
        };
        let file = self.new_key_file.as_ref().map(|file| file.display().to_string());
        let new = lent.as_ref().map(|lent| lent.text()).or(file).unwrap_or_default();
        let lacking = self.lacking(&now, &new, &volumes)?;
        self.given_to(&lacking, &now, &new)?;
        if let Err(error) = self.key.saved(&volumes) {
            return Err(taken_back(&lacking, &new, error));
        }
        let value = json!({ "disks": volumes.len(), "key": recovery.as_deref() });
        global.print(&value, || {
            let told = format!("{} disks of pool {} have the key", volumes.len(), self.key.name);
            match &recovery {
                Some(key) => format!("{told}; write it down, it is shown only now:\n{}", **key),
                None => told,
            }
        })
    }
}

impl Add {
    /// The disks that lack the key. All are checked before one is changed.
    fn lacking<'a>(
        &self,
        now: &Opener,
        new: &str,
        volumes: &'a [LuksVolume],
    ) -> Result<Vec<&'a LuksVolume>, Failure> {
        let mut lacking = Vec::new();
        for volume in volumes {
            if secret::opens(new, &volume.path)? {
                continue;
            }
            if !secret::opens(&now.file(), &volume.path)? {
                return Err(Failure::failed(format!(
                    "{} doesn't open {}: nothing was changed",
                    now.called(),
                    volume.path
                )));
            }
            lacking.push(volume);
        }
        Ok(lacking)
    }

    fn given_to(&self, lacking: &[&LuksVolume], now: &Opener, new: &str) -> Result<(), Failure> {
        for (done, volume) in lacking.iter().enumerate() {
            let file = now.file();
            let args = ["luksAddKey", "--batch-mode", "--key-file", &file, &volume.path, new];
            if let Err(error) = run("cryptsetup", &args) {
                return Err(taken_back(lacking.get(..done).unwrap_or_default(), new, error));
            }
        }
        Ok(())
    }
}

/// Removes the key from these disks again, since it couldn't be added to the others, or the headers
/// couldn't be saved: a key that opens only some disks, or that nobody was shown, is worse than
/// none.
fn taken_back(given: &[&LuksVolume], new: &str, error: Failure) -> Failure {
    let still: Vec<&str> = given
        .iter()
        .map(|volume| volume.path.as_str())
        .filter(|path| run("cryptsetup", &["luksRemoveKey", "--batch-mode", path, new]).is_err())
        .collect();
    match still.is_empty() {
        true => Failure::failed(format!("{error}\nno disk has the new key")),
        false => Failure::failed(format!(
            "{error}\nthe new key could not be removed again from {}: `braid pool key list` shows its slot",
            still.join(", ")
        )),
    }
}

fn random_key() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *bytes).map_err(|error| Failure::failed(format!("no random: {error}")))?;
    Ok(Zeroizing::new(key_text(&bytes)))
}
