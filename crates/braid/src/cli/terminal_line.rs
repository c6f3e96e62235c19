//! A progress line: the last line of a terminal, rewritten again and again. Everything else on
//! standard error goes above it.

use std::io::{Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether it is shown now; global, like standard error.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Moves the cursor to the beginning of the line, and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Cuts the line at the terminal's edge: if it wrapped, only part of it could be cleared.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Replaces the line's text.
pub fn show(text: &str) {
    let mut shown = shown();
    // In one write: a kill between two would leave a terminal that doesn't wrap. If stderr is
    // closed nobody can be told, here and below.
    let _ = stderr().write_all(format!("{CLEAR}{NO_WRAP}{text}{WRAP}").as_bytes());
    let _ = stderr().flush();
    *shown = true;
}

/// Clears the line.
pub fn clear() {
    clear_if(&mut shown());
}

/// Clears the line while `print` prints permanent output.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    let mut shown = shown();
    clear_if(&mut shown);
    print()
}

/// Prints a permanent line.
pub fn say(text: &str) {
    let mut shown = shown();
    clear_if(&mut shown);
    let _ = writeln!(stderr(), "{text}");
}

fn clear_if(shown: &mut bool) {
    if std::mem::take(shown) {
        let _ = write!(stderr(), "{CLEAR}");
        let _ = stderr().flush();
    }
}

fn shown() -> MutexGuard<'static, bool> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
