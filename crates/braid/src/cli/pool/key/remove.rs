use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, tell};
use crate::cli::pool::encrypt::line_of;
use crate::cli::pool::pool_key::PoolKey;
use crate::cli::pool::secret::{self, Secret};
use crate::cli::pool::seen::Seen;
use crate::cli::pool::volumes::{run, usage};
use braid_pool::luks::{KeySlot, LuksVolume};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use zeroize::Zeroizing;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool key remove data                 # asks for the passphrase that is to go\n  braid pool key remove data --old-key-file /media/stick/data.key\n  braid pool key remove data --slot 2 --disk /dev/sdb   # a key that nobody has any more\n\nA disk's last key is removed only with --last POOL; nobody can read the disk after that."
)]
pub struct Remove {
    #[command(flatten)]
    key: PoolKey,
    /// Read the passphrase to remove from this file (- for standard input) instead of asking
    #[arg(long, value_name = "FILE", group = "old")]
    old_passphrase_file: Option<PathBuf>,
    /// Remove the key that this file contains
    #[arg(long, value_name = "FILE", group = "old")]
    old_key_file: Option<PathBuf>,
    /// The slot to remove: from --disk, or from every disk if a TPM or a Tang server provides its
    /// key
    #[arg(long, value_name = "NUMBER", group = "old")]
    slot: Option<u32>,
    /// Only from this disk: path, link or serial number
    #[arg(long, value_name = "DISK")]
    disk: Option<String>,
    /// Remove this pool's last key, too: all its data is lost
    #[arg(long, value_name = "POOL")]
    last: Option<String>,
    /// Don't ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Show what would be removed without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (seen, volumes) = self.key.changeable()?;
        let name = &self.key.name;
        let chosen = self.chosen(&seen, &volumes)?;
        let lent = match (self.slot, &self.old_key_file) {
            (None, None) => {
                let file = self.old_passphrase_file.as_deref();
                let question = format!("Passphrase to remove from pool {name}: ");
                Some(Secret::given(file, &question)?.lend(&format!("{name}+old"))?)
            }
            _ => None,
        };
        let file = self.old_key_file.as_ref().map(|file| file.display().to_string());
        let old = lent.as_ref().map(|lent| lent.text()).or(file);
        let mut having: Vec<&LuksVolume> = Vec::new();
        for volume in chosen {
            let has = match (self.slot, &old) {
                (Some(slot), _) => volume.slots.iter().any(|each| each.number == slot),
                (None, Some(old)) => secret::opens(old, &volume.path)?,
                (None, None) => false,
            };
            if has {
                having.push(volume);
            }
        }
        if having.is_empty() {
            return Err(Failure::failed(format!("no disk of pool {name} has that key")));
        }
        let last: Vec<&str> = having
            .iter()
            .filter(|volume| volume.slots.len() < 2)
            .map(|volume| volume.path.as_str())
            .collect();
        if !last.is_empty() && self.last.as_ref() != Some(name) {
            return Err(usage(format!(
                "that is the last key of {}: without it nobody can read what is stored. Add \
                 another one first, or give --last {name}",
                last.join(", ")
            )));
        }
        let boots_by_it = having.iter().any(|volume| {
            let key = line_of(volume, &seen.host).and_then(|line| line.key_file);
            key.zip(old.as_deref()).is_some_and(|(key, old)| holds_the_same(key, old))
        });
        if boots_by_it {
            tell(
                "note: /etc/crypttab opens the pool with this key file: it will stay locked after \
                 a boot",
            );
        }
        let paths: Vec<&str> = having.iter().map(|volume| volume.path.as_str()).collect();
        let what = format!("remove the key from {}", paths.join(", "));
        if self.dry_run {
            return global.print(&json!({ "disks": paths, "done": false }), || what);
        }
        if !self.yes {
            tell(&what);
            confirm()?;
        }
        let done = removed(&having, self.slot, old.as_deref());
        // Save them even if it failed on some: the old headers of the others have the key.
        let saved = self.key.saved(&volumes);
        done?;
        saved?;
        let value = json!({ "disks": paths, "done": true });
        global.print(&value, || format!("removed from {} disks", paths.len()))
    }
}

impl Remove {
    /// The disks from which to remove the key. A slot's number doesn't identify a key: a disk that
    /// was added later has the same keys in other slots.
    fn chosen<'a>(
        &self,
        seen: &Seen,
        volumes: &'a [LuksVolume],
    ) -> Result<Vec<&'a LuksVolume>, Failure> {
        if let Some(disk) = &self.disk {
            let path = &seen.inventory.find(disk)?.path;
            let of_disk = |volume: &&LuksVolume| {
                volume.path == *path || volume.open.as_ref().is_some_and(|open| open.node == *path)
            };
            return match volumes.iter().find(of_disk) {
                Some(volume) => Ok(vec![volume]),
                None => Err(Failure::failed(format!(
                    "{disk} is not an encrypted disk of pool {}",
                    self.key.name
                ))),
            };
        }
        let is_typed = |volume: &LuksVolume| {
            let is_it = |slot: &&KeySlot| Some(slot.number) == self.slot;
            volume.slots.iter().find(is_it).is_some_and(|slot| slot.token.is_none())
        };
        match volumes.iter().find(|volume| is_typed(volume)) {
            Some(volume) => Err(usage(format!(
                "the key in slot {} of {} isn't provided by a TPM or a server, so each disk may \
                 have a different one there: give --disk, or the key itself by \
                 --old-passphrase-file or --old-key-file",
                self.slot.unwrap_or(0),
                volume.path
            ))),
            None => Ok(volumes.iter().collect()),
        }
    }
}

/// Whether two key files contain the same key. cryptsetup doesn't read more of them than this.
fn holds_the_same(one: &str, other: &str) -> bool {
    const LONGEST: u64 = 8 << 20;
    let read = |path: &str| -> std::io::Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(Vec::new());
        File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    one == other || read(one).ok().zip(read(other).ok()).is_some_and(|(one, other)| one == other)
}

fn removed(having: &[&LuksVolume], slot: Option<u32>, old: Option<&str>) -> Result<(), Failure> {
    for volume in having {
        let path = volume.path.as_str();
        match (slot, old) {
            (Some(slot), _) => {
                let slot = slot.to_string();
                run("cryptsetup", &["luksKillSlot", "--batch-mode", path, &slot])?;
            }
            (None, Some(old)) => {
                run("cryptsetup", &["luksRemoveKey", "--batch-mode", path, old])?;
                if secret::opens(old, path)? {
                    return Err(Failure::failed(format!(
                        "{path} has the same key in another slot, too: repeat the command to \
                         remove it"
                    )));
                }
            }
            (None, None) => {}
        }
    }
    Ok(())
}
