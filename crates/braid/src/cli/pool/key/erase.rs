use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, tell};
use crate::cli::pool::carry_out::Consent;
use crate::cli::pool::seen::Seen;
use crate::cli::pool::volumes::{self, run};
use braid_disks::superblock::luks;
use braid_pool::luks::{HEADER_BYTES, LuksVolume};
use braid_pool::membership::{Membership, Standing};
use clap::Args;
use serde_json::json;
use std::path::Path;

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid pool key erase data /dev/sdd\n\nFor a disk whose keys couldn't be erased when it was replaced or removed. A disk that\nis, or may be, a member of the pool is refused."
)]
pub struct Erase {
    #[command(flatten)]
    consent: Consent,
    /// The pool's name
    name: String,
    /// The disk: path, link or serial number
    disk: String,
}

impl Erase {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let volume = self.volume()?;
        let path = volume.path.as_str();
        let unsure = match volume.pool_uuid {
            Some(_) => String::new(),
            None => format!(
                "\nIt doesn't say which pool called {} it belonged to: make sure.",
                self.name
            ),
        };
        let what = format!(
            "erase all keys on {path} (disk {}): nobody can read its data after that{unsure}",
            volume.disk
        );
        let value = |erased: bool| json!({ "disk": path, "id": volume.disk, "erased": erased });
        if self.consent.dry_run() {
            return global.print(&value(false), || what);
        }
        self.consent.confirmed(|| {
            tell(&what);
            confirm()
        })?;
        run("blkdiscard", &["--zeroout", "--length", &HEADER_BYTES.to_string(), path])?;
        let left = luks::read(Path::new(path))
            .map_err(|error| Failure::io(&format!("reading {path}"), &error))?;
        match left {
            Some(_) => Err(Failure::failed(format!("the keys are still on {path}"))),
            None => global.print(&value(true), || format!("the keys on {path} are erased")),
        }
    }

    /// The volume on the disk, which must certainly not be part of the pool.
    fn volume(&self) -> Result<LuksVolume, Failure> {
        let seen = Seen::now(&self.consent.place.config());
        let (disk, name) = (seen.inventory.find(&self.disk)?, self.name.as_str());
        let mut all = volumes::with_label(&seen, name)?.into_iter();
        let refused = |why: String| Err(Failure::failed(format!("{}: {why}", disk.path)));
        let Some(volume) = all.find(|volume| volume.path == disk.path) else {
            return refused(format!("it has no keys of a pool called {name}"));
        };
        let recorded = volumes::recorded(&seen.host, &self.consent.place)?;
        match Membership::new(name, &seen.pools, &seen.host, &recorded).of(&volume) {
            Standing::Member => refused(format!(
                "it is a member of pool {name}; `braid pool replace` or `remove` takes it out and \
                 erases its keys"
            )),
            Standing::OfAnother => refused("it belongs to another pool of that name".to_owned()),
            Standing::Unknown => refused(format!(
                "it may be a member of pool {name}: open the complete pool first, so that this can \
                 be ruled out"
            )),
            Standing::Former => match &volume.open {
                Some(open) => {
                    refused(format!("it is open: first `cryptsetup close {}`", open.name))
                }
                None => Ok(volume),
            },
        }
    }
}
