//! `braid manual`: turns manuals into a searchable site.

mod build;
mod check;
mod progress;
mod serve;

use super::Global;
use super::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum ManualCommand {
    /// Make a site from manuals in plain text, Markdown or roff
    Build(build::Build),
    /// Serve a site over HTTP
    Serve(serve::Serve),
    /// Check a site for dead links and duplicate ids
    Check(check::Check),
}

impl ManualCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            ManualCommand::Build(build) => build.run(global),
            ManualCommand::Serve(serve) => serve.run(global),
            ManualCommand::Check(check) => check.run(global),
        }
    }
}
