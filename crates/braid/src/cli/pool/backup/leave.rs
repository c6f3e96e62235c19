use super::access::{self, Access};
use crate::cli::Global;
use crate::cli::failure::{Failure, FailureKind};
use braid_backup::Target;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  braid pool backup leave s3://old.example.org/photos            # used no more
  braid pool backup leave s3://s3.example.org/photos /srv/gone   # this folder isn't backed up any more

Nothing is deleted at the target: the backups there can be listed and restored
as before. Only this computer no longer minds them, nor does its doctor.")]
pub struct Leave {
    /// The target
    #[arg(value_name = "TARGET", value_parser = access::target)]
    target: Target,
    /// A folder that was backed up there; else all of them
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

impl Leave {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (_held, records, mut record) = self.access.hold(&self.target)?;
        let unknown = |what: &str| {
            let known: Vec<String> =
                record.sources.keys().map(|path| path.display().to_string()).collect();
            let known = match known.as_slice() {
                [] => String::new(),
                known => format!("; known at {}: {}", self.target, known.join(", ")),
            };
            Err(Failure::new(FailureKind::Usage, format!("{what}{known}")))
        };
        match &self.path {
            None if !records.has(&self.target) => {
                let (all, _) = records.all()?;
                let known = match all.is_empty() {
                    true => "none anywhere".to_owned(),
                    false => all.iter().map(|it| it.target.as_str()).collect::<Vec<_>>().join(", "),
                };
                let what = format!("this computer has no record of backups at {}", self.target);
                return Err(Failure::new(
                    FailureKind::Usage,
                    format!("{what}; it has of: {known}"),
                ));
            }
            None => records.drop(&self.target)?,
            Some(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                if !record.sources.contains_key(&path) {
                    return unknown(&format!("{} isn't backed up there", path.display()));
                }
                record.sources.remove(&path);
                records.keep(&record)?;
            }
        }
        let path = self.path.as_ref().map(|path| path.display().to_string());
        let report = json!({ "target": self.target.shown(), "path": path });
        global.print(&report, || format!("{}: no longer watched; nothing was deleted", self.target))
    }
}
