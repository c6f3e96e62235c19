use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, FailureKind};
use braid_backup::records::{Locking, Record, Records};
use braid_backup::{Error, Locked, Target, Vault};
use braid_pool::upkeep::LockSpan;
use braid_replica::timestamp;
use clap::Args;
use serde_json::json;
use std::time::{Duration, SystemTime};

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup lock s3://s3.example.org/photos --for 90d --dry-run
  braid pool backup lock s3://s3.example.org/photos --for 90d
  braid pool backup lock s3://s3.example.org/photos        # prolong, as each backup does
  braid pool backup lock s3://s3.example.org/photos --off  # don't prolong any more

The bucket needs object lock, which is enabled when it is created. From then on everything that \
the backups there need is locked for at least this many days after each backup. Nobody can delete \
it sooner or shorten the lock: not you, not the provider's console, not whoever steals this \
computer. You pay for the storage that long.")]
pub struct Lock {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// For how many days
    #[arg(long = "for", value_name = "DAYS")]
    span: Option<LockSpan>,
    /// Stop extending locks; existing ones stay until they expire
    #[arg(long, conflicts_with_all = ["span", "dry_run"])]
    off: bool,
    /// Show what would be locked without doing it
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    access: Access,
}

impl Lock {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let before = record.lock.as_ref().and_then(Locking::span);
        if self.off {
            return self.switch_off(global, &records, record);
        }
        let Some(span) = self.span.or(before) else {
            let text = format!(
                "nothing is locked at {} yet: give the time to lock for, such as --for 90d",
                self.target
            );
            return Err(Failure::new(FailureKind::Usage, text));
        };
        let (vault, watch) = self.access.open_locking(&self.target, Some(span))?;
        let line = access::line(watch);
        let mut ends = records.locks(&self.target);
        let plan = vault.plan_locks(span, &mut ends);
        line.end();
        let plan = plan?;
        let would_be = &plan.would_be;
        if self.dry_run {
            return global.print(&self.report(would_be), || text(would_be, "would be"));
        }
        if before.is_none_or(|before| before.days() < span.days()) && !self.yes {
            eprintln!("{}", text(would_be, "will be"));
            eprintln!("Nobody can delete them sooner or undo this.");
            confirm()?;
        }
        let outcome = vault.prolong_as_planned(&plan, &mut ends);
        let outcome = noted(outcome, span, records.keep_locks(&self.target, &ends), &mut record);
        let kept = records.keep(&record);
        let locked = outcome?;
        global.print(&self.report(&locked), || text(&locked, "are"))?;
        access::noted(kept)
    }

    fn switch_off(
        &self,
        global: &Global,
        records: &Records,
        record: Record,
    ) -> Result<(), Failure> {
        let Some(lock) = &record.lock else {
            let text = format!("nothing at {} is locked by this computer", self.target);
            return Err(Failure::new(FailureKind::Usage, text));
        };
        let ends = lock.ends_s;
        records.keep(&Record { lock: None, ..record })?;
        let report = json!({ "target": self.target.shown(), "lock_days": null });
        global.print(&report, || {
            let first =
                ends.map_or(String::new(), |ends| format!("; the first expires {}", date(ends)));
            format!("{}: locks are no longer extended{first}", self.target)
        })
    }

    fn report(&self, locked: &Locked) -> serde_json::Value {
        json!({ "target": self.target.shown(), "locked": locked })
    }
}

/// Extends the locks and notes the outcome; the caller saves the record.
pub fn prolong(
    vault: &Vault,
    span: LockSpan,
    records: &Records,
    record: &mut Record,
) -> Result<Locked, Error> {
    let mut ends = records.locks(vault.target());
    let outcome = vault.prolong(span, &mut ends);
    // This includes the locks that were extended before an error.
    let kept = records.keep_locks(vault.target(), &ends);
    noted(outcome, span, kept, record)
}

/// Notes the outcome in the record; `kept` says whether the locks' ends could be saved.
fn noted(
    outcome: Result<Locked, Error>,
    span: LockSpan,
    kept: Result<(), Error>,
    record: &mut Record,
) -> Result<Locked, Error> {
    let before = record.lock.take().unwrap_or_default();
    record.lock = Some(match &outcome {
        Ok(locked) => Locking { days: span.days(), ends_s: Some(locked.ends_s), failed: None },
        // An interruption says nothing about the target.
        Err(Error::Interrupted) => Locking { days: span.days(), ..before },
        Err(error) => Locking { days: span.days(), failed: Some(error.to_string()), ..before },
    });
    let locked = outcome?;
    kept?;
    Ok(locked)
}

/// The result as a line.
pub fn text(locked: &Locked, verb: &str) -> String {
    format!(
        "{} {verb} locked until {} at least; {} extended",
        access::counted(locked.files as u64, "file"),
        date(locked.ends_s),
        locked.prolonged
    )
}

fn date(seconds: u64) -> String {
    timestamp::shown(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
