//! What is printed. Whoever read it may have gone (`| head`): then nobody is told, and what was
//! begun is ended as always.

use std::fmt;
use std::io::{self, Write};

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// As `println!`, which panics when nobody reads.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;
