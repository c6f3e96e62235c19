//! Braid: many weak strands, one strong line.

mod cli;
mod daemon;
#[cfg(feature = "fleet")]
mod fleet_store;

#[allow(unsafe_code)]
fn main() -> std::process::ExitCode {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("PATH", braid_tool::search_path()) };
    // Started with none, files would be anybody's to write.
    braid_linux::confinement::tighten_umask(braid_linux::confinement::READABLE);
    cli::run()
}
