use super::consent::Consent;
use crate::cli::failure::{Failure, print_line, tell};
use crate::cli::status_table::columns;
use crate::cli::{Global, JsonFlag};
use braid_pool::retention::{Policy, Reason};
use braid_replica::retain::{self, Decision};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool retain /data/.snapshots --policy '1x1h(keep=all) | 24x1h | 14x1d' --dry-run
  braid pool retain /data/.snapshots --policy '24x1h | 14x1d | 12x30d' --yes

The newest snapshot of each subvolume is kept, and so is the one that the next incremental \
replication builds on. Ages are counted from the newest snapshot; snapshots dated in the future \
are ignored. With --yes alone nothing is deleted if a new policy or a clock jump would delete \
most snapshots at once.")]
pub struct Retain {
    #[command(flatten)]
    _json: JsonFlag,
    /// The folder with the snapshots
    folder: PathBuf,
    /// How many snapshots to keep of each age
    #[arg(long, value_name = "POLICY")]
    policy: Policy,
    /// Show which rule keeps each snapshot without deleting any
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// With --yes: allow deleting most of the snapshots at once
    #[arg(long)]
    allow_mass_deletion: bool,
}

#[derive(Serialize)]
struct Report {
    deleted: usize,
    /// Why `--allow-mass-deletion` is required.
    cautions: Vec<String>,
    snapshots: Vec<Decision>,
}

impl Retain {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let now = SystemTime::now();
        let (folder, policy) = (&self.folder, &self.policy);
        let snapshots = retain::judge(folder, policy, now)?;
        if snapshots.is_empty() {
            // A mistyped name must not look like successfully thinned snapshots.
            return Err(Failure::failed(format!("no snapshots in {}", folder.display())));
        }
        let cautions = retain::cautions(folder, policy, &snapshots, now)?;
        let cautions: Vec<String> = cautions.iter().map(ToString::to_string).collect();
        let going = snapshots.iter().filter(|decision| !decision.keep).count();
        let future: Vec<&Decision> =
            snapshots.iter().filter(|one| one.because.contains(&Reason::Future)).collect();
        if !global.json {
            print_line(&table(&snapshots))?;
        }
        if let Some(first) = future.first() {
            tell(&format!(
                "ignored {} dated in the future ({}): delete by hand what a wrong clock made, or \
                 correct the clock",
                counted(future.len()),
                first.name
            ));
        }
        let Self { dry_run, yes, allow_mass_deletion, .. } = *self;
        Consent { dry_run, yes, allow_mass_deletion }.obtain(&cautions, going)?;
        let deleted = match self.dry_run {
            true => 0,
            false => retain::carry_out(folder, policy, &snapshots)?,
        };
        let report = Report { deleted, cautions, snapshots };
        global.print(&report, || match self.dry_run {
            true => format!("{going} would be deleted"),
            false => format!("{deleted} deleted"),
        })
    }
}

fn counted(snapshots: usize) -> String {
    match snapshots {
        1 => "1 snapshot is".to_owned(),
        many => format!("{many} snapshots are"),
    }
}

fn table(decisions: &[Decision]) -> String {
    let mut rows = vec![["SNAPSHOT", "", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(decisions.iter().map(|decision| {
        let because: Vec<String> = decision.because.iter().map(ToString::to_string).collect();
        let word = if decision.keep { "keep" } else { "delete" };
        vec![decision.name.to_string(), word.to_owned(), because.join("; ")]
    }));
    columns(&rows).join("\n")
}
