//! Whether to show progress while something takes long.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Global, like standard error.
static A_PROGRAM_READS: AtomicBool = AtomicBool::new(false);

/// Disables progress from now on, because the user asked for JSON.
pub fn not_any_more() {
    A_PROGRAM_READS.store(true, Ordering::Relaxed);
}

/// Whether to show progress, on standard error.
pub fn is_wanted() -> bool {
    !A_PROGRAM_READS.load(Ordering::Relaxed) && stderr().is_terminal()
}
