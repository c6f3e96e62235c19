use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::status_table::columns;
use braid_backup::{Entry, Present, Target, short_id};
use braid_replica::timestamp;
use braid_units::ByteSize;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::SystemTime;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup list s3://s3.example.org/photos
  braid pool backup list s3://s3.example.org/photos latest /srv/photos/2026
  braid pool backup list --recursive sftp:me@nas:/backup 4f2a")]
pub struct List {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// A backup: its id, the id's beginning, or `latest` (the newest that contains PATH)
    #[arg(value_name = "BACKUP")]
    backup: Option<String>,
    /// A folder in it
    #[arg(value_name = "PATH", default_value = "/")]
    path: PathBuf,
    /// Include everything below it
    #[arg(long, requires = "backup")]
    recursive: bool,
    #[command(flatten)]
    access: Access,
}

impl List {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (vault, _) = self.access.open(&self.target)?;
        let Some(backup) = &self.backup else {
            let backups = vault.backups()?;
            return global.print(&json!({ "backups": backups }), || table(&backups));
        };
        let entries = vault.entries(backup, &self.path, self.recursive);
        let entries = entries.map_err(|error| {
            access::which_path(error, |backup, path| {
                format!(
                    "braid pool backup list {} {backup} {path}",
                    self.access.typed(&self.target)
                )
            })
        })?;
        global.print(&json!({ "entries": entries }), || {
            let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
            if rows.is_empty() { "it is empty".to_owned() } else { columns(&rows).join("\n") }
        })
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let size = match entry.kind.as_str() {
        "file" => ByteSize::from_bytes(entry.bytes).to_string(),
        other => other.to_owned(),
    };
    vec![size, entry.path.display().to_string()]
}

fn table(backups: &[Present]) -> String {
    if backups.is_empty() {
        return "no backups yet".to_owned();
    }
    let mut rows = vec![["ID", "MADE", "HOST", "PATH", "SIZE", ""].map(str::to_owned).to_vec()];
    rows.extend(backups.iter().map(|one| {
        let paths: Vec<String> = one.paths.iter().map(|path| path.display().to_string()).collect();
        let size = one.bytes.map_or("-".to_owned(), |it| ByteSize::from_bytes(it).to_string());
        vec![
            short_id(&one.id).to_owned(),
            timestamp::shown(SystemTime::UNIX_EPOCH + one.taken),
            one.host.clone(),
            paths.join(", "),
            size,
            if one.incomplete { "incomplete".to_owned() } else { String::new() },
        ]
    }));
    columns(&rows).join("\n")
}
