use super::carry_out::StateFolders;
use super::examined::{Examined, render};
use super::watch_memory;
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_disks::AskSmart;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool doctor\n  braid pool doctor photos --json | jq -r '.findings[].mend'\n\nExit codes: 0 nothing wrong, 10 something should be fixed, 11 redundancy is lost or data is in danger, 12 data can't be reached"
)]
pub struct Doctor {
    #[command(flatten)]
    _json: JsonFlag,
    /// Only these pools, by name or UUID
    #[arg(value_name = "POOL")]
    names: Vec<String>,
    /// Skip the disks' own health reports (SMART), which take a while
    #[arg(long)]
    no_smart: bool,
    /// State file of `braid pool watch`; error counters are compared with those in it
    #[arg(long, value_name = "FILE", default_value = watch_memory::DEFAULT)]
    state: PathBuf,
    #[command(flatten)]
    place: StateFolders,
}

impl Doctor {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let ask_smart = if self.no_smart { AskSmart::No } else { AskSmart::Yes };
        let memory = watch_memory::read(&self.state)?;
        let examined = Examined::now(&self.names, ask_smart, &memory.errors, &self.place)?;
        global.print(&json!({ "findings": examined.findings }), || {
            match (examined.findings.as_slice(), examined.pools.len()) {
                ([], 0) => "no pools".to_owned(),
                ([], 1) => "1 pool, nothing wrong".to_owned(),
                ([], count) => format!("{count} pools, nothing wrong"),
                (findings, _) => findings.iter().map(render).collect::<Vec<_>>().join("\n"),
            }
        })?;
        Ok(examined.health().into())
    }
}
