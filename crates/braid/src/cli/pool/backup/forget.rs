use super::super::consent::Consent;
use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::{Failure, print_line};
use crate::cli::status_table::columns;
use braid_backup::{Forgotten, Target, Vault, short_id};
use braid_pool::retention::Policy;
use braid_replica::timestamp;
use clap::Args;
use serde_json::json;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup forget s3://s3.example.org/photos --policy '30x1d | 12x30d' --dry-run
  braid pool backup forget s3://s3.example.org/photos --policy '30x1d | 12x30d' --yes

The newest backup of each computer and path stays. With --yes alone nothing is
deleted when that would take most at once by a new policy, or by a leap of the
clock. Data is removed a day after nothing needs it any more, since another
computer may just be using it, and nothing that is younger than a day. A target that only appends refuses; there its
own rules remove what is old.")]
pub struct Forget {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// How many backups to keep of each age, as in `braid pool retain`
    #[arg(long, value_name = "POLICY")]
    policy: Policy,
    /// Show which rule keeps each backup without deleting any
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// With --yes: allow deleting most of the backups at once
    #[arg(long)]
    allow_mass_deletion: bool,
    #[command(flatten)]
    access: Access,
}

impl Forget {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let (vault, _) = self.access.open(&self.target)?;
        let now = access::now();
        let backups = vault.judge(&self.policy, now)?;
        let policy = self.policy.to_string();
        let is_known = record.policy.as_deref() == Some(policy.as_str());
        let cautions: Vec<String> =
            Vault::cautions(&backups, is_known, now).iter().map(ToString::to_string).collect();
        let going = backups.iter().filter(|one| !one.keep).count();
        if !global.json && !backups.is_empty() {
            print_line(&table(&backups))?;
        }
        let Self { dry_run, yes, allow_mass_deletion, .. } = *self;
        Consent { dry_run, yes, allow_mass_deletion }.obtain(&cautions, going)?;
        let made_here: Vec<&str> =
            record.sources.values().filter_map(|source| source.snapshot.as_deref()).collect();
        let deleted = if self.dry_run { 0 } else { vault.forget(&backups, &made_here)? };
        let kept = match self.dry_run {
            true => Ok(()),
            false => {
                record.policy = Some(policy);
                records.keep(&record)
            }
        };
        let report = json!({ "deleted": deleted, "cautions": cautions, "backups": backups });
        global.print(&report, || match self.dry_run {
            true => format!("{going} would be deleted"),
            false => format!("{deleted} deleted"),
        })?;
        access::noted(kept)
    }
}

fn table(backups: &[Forgotten]) -> String {
    let mut rows = vec![["ID", "MADE", "", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(backups.iter().map(|one| {
        let because: Vec<String> = one.because.iter().map(ToString::to_string).collect();
        vec![
            short_id(&one.backup.id).to_owned(),
            timestamp::shown(SystemTime::UNIX_EPOCH + one.backup.taken),
            if one.keep { "keep" } else { "delete" }.to_owned(),
            because.join("; "),
        ]
    }));
    columns(&rows).join("\n")
}
