//! Braid: many weak strands, one strong line.

mod cli;
mod daemon;

fn main() -> std::process::ExitCode {
    cli::run()
}
