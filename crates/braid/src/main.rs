//! Braid: many weak strands, one strong line.

mod cli;
mod daemon;

fn main() -> std::process::ExitCode {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("PATH", braid_disks::tool::search_path()) };
    cli::run()
}
