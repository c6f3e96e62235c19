use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::confirm::confirm;
use crate::cli::failure::{Failure, print_line};
use braid_backup::records::{Checked, Record};
use braid_backup::{Damage, Lacking, Repair as Mend, Target, short_id};
use braid_replica::timestamp;
use braid_units::ByteSize;
use clap::Args;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::SystemTime;

/// How many of a backup's missing items are shown; JSON has some more.
const EXAMPLES: usize = 5;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup repair --dry-run s3://s3.example.org/photos   # what is damaged, what is lost
  braid pool backup repair s3://s3.example.org/photos             # keeps what can be read
  braid pool backup /srv/photos s3://s3.example.org/photos        # sends the rest again
  braid pool backup repair --drop-lost s3://s3.example.org/photos # gives up what is still lost

Reads what this computer's last check found damaged if that check read 100 %, otherwise \
everything. Damaged files of the target (packs) are replaced by new ones with what can be read of \
them; the rest counts as missing, and the next backup sends it again if it still exists. \
--drop-lost then removes what is still missing from old backups: they become `incomplete`, and \
what is left of a file gets the suffix `.repaired`. An append-only target refuses. If \
interrupted, repeat the command.

Exit codes: 0 no backup lacks anything, 1 some do, or it failed")]
pub struct Repair {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// Read everything, even if the last check says what is damaged
    #[arg(long)]
    all: bool,
    /// Remove what is lost from the backups that refer to it
    #[arg(long)]
    drop_lost: bool,
    /// Show what is damaged without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    access: Access,
}

impl Repair {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let (vault, watch) = self.access.open_until_stopped(&self.target)?;
        let mend = Mend { vault: &vault, known: self.known(&record) };
        let line = access::line(watch);
        let damage = mend.look();
        line.end();
        let damage = damage?;
        let drops = self.drop_lost && !damage.backups.is_empty();
        if !global.json {
            print_line(&found(&damage))?;
        }
        let is_needed = drops || !damage.packs.is_empty();
        let mut dropped = 0;
        let mut kept = Ok(());
        if is_needed && !self.dry_run {
            if !self.yes {
                confirm()?;
            }
            mend.mend(&damage)?;
            if drops {
                dropped = mend.drop_lost(&damage)?;
            }
            record.checked.iter_mut().for_each(|checked| checked.repaired = true);
            kept = records.keep(&record);
        }
        let lacking = damage.backups.len() - dropped;
        let mended = if self.dry_run { 0 } else { damage.packs.len() };
        let report = json!({
            "read_packs": damage.read_packs,
            "read_bytes": damage.read_bytes,
            "packs": damage.packs,
            "backups": damage.backups,
            "mended_packs": mended,
            "changed_backups": dropped,
        });
        global.print(&report, || self.done(mended, dropped, lacking))?;
        access::noted(kept)?;
        Ok(if lacking == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What this computer's last check found, if there was one.
    fn known(&self, record: &Record) -> Option<BTreeSet<String>> {
        let checked = record.checked.as_ref().filter(|_| !self.all)?;
        let Checked { percent: 100, damaged_packs, .. } = checked else { return None };
        (!damaged_packs.is_empty()).then(|| damaged_packs.clone())
    }

    fn done(&self, mended: usize, dropped: usize, lacking: usize) -> String {
        let target = self.access.typed(&self.target);
        let mut lines = vec![];
        if mended > 0 {
            lines.push(format!("{} replaced", access::counted(mended as u64, "pack")));
        }
        if dropped > 0 {
            let backups = access::counted(dropped as u64, "backup");
            lines.push(format!("what is lost was removed from {backups}"));
        }
        if lacking > 0 {
            lines.push(format!(
                "a new backup of each path sends again what still exists; then `braid pool backup \
                 repair --drop-lost {target}` gives up the rest"
            ));
        } else if mended + dropped > 0 {
            lines.push(format!("`braid pool backup check --read 100 {target}` checks everything"));
        }
        if self.dry_run {
            lines.push("nothing was changed".to_owned());
        }
        lines.join("\n")
    }
}

fn found(damage: &Damage) -> String {
    let read = access::counted(damage.read_packs as u64, "pack");
    let bytes = ByteSize::from_bytes(damage.read_bytes);
    let mut lines = vec![format!("{read} read, {bytes}: {} damaged", damage.packs.len())];
    for pack in &damage.packs {
        let what = match (pack.gone, pack.lost) {
            (true, _) => "gone".to_owned(),
            (false, 0) => "all pieces in it can be read".to_owned(),
            (false, lost) => format!("{lost} of {} pieces in it lost", lost + pack.kept),
        };
        lines.push(format!("pack {}: {what}", short_id(&pack.id)));
    }
    lines.extend(damage.backups.iter().map(lacks));
    lines.join("\n")
}

fn lacks(one: &Lacking) -> String {
    let paths: Vec<String> =
        one.backup.paths.iter().map(|path| path.display().to_string()).collect();
    let mut what = vec![];
    for (count, name) in [(one.lack.lost_files, "file"), (one.lack.lost_folders, "folder")] {
        if count > 0 {
            what.push(access::counted(count, name));
        }
    }
    let mut text = format!(
        "LOST of {} ({}, {}): {}",
        short_id(&one.backup.id),
        timestamp::shown(SystemTime::UNIX_EPOCH + one.backup.taken),
        paths.join(", "),
        what.join(", ")
    );
    for example in one.lack.examples.iter().take(EXAMPLES) {
        text.push_str(&format!("\n    {}", example.0.display()));
    }
    if one.lack.lost_files + one.lack.lost_folders > EXAMPLES as u64 {
        text.push_str("\n    …");
    }
    text
}
