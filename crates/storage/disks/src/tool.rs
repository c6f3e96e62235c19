//! Running other programs for what the kernel doesn't say.

use braid_tool::{find, run, search_path};
use std::io;
use std::process::Command;
use std::time::Duration;

/// What a program answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program isn't installed.
    #[error("{0} is not installed")]
    Missing(String),
    /// It didn't end in time and was killed: a disk that doesn't answer.
    #[error("{0} did not answer within {1:?}")]
    Silent(String, Duration),
    /// It couldn't be started, or its output not read.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// Runs `program` with nothing to read, in the C locale, for at most `limit`.
///
/// # Errors
/// [`ToolError::Missing`] when it isn't installed, [`ToolError::Silent`] when it didn't end in
/// time and was killed, [`ToolError::Io`] when it can't be started or waited for. That it failed
/// is in the answer.
pub fn ask(program: &str, arguments: &[&str], limit: Duration) -> Result<Answer, ToolError> {
    let missing = || ToolError::Missing(program.to_owned());
    // By its path: if the standard library has to search a changed PATH it forks, and copies all of
    // this process's pages only for the child to discard them.
    let mut command = Command::new(find(program).ok_or_else(missing)?);
    command.args(arguments).env("LC_ALL", "C.UTF-8").env("PATH", search_path());
    let outcome = run(&mut command, b"", limit).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(),
        // It may be stuck in the kernel, unreachable by signals.
        io::ErrorKind::TimedOut => ToolError::Silent(program.to_owned(), limit),
        _ => ToolError::Io(program.to_owned(), error),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Answer {
        status: outcome.status.code(),
        out: text(&outcome.stdout),
        err: text(&outcome.stderr),
    })
}
