use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_backup::records::Tried;
use braid_backup::{Drill as Trial, Error, Target};
use braid_units::ByteSize;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup drill s3://s3.example.org/photos
  braid pool backup drill --bytes 10G --files 5000 sftp:me@nas:/backup

Randomly chosen files are restored from the newest backup of each computer and path in turn, and \
compared with their originals if those haven't changed since.
Exit codes: 0 all came back right, 1 something did not")]
pub struct Drill {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// A backup: its id, the id's beginning, or `latest` (the newest of each path)
    #[arg(value_name = "BACKUP", default_value = "latest")]
    backup: String,
    /// Restore at most this many bytes
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    bytes: ByteSize,
    /// Restore at most this many files
    #[arg(long, value_name = "N", default_value_t = 1000)]
    files: usize,
    /// Folder for temporary files, with room for the largest file [default: in /var/tmp]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

impl Drill {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let (vault, watch) = self.access.open_until_stopped(&self.target)?;
        let folder = self.folder.clone().unwrap_or_else(|| {
            PathBuf::from(format!("/var/tmp/braid-drill-{}", std::process::id()))
        });
        let trial = Trial {
            vault: &vault,
            which: self.backup.clone(),
            folder: folder.clone(),
            bytes: self.bytes.bytes(),
            files: self.files,
        };
        let line = access::line(watch);
        let outcome = trial.run();
        line.end();
        if self.folder.is_none() {
            // It was made only for this; if it can't be removed, that is harmless.
            let _ = std::fs::remove_dir(&folder);
        }
        let failed = match &outcome {
            // An interruption says nothing about the target.
            Err(Error::Interrupted) => return Err(Error::Interrupted.into()),
            Ok(drilled) => drilled.wrong.first().cloned(),
            Err(error) => Some(error.to_string()),
        };
        let files = outcome.as_ref().map_or(0, |drilled| drilled.files);
        record.restored = Some(Tried { at_s: access::now().as_secs(), files, failed });
        let kept = records.keep(&record);
        let drilled = outcome?;
        global.print(&drilled, || {
            let bytes = ByteSize::from_bytes(drilled.bytes);
            let mut text = format!(
                "{} restored, {bytes}; {} of them compared with their originals",
                access::counted(drilled.files, "file"),
                drilled.compared
            );
            if drilled.backups.len() > 1 {
                for one in &drilled.backups {
                    let (files, path) = (access::counted(one.files, "file"), one.path.display());
                    text.push_str(&format!("\n{files} of {path} ({})", one.host));
                }
            }
            for wrong in &drilled.wrong {
                text.push_str(&format!("\nWRONG: {wrong}"));
            }
            text
        })?;
        access::noted(kept)?;
        Ok(if drilled.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
