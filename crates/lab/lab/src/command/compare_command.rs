//! `braid lab compare`.

use super::{finish, prepare, usage, writable};
use crate::compare::{self, Comparison, Suite};
use crate::live::Live;
use crate::output::say;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `braid lab compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What is compared
    #[arg(long, value_enum)]
    pub suite: Suite,
    /// Only this case, such as `lossy`; may be repeated
    #[arg(long, value_name = "CASE")]
    pub only: Vec<String>,
    /// Only this engine; may be repeated
    #[arg(long = "engine", value_name = "ENGINE")]
    pub engines: Vec<String>,
    /// Duration of one run in seconds, instead of 3 or 4; cases with events keep theirs
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: Option<u64>,
    /// Number of repetitions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Write a report with plots here
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    /// Write the tables here as Markdown
    #[arg(long, value_name = "OUT.md")]
    pub markdown: Option<PathBuf>,
    /// Write the results here as JSON
    #[arg(long, value_name = "OUT")]
    pub json: Option<PathBuf>,
}

pub(super) fn execute(args: &CompareArgs) -> ExitCode {
    let outputs: Vec<&Path> = [&args.report, &args.markdown, &args.json]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    for output in &outputs {
        // Better to fail now than after half an hour of measuring.
        if let Err(error) = writable(output) {
            return usage(&format!("{}: can't write there: {error}", output.display()));
        }
    }
    let mut comparison = Comparison {
        suite: args.suite,
        only: args.only.clone(),
        engines: args.engines.clone(),
        seconds: args.seconds,
        repeat: args.repeat,
        program: PathBuf::new(),
    };
    if let Err(error) = comparison.plans() {
        return usage(&error);
    }
    let prepared = match prepare(&outputs) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    comparison.program = prepared.program.clone();
    let plans = match comparison.plans() {
        Ok(plans) => plans,
        Err(error) => return usage(&error),
    };
    let live = Live::new();
    let compared = compare::compare(plans, &prepared.scratch, &prepared.cancel, &live);
    let command = command_line();
    let text = compare::markdown(args.suite, &compared, &command);
    say!("\n{text}");
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => {
            std::fs::write(path, text()).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => Ok(()),
    };
    let json = || {
        // Our own types always serialise.
        serde_json::to_string_pretty(&compare::results(args.suite, &compared)).unwrap_or_default()
    };
    let written = write(&args.markdown, &|| text.clone())
        .and_then(|()| write(&args.report, &|| compare::page(args.suite, &compared, &command)))
        .and_then(|()| write(&args.json, &json));
    let failures: Vec<String> =
        compared.iter().flat_map(|compared| compared.findings.failures.clone()).collect();
    finish(&failures, written, &prepared.cancel)
}

/// The command as typed, with the program's short name.
fn command_line() -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("braid {}", words.join(" "))
}
