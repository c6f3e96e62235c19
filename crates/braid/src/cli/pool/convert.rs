use super::change::Target;
use super::encrypt::Encrypt;
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::offered::Offered;
use braid_pool::layout::Layout;
use braid_pool::planner::Change;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool convert data --layout btrfs-raid1c3\n  braid pool convert films --layout md-raid6 /dev/sde"
)]
pub struct Convert {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    encrypt: Encrypt,
    /// The new layout, such as btrfs-raid1c3
    #[arg(long, value_parser = Offered::<Layout>::new(Layout::ALL), hide_possible_values = true)]
    layout: Layout,
    /// Disks to add for this: path, link or serial number
    #[arg(value_name = "DISK")]
    disks: Vec<String>,
    /// Destroy all data on the disk with this serial number (repeat for each disk)
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
    /// Allow a layout that its own developers call unstable
    #[arg(long)]
    accept_unstable: bool,
}

impl Convert {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target.change(global, Some(&self.encrypt), |seen| {
            let disks = seen.disks(&self.disks)?;
            let erase = seen.permission(&self.erase, &disks)?;
            let (to, accept_unstable) = (self.layout, self.accept_unstable);
            Ok(Change::Convert { to, accept_unstable, disks, erase })
        })
    }
}
