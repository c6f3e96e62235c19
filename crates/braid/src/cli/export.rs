//! `braid export`: the set-up of a group in another tool's language.

use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag};
use crate::daemon;
use braid_control::config::AnyConfig;
use braid_engines::export::{self, Exported, Format};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid export --config bond --format networkd\n  braid export --config bond --format routeros --output walk/"
)]
pub struct Export {
    #[command(flatten)]
    _json: JsonFlag,
    /// iproute2, networkd, netplan, ifupdown, routeros or openwrt
    #[arg(short, long)]
    format: Format,
    /// Write the files below this folder instead of printing them
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl Export {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = match global.load_any_config()? {
            AnyConfig::Group(config) => config,
            AnyConfig::Tunnel(_) => {
                let message = "Braid's own tunnel can't be exported to other tools; set \
                               `interface.engine` to an engine of the kernel";
                return Err(Failure::new(FailureKind::Usage, message));
            }
        };
        let group = daemon::observed_group(&config)
            .map_err(|error| Failure::io("looking at the host's network", &error))?;
        let files = export::export(&group, self.format)
            .map_err(|error| Failure::failed(error.to_string()))?;
        if let Some(folder) = &self.output {
            for file in &files {
                write(folder, file)?;
            }
        }
        let value = json!({ "format": self.format.as_str(), "files": files });
        global.print(&value, || match &self.output {
            Some(folder) => format!("{} files written below {}", files.len(), folder.display()),
            None => shown(&files),
        })
    }
}

/// A single file as it is; several with their names, like `tail`.
fn shown(files: &[Exported]) -> String {
    match files {
        [file] => file.contents.trim_end().to_owned(),
        files => {
            let parts =
                files.iter().map(|file| format!("==> {} <==\n{}", file.path, file.contents));
            parts.collect::<Vec<_>>().join("\n").trim_end().to_owned()
        }
    }
}

fn write(folder: &Path, file: &Exported) -> Result<(), Failure> {
    let path = folder.join(file.path.trim_start_matches('/'));
    let doing = || format!("writing {}", path.display());
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(&path, &file.contents))
        .map_err(|error| Failure::io(&doing(), &error))
}
