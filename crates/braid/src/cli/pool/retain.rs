use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, print_line};
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_pool::retention::Policy;
use braid_replica::retain::{self, Verdict};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool retain /data/.snapshots --policy '1x1h(keep=all) | 24x1h | 14x1d' --dry-run
  braid pool retain /data/.snapshots --policy '24x1h | 14x1d | 12x30d' --yes

The newest snapshot of each subvolume stays, and so does the one that the next
difference to a replica is made against.")]
pub struct Retain {
    #[command(flatten)]
    _json: JsonFlag,
    /// The folder with the snapshots
    folder: PathBuf,
    /// How many to keep of what age, from now into the past
    #[arg(long, value_name = "POLICY")]
    policy: Policy,
    /// Only show which rule keeps each snapshot
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct Report {
    deleted: usize,
    snapshots: Vec<Verdict>,
}

impl Retain {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let snapshots = retain::judge(&self.folder, &self.policy)?;
        let going = snapshots.iter().filter(|verdict| !verdict.keep).count();
        if !global.json && !snapshots.is_empty() {
            print_line(&table(&snapshots))?;
        }
        if going > 0 && !self.dry_run && !self.yes {
            confirm()?;
        }
        let deleted = match self.dry_run {
            true => 0,
            false => retain::carry_out(&self.folder, &snapshots)?,
        };
        let report = Report { deleted, snapshots };
        global.print(&report, || match self.dry_run {
            true => format!("{going} would be deleted"),
            false => format!("{deleted} deleted"),
        })
    }
}

fn table(verdicts: &[Verdict]) -> String {
    let mut rows = vec![["SNAPSHOT", "", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(verdicts.iter().map(|verdict| {
        let because: Vec<String> = verdict.because.iter().map(ToString::to_string).collect();
        let word = if verdict.keep { "keep" } else { "delete" };
        vec![verdict.name.to_string(), word.to_owned(), because.join("; ")]
    }));
    columns(&rows).join("\n")
}
