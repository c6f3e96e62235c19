//! Whether somebody looks on while something takes long.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard error is the process's, so this is too.
static A_PROGRAM_READS: AtomicBool = AtomicBool::new(false);

/// The user asked for JSON: no progress is shown from now on.
pub fn not_any_more() {
    A_PROGRAM_READS.store(true, Ordering::Relaxed);
}

/// Progress belongs on standard error.
pub fn is_wanted() -> bool {
    !A_PROGRAM_READS.load(Ordering::Relaxed) && stderr().is_terminal()
}
