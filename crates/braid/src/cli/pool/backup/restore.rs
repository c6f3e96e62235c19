use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::{Failure, tell};
use braid_backup::records::Tried;
use braid_backup::{Error, Restoration, Restored, Target, short_id};
use braid_pool::step::quoted;
use braid_units::ByteSize;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup restore s3://s3.example.org/photos latest --to /srv/back
  braid pool backup restore sftp:me@nas:/backup 4f2a --path /srv/photos/a.jpg --to /tmp/a.jpg

On another computer it needs the target, its credentials and the key, which are on the recovery \
sheet. Nothing is ever overwritten; each restored file is read back and compared.")]
pub struct Restore {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// A backup: its id, the id's beginning, or `latest` (the newest that contains --path)
    #[arg(value_name = "BACKUP", default_value = "latest")]
    backup: String,
    /// A file or folder in it, by its full path; which of them, where several are backed up
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Where to: a new or empty folder; for a file its new path
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Show what would be restored without doing it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

impl Restore {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (vault, watch) = self.access.open_until_stopped(&self.target)?;
        let line = access::line(watch);
        let restoration = Restoration {
            vault: &vault,
            which: self.backup.clone(),
            path: self.path.clone(),
            to: self.to.clone(),
            dry_run: self.dry_run,
            warn: &|warning| tell(&format!("warning: {warning}")),
        };
        let outcome = restoration.run();
        line.end();
        let restored = outcome.map_err(|error| match error {
            // Nothing was restored yet.
            Error::Refused(_) => error.into(),
            Error::Several { .. } => access::which_path(error, |backup, path| {
                let target = self.access.typed(&self.target);
                let to = quoted(&self.to.display().to_string());
                format!("braid pool backup restore {target} {backup} --path {path} --to {to}")
            }),
            _ if self.dry_run || !self.to.exists() => error.into(),
            _ => {
                let to = self.to.display();
                Failure::failed(format!("{error}; the restore in {to} is incomplete"))
            }
        })?;
        for path in &restored.lost {
            tell(&format!("LOST: {}", path.display()));
        }
        let kept = if self.dry_run { Ok(()) } else { self.note(&restored) };
        restored.lacking.iter().for_each(|line| tell(line));
        if restored.incomplete {
            tell(&format!(
                "backup {} is incomplete: some files couldn't be read when it was made, and aren't \
                 in it; an older one may have them",
                short_id(&restored.snapshot)
            ));
        }
        global.print(&restored, || {
            let bytes = ByteSize::from_bytes(restored.bytes);
            let word = if self.dry_run { "would be restored" } else { "are restored" };
            let compared = if self.dry_run { "" } else { ", read back and compared" };
            format!(
                "{} and {} of {} {word} to {}: {bytes}{compared}",
                access::counted(restored.files, "file"),
                access::counted(restored.folders, "folder"),
                restored.path.display(),
                restored.to.display(),
            )
        })?;
        access::noted(kept)?;
        match restored.lost.len() as u64 {
            0 => Ok(()),
            lost => Err(Failure::failed(format!(
                "{} couldn't be restored: their data at the target is missing or damaged (`braid \
                 pool backup check --read 100 {}`); an older backup may have them whole",
                access::counted(lost, "file"),
                self.access.typed(&self.target)
            ))),
        }
    }

    fn note(&self, restored: &Restored) -> Result<(), Error> {
        let (records, now) = (self.access.records(), access::now());
        let mut record = records.of(&self.target, now)?;
        let failed = (!restored.lost.is_empty())
            .then(|| format!("{} were lost", access::counted(restored.lost.len() as u64, "file")));
        record.restored = Some(Tried { at_s: now.as_secs(), files: restored.files, failed });
        records.keep(&record)
    }
}
