use super::progress::Counted;
use crate::cli::failure::Failure;
use crate::cli::{Global, JsonFlag};
use braid_manual::check::{Duplicate, Missing, Report, check};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Any folder of HTML pages will do. Links to other hosts are counted, not followed. Exit code 1 if \
something is wrong.

Example:
  braid manual check site")]
pub struct Check {
    #[command(flatten)]
    _json: JsonFlag,
    /// The site's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Check {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let progress = Counted::new("reading pages");
        let report = check(&self.folder, |done, all| progress.show(done, all));
        drop(progress);
        let report = report.map_err(|error| Failure::failed(error.to_string()))?;
        global.print(&report, || text(&report))?;
        if report.is_clean() {
            return Ok(());
        }
        let (dead, twice) = (report.dead.len(), report.duplicates.len());
        Err(Failure::failed(format!("{dead} dead links, {twice} duplicate ids")))
    }
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for dead in &report.dead {
        let why = match dead.missing {
            Missing::File => "no such file",
            Missing::Id => "no such id",
        };
        lines.push(format!("{}: {} leads nowhere: {why}", dead.page, dead.link));
    }
    for duplicate in &report.duplicates {
        let Duplicate { page, id, times } = duplicate;
        lines.push(format!("{page}: id {id} occurs {times} times"));
    }
    let Report { pages, links, external, .. } = report;
    lines.push(format!("{pages} pages, {links} links, {external} to other hosts"));
    lines.join("\n")
}
