use super::change::Target;
use super::encrypt::Encrypt;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::planner::Change;
use clap::Args;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool add data /dev/sdd")]
pub struct Add {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    encrypt: Encrypt,
    /// Disks or partitions: path, link or serial number
    #[arg(required = true, value_name = "DISK")]
    disks: Vec<String>,
    /// Destroy all data on the disk with this serial number (repeat for each disk)
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
}

impl Add {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target.change(global, Some(&self.encrypt), |seen| {
            let disks = seen.disks(&self.disks)?;
            let erase = seen.permission(&self.erase, &disks)?;
            Ok(Change::Add { disks, erase })
        })
    }
}
