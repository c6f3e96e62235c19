use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::Failure;
use braid_backup::{Sheet as Paper, Target};
use braid_replica::timestamp;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup sheet s3://s3.example.org/photos | lpr
  braid pool backup sheet s3://s3.example.org/photos --out /root/sheet.txt

It shows the key: whoever has the sheet and can reach the target can read all backups. The target \
itself isn't contacted.")]
pub struct Sheet {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// Write it to this new file, for its owner alone
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

impl Sheet {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let key = self.access.key()?;
        let record = self.access.records().of(&self.target, access::now())?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let paths = record.sources.keys().map(|path| path.display().to_string()).collect();
        let date = timestamp::shown(SystemTime::now());
        let sheet = Paper {
            target: &self.target,
            key: &key,
            host: host.trim(),
            paths,
            date: date.get(..10).unwrap_or(&date),
        };
        let text = sheet.text();
        let Some(file) = &self.out else {
            return global.print(&json!({ "sheet": text }), || text.trim_end().to_owned());
        };
        braid_durable::create(file, text.as_bytes(), 0o600)
            .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))?;
        global.print(&json!({ "file": file.display().to_string() }), || {
            format!("written: {}", file.display())
        })
    }
}
