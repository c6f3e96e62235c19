//! The lab without the rest of Braid: what `braid lab` does, by
//! `cargo run -p braid-lab --example lab -- lab run …`. It has no engine
//! `tunnel`.

use braid_lab::LabArgs;
use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
enum Cli {
    /// As `braid lab`
    Lab(LabArgs),
}

/// When the lab starts itself, it does so as `braid lab …`.
fn main() -> ExitCode {
    let Cli::Lab(args) = Cli::parse();
    braid_lab::execute(args.command)
}
