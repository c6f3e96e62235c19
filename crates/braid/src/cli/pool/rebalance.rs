use super::change::Target;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::planner::Change;
use clap::Args;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool rebalance data")]
pub struct Rebalance {
    #[command(flatten)]
    target: Target,
}

impl Rebalance {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target.change(global, None, |_| Ok(Change::Rebalance))
    }
}
