use super::carry_out::StateFolders;
use super::open::pool_of;
use super::seen::Seen;
use super::volumes::{self, run};
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_pool::luks::{Header, LuksVolume};
use braid_pool::observed::ObservedPool;
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::Read;

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid pool close data\n\nUnmounts the pool and locks its disks; what is on them stays."
)]
pub struct Close {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: String,
    #[command(flatten)]
    place: StateFolders,
}

impl Close {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let seen = Seen::now(&self.place.config());
        let volumes = volumes::with_label(&seen, &self.name)?;
        // Once it is closed, a header can't be restored from what the kernel has in memory. A dead
        // or removed disk has nothing to restore to.
        let is_gone = |volume: &&LuksVolume| {
            volume.open.is_some() && volume.header == Header::Gone && can_be_read(&volume.path)
        };
        if let Some(gone) = volumes.iter().find(is_gone) {
            return Err(Failure::failed(format!(
                "the LUKS header on {0} is destroyed, so once closed it could not be opened again: \
                 run `braid pool header restore {1} {0}` first",
                gone.path, self.name
            )));
        }
        if let Some(pool) = pool_of(&seen, &volumes) {
            let mut mounts: Vec<&str> =
                pool.mounts().iter().map(|mount| mount.at.as_str()).collect();
            // Nested mounts are unmounted first.
            mounts.sort_by_key(|at| std::cmp::Reverse(at.len()));
            for at in mounts {
                run("umount", &[at])?;
            }
            if let ObservedPool::Md(md) = pool
                && let Some(path) = md.path()
            {
                run("mdadm", &["--stop", &path])?;
            }
        }
        let open: Vec<&str> =
            volumes.iter().filter_map(|volume| Some(volume.open.as_ref()?.name.as_str())).collect();
        for name in &open {
            run("cryptsetup", &["close", name])?;
        }
        let value = json!({ "closed": open.len() });
        global.print(&value, || format!("pool {} is locked", self.name))
    }
}

/// Whether the disk can be read where its header was.
fn can_be_read(path: &str) -> bool {
    let mut block = [0; 4096];
    File::open(path).and_then(|mut disk| disk.read_exact(&mut block)).is_ok()
}
