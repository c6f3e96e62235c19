//! Asking other programs, where the kernel can't be asked.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a program said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Why it said nothing.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program isn't installed.
    #[error("{0} is not installed")]
    Missing(String),
    /// It didn't end in time and was killed: a disk that doesn't answer.
    #[error("{0} did not answer within {1:?}")]
    Silent(String, Duration),
    /// It could not be started or listened to.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// Longer answers are cut.
const LONGEST: u64 = 8 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs `program` with nothing to read, in the C locale, for at most `limit`.
///
/// # Errors
/// [`ToolError::Missing`] when it isn't installed, [`ToolError::Silent`] when it didn't end in
/// time and was killed, [`ToolError::Io`] when it can't be started or waited for. That it failed
/// is in the answer.
pub fn ask(program: &str, arguments: &[&str], limit: Duration) -> Result<Answer, ToolError> {
    let io = |error| ToolError::Io(program.to_owned(), error);
    let missing = || ToolError::Missing(program.to_owned());
    // By its path: with a PATH of its own to be searched the standard library forks, and
    // copies all of this process's pages for the child to throw away.
    let mut child = Command::new(find(program).ok_or_else(missing)?)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => io(error),
        })?;
    let out = child.stdout.take().map(listen);
    let err = child.stderr.take().map(listen);
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break status;
        }
        if Instant::now() > deadline {
            // It may be stuck in the kernel, out of a signal's reach: so nobody waits for it.
            let _ = child.kill();
            let _ = child.try_wait();
            return Err(ToolError::Silent(program.to_owned(), limit));
        }
        thread::sleep(LOOK_EVERY);
    };
    let heard = |ear: Option<thread::JoinHandle<String>>| {
        ear.and_then(|ear| ear.join().ok()).unwrap_or_default()
    };
    Ok(Answer { status: status.code(), out: heard(out), err: heard(err) })
}

/// Where the program is, by [`search_path`]; a path is itself.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let is_program = |path: &PathBuf| {
        let about = std::fs::metadata(path);
        about.is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
    };
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(is_program)
}

/// The caller's `PATH`, and where administration programs are: `su`, `sudo` and cron often leave
/// these out.
pub fn search_path() -> String {
    let given = std::env::var("PATH").unwrap_or_default();
    format!("{given}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}

fn listen(from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error still counts.
        let _ = from.take(LONGEST).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
