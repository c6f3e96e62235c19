//! The lab's command line by itself: `cargo run -p braid-lab --example lab --
//! run six-3g --engine mptcp`. The engine `tunnel` needs `braid lab` instead,
//! since it starts the running program as the tunnel.

use braid_lab::LabArgs;
use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(flatten)]
    lab: LabArgs,
}

fn main() -> ExitCode {
    braid_lab::execute(Cli::parse().lab.command)
}
