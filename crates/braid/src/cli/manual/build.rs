use super::progress::Counted;
use crate::cli::failure::{Failure, FailureKind};
use crate::cli::{Global, JsonFlag};
use braid_manual::input::{Reading, read};
use braid_manual::model::Format;
use braid_manual::site::{self, Options, Site, Summary, WriteError};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    disable_version_flag = true,
    after_help = "\
A folder stands for all manuals in it. The format of a file is detected. For several versions of \
a manual, give one file for each.

Examples:
  braid manual build /usr/share/doc/haproxy/configuration.txt.gz --out site
  braid manual build old/configuration.txt new/configuration.txt --out site --title HAProxy
  braid manual build docs README.md --out site --version 0.1 --base-url https://docs.example.org/"
)]
pub struct Build {
    #[command(flatten)]
    _json: JsonFlag,
    /// Manuals, plain or .gz, and folders of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The site's folder; an existing one is replaced if it is such a site
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// The version that the manuals describe [default: what each states]
    #[arg(long = "version", value_name = "V")]
    of_version: Option<String>,
    /// What the site is called [default: the first manual's title]
    #[arg(long, value_name = "T")]
    title: Option<String>,
    /// Where the site will be, for canonical addresses and a sitemap
    #[arg(long, value_name = "U", value_parser = http_url)]
    base_url: Option<String>,
    /// Format of the files [default: detected]
    #[arg(long, value_enum)]
    format: Option<WrittenIn>,
    /// Show what would be made without making it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum WrittenIn {
    /// Plain text with numbered, underlined headings
    Text,
    /// Markdown
    Markdown,
    /// A man page
    Man,
}

impl Build {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        // Check first, so that the work isn't wasted.
        Site::may_replace(&self.out).map_err(not_written)?;
        let format = self.format.map(|format| match format {
            WrittenIn::Text => Format::Text,
            WrittenIn::Markdown => Format::Markdown,
            WrittenIn::Man => Format::Man,
        });
        let reading = Reading { format, version: self.of_version.clone() };
        let inputs =
            read(&self.files, &reading).map_err(|error| Failure::failed(error.to_string()))?;
        let title = self.title.clone().unwrap_or_else(|| inputs[0].document.title.clone());
        let options = Options { title, base_url: self.base_url.clone() };
        let progress = Counted::new("making pages");
        let site = site::build(&inputs, &options, |done, all| progress.show(done, all))
            .map_err(|error| Failure::failed(error.to_string()))?;
        if !self.dry_run {
            site.write(&self.out).map_err(not_written)?;
        }
        drop(progress);
        let written = !self.dry_run;
        let value = json!({ "out": self.out, "written": written, "site": site.summary });
        global.print(&value, || self.text(&site.summary))
    }

    fn text(&self, summary: &Summary) -> String {
        let mut lines: Vec<String> = summary
            .documents
            .iter()
            .map(|document| {
                let version = document.version.as_deref().unwrap_or("-");
                let (sections, keywords) = (document.sections, document.keywords);
                format!("{} {version}: {sections} sections, {keywords} keywords", document.name)
            })
            .collect();
        let out = self.out.join("index.html");
        let made = if self.dry_run { "would be made" } else { "made" };
        lines.push(format!("{} pages {made}: {}", summary.pages, out.display()));
        lines.join("\n")
    }
}

fn http_url(text: &str) -> Result<String, String> {
    let whole = |scheme: &str| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    match whole("https://") || whole("http://") {
        true => Ok(text.to_owned()),
        false => Err("it begins with https:// or http://".into()),
    }
}

fn not_written(error: WriteError) -> Failure {
    let kind = match &error {
        WriteError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
            FailureKind::Permission
        }
        _ => FailureKind::Failed,
    };
    Failure::new(kind, error.to_string())
}
