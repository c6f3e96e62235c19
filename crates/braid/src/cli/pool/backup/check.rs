use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_backup::Target;
use braid_backup::records::Checked;
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup check s3://s3.example.org/photos            # all is there
  braid pool backup check --read 5 s3://s3.example.org/photos   # and 5 % of it is right
  braid pool backup check --read 100 /mnt/usb/backups

Exit codes: 0 nothing wrong, 1 something is wrong or the target can't be reached")]
pub struct Check {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// Read this share of the data, chosen randomly, and compare it with its hashes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    read: u8,
    #[command(flatten)]
    access: Access,
}

impl Check {
    pub fn run(&self, global: &Global) -> Result<ExitCode, Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let (vault, watch) = self.access.open_until_stopped(&self.target)?;
        let line = access::line(watch);
        let report = vault.check(f64::from(self.read));
        line.end();
        let report = report?;
        let (at_s, errors) = (access::now().as_secs(), report.errors.len());
        let damaged_packs = report.damaged_packs.clone();
        let percent = self.read;
        let checked = Checked { at_s, percent, errors, damaged_packs, repaired: false };
        record.checked = Some(checked);
        let kept = records.keep(&record);
        global.print(&report, || match report.errors.is_empty() {
            true => format!("{}: everything is there, {} % of it was read", self.target, self.read),
            false => format!(
                "{}:\n{}\n`braid pool backup repair --dry-run {}` shows which backups lack what",
                access::counted(errors as u64, "error"),
                report.errors.join("\n"),
                self.access.typed(&self.target)
            ),
        })?;
        access::noted(kept)?;
        Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
