use super::access::{self, Access};
use super::lock;
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_backup::key::Key;
use braid_backup::records::Record;
use braid_backup::{Target, TargetOptions, Vault};
use braid_pool::upkeep::LockSpan;
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup init s3://s3.example.org/photos
  braid pool backup init --key /etc/braid/second.key sftp:me@nas:/backup

  braid pool backup init --lock 90d s3://s3.example.org/locked

Backups are encrypted before they leave. Without the key nobody can read them:
print the recovery sheet (`braid pool backup sheet TARGET`) and keep it where a
fire at home doesn't reach it.")]
pub struct Init {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// Lock what is written, so that nobody can delete it for this many days (S3 object lock); each
    /// backup extends the locks of everything that is needed
    #[arg(long, value_name = "DAYS")]
    lock: Option<LockSpan>,
    #[command(flatten)]
    access: Access,
}

impl Init {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (_held, records, record) = self.access.hold(&self.target)?;
        let is_new_key = !self.access.key.exists();
        if is_new_key {
            self.access.refuse_to_replace_key()?;
        }
        let key = match is_new_key {
            true => Key::make(&self.access.key)?,
            false => self.access.key()?,
        };
        let file = self.access.key_file().display().to_string();
        if self.access.had_backups(&self.target)? {
            // It exists, or it must not silently be created again.
            self.access.open(&self.target)?;
        }
        let target_options = TargetOptions { lock: self.lock, ..self.access.target_options() };
        let (vault, prepared) = Vault::create(self.target.clone(), key, target_options)?;
        let mut record = Record {
            since_s: access::now().as_secs(),
            key: Some(self.access.key_file()),
            ..record
        };
        let locked = self.lock.map(|span| lock::prolong(&vault, span, &records, &mut record));
        records.keep(&record)?;
        locked.transpose()?;
        let target = self.target.shown();
        let days = self.lock.map(LockSpan::days);
        let report = json!({
            "target": target, "prepared": prepared, "key": file, "new_key": is_new_key,
            "lock_days": days,
        });
        global.print(&report, || {
            let what = match prepared {
                true => format!("{target} is prepared"),
                false => format!("{target} was already prepared, and the key opens it"),
            };
            let made = if is_new_key { ", made now" } else { "" };
            format!(
                "{what}\n\
                 the key is in {file}{made}. WITHOUT IT ALL BACKUPS ARE LOST: it is nowhere else.\n\
                 Print the recovery sheet and keep it elsewhere:\n  \
                 braid pool backup sheet {}",
                braid_pool::step::quoted(&target)
            )
        })
    }
}
