use crate::cli::failure::Failure;
use crate::cli::pool::carry_out::StateFolders;
use crate::cli::pool::encrypt::headers;
use crate::cli::pool::seen::Seen;
use crate::cli::pool::volumes::{back_up_headers, name_of, of_pool};
use crate::cli::{Global, JsonFlag};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool header backup data\n  braid pool header backup data --to /media/stick\n\nOne file of 16 MiB for each disk, named by the UUID of its LUKS volume."
)]
pub struct Backup {
    #[command(flatten)]
    _json: JsonFlag,
    /// The pool's name
    name: String,
    /// Another folder, such as one on a USB stick [default: .headers/POOL below the state folder]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    place: StateFolders,
}

impl Backup {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let volumes = of_pool(&Seen::now(&self.place.config()), &self.name, &self.place)?;
        let folder = match &self.to {
            Some(folder) => folder.display().to_string(),
            None => headers(&self.place, name_of(&volumes, &self.name))?,
        };
        let files = back_up_headers(&folder, &volumes)?;
        global.print(&json!({ "files": files }), || {
            let lines = files.iter().map(|file| format!("saved: {file}"));
            lines.collect::<Vec<_>>().join("\n")
        })
    }
}
