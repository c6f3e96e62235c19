//! The last line of a terminal, which tells how far something is and is written again and again.
//! Whatever else is said on standard error goes above it.

use std::io::{Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether it is there now; standard error is the process's, so this is too.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Puts the cursor where the line begins, and clears it.
const CLEAR: &str = "\r\x1b[K";
/// So that a line longer than the terminal is wide ends at its edge: of one that goes on in the
/// next, only a part could be cleared.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Shows this instead of what it showed.
pub fn show(text: &str) {
    let mut shown = shown();
    // At once: killed between two writes, it would leave a terminal that doesn't wrap. With stderr
    // closed nobody can be told, here and below.
    let _ = stderr().write_all(format!("{CLEAR}{NO_WRAP}{text}{WRAP}").as_bytes());
    let _ = stderr().flush();
    *shown = true;
}

/// Leaves the terminal clean.
pub fn clear() {
    clear_if(&mut shown());
}

/// Leaves the terminal clean while `print` prints what stays.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    let mut shown = shown();
    clear_if(&mut shown);
    print()
}

/// Says something that stays.
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
