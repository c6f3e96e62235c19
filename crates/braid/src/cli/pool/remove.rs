use super::change::Target;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::planner::Change;
use clap::Args;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool remove data /dev/sdd")]
pub struct Remove {
    #[command(flatten)]
    target: Target,
    /// The member to remove: path, serial number, devid or slot, or `missing`
    #[arg(value_name = "DISK")]
    member: String,
}

impl Remove {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target
            .change(global, None, |seen| Ok(Change::Remove { member: seen.member(&self.member) }))
    }
}
