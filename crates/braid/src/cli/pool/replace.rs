use super::change::Target;
use super::encrypt::Encrypt;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_disks::NoSuchDisk;
use braid_pool::planner::{self, Change};
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool replace data missing /dev/sdd\n  braid pool replace data /dev/sdb /dev/sdd\n  braid pool replace data missing /dev/sdd --lend /dev/sde"
)]
pub struct Replace {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    encrypt: Encrypt,
    /// The member to replace: path, serial number, devid or slot, or `missing`
    old: String,
    /// The new disk: path, link or serial number
    new: String,
    /// A disk to use temporarily when the remaining disks of a btrfs are full: it is removed at the
    /// end, or stays until you remove it, as the plan says
    #[arg(long, value_name = "DISK")]
    lend: Option<String>,
    /// Destroy all data on the disk with this serial number
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
}

impl Replace {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target.change(global, Some(&self.encrypt), |seen| {
            let member = seen.member(&self.old);
            planner::check_member(seen.pool(self.target.name())?, &member)?;
            let names: Vec<String> =
                std::iter::once(&self.new).chain(&self.lend).cloned().collect();
            let both = seen.disks(&names)?;
            let erase = seen.permission(&self.erase, &both)?;
            let mut both = both.into_iter().map(Box::new);
            let Some(by) = both.next() else {
                return Err(NoSuchDisk::Unknown(self.new.clone()).into());
            };
            let lent = both.next();
            Ok(Change::Replace { member, by, lent, erase })
        })
    }
}
