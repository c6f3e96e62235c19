use super::change::Target;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_pool::planner::{Change, MemberName};
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool replace data missing /dev/sdd\n  braid pool replace data /dev/sdb /dev/sdd"
)]
pub struct Replace {
    #[command(flatten)]
    target: Target,
    /// The member that goes: path, serial number, devid or slot, or `missing`
    old: String,
    /// The disk that comes: path, link or serial number
    new: String,
    /// Lose for good what the disk of this serial number carries
    #[arg(long, value_name = "SERIAL")]
    erase: Vec<String>,
}

impl Replace {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.target.change(global, |seen| {
            let by = Box::new(seen.inventory.find(&self.new)?.clone());
            let erase = seen.permission(&self.erase, std::slice::from_ref(&by))?;
            Ok(Change::Replace { member: MemberName(self.old.clone()), by, erase })
        })
    }
}
