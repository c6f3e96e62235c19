use super::change::Target;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::layout::Layout;
use braid_pool::planner::Change;
use clap::Args;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool convert data --layout btrfs-raid1c3")]
pub struct Convert {
    #[command(flatten)]
    target: Target,
    /// The new layout, such as btrfs-raid1c3
    #[arg(long)]
    layout: Layout,
    /// Take a layout that its own makers call unstable
    #[arg(long)]
    accept_unstable: bool,
}

impl Convert {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let change = Change::Convert { to: self.layout, accept_unstable: self.accept_unstable };
        self.target.change(global, |_| Ok(change))
    }
}
