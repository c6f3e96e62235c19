use super::PoolNames;
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_disks::HostRoot;
use braid_runner::scrub;
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool scrub cancel photos")]
pub struct Cancel {
    #[command(flatten)]
    _json: JsonFlag,
    #[command(flatten)]
    pools: PoolNames,
    /// Show what would be stopped without stopping it
    #[arg(long)]
    dry_run: bool,
}

impl Cancel {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let host = HostRoot::real();
        let mut said = Vec::new();
        let mut reports = Vec::new();
        for pool in self.pools.required()? {
            let stopped = match self.dry_run {
                true => false,
                false => scrub::cancel(&host, &pool)?,
            };
            let word = match (self.dry_run, stopped) {
                (true, _) => "a scrub would be stopped",
                (false, true) => "scrub stopped",
                (false, false) => "no scrub was running",
            };
            said.push(format!("{}: {word}", pool.name()));
            reports.push(json!({ "pool": pool.name(), "uuid": pool.uuid(), "stopped": stopped }));
        }
        global.print(&reports, || said.join("\n"))
    }
}
