//! Printing. If the reader is gone (`| head`), errors are ignored, and the work in progress ends as
//! always.

use std::fmt;
use std::io::{self, Write};

/// Prints a line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Like `println!`, which however panics if nobody reads.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;
