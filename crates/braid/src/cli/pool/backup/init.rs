use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_backup::key::Key;
use braid_backup::{Target, Vault};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup init s3://s3.example.org/photos
  braid pool backup init --key /etc/braid/second.key sftp:me@nas:/backup

Backups are encrypted before they leave. Without the key nobody can read them:
print the recovery sheet (`braid pool backup sheet TARGET`) and keep it where a
fire at home doesn't reach it.")]
pub struct Init {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    #[command(flatten)]
    access: Access,
}

impl Init {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (_held, records, record) = self.access.hold(&self.target)?;
        let is_new_key = !self.access.key.exists();
        let key = match is_new_key {
            true => Key::make(&self.access.key)?,
            false => self.access.key()?,
        };
        let file = std::path::absolute(key.file()).unwrap_or_else(|_| key.file().to_owned());
        let file = file.display().to_string();
        if self.access.had_backups(&self.target)? {
            // It is there, or it isn't to be made anew without a word.
            self.access.open(&self.target)?;
        }
        let (_, prepared) = Vault::create(self.target.clone(), key, self.access.manner())?;
        records
            .keep(&braid_backup::records::Record { since_s: access::now().as_secs(), ..record })?;
        let target = self.target.shown();
        let report =
            json!({ "target": target, "prepared": prepared, "key": file, "new_key": is_new_key });
        global.print(&report, || {
            let what = match prepared {
                true => format!("{target} is prepared"),
                false => format!("{target} was prepared already, and the key opens it"),
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
