//! Other programs that do something and end: with a deadline, since whoever waits
//! for one does nothing else.

#![forbid(unsafe_code)]

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What it said, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, of [`MOST`] bytes at the most.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// What it said of what went wrong.
    pub fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// Longer answers are cut, bytes: a ruleset of 100,000 rules has less.
pub const MOST: u64 = 32 << 20;
/// How often it is looked at whether the program has ended; the first times sooner.
const STEP_MOST: Duration = Duration::from_millis(20);
/// How long one that is killed is waited for. One that the kernel holds stays.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Runs `command` with this on its standard input. Nothing is read or written while it runs, nor
/// is a thread started, so neither can stand still: programs that it leaves behind may hold its
/// output for as long as they like.
///
/// # Errors
/// What the system says; `TimedOut` when it hasn't ended within `limit`, and was killed.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Outcome> {
    let mut given = memory()?;
    given.write_all(input)?;
    given.rewind()?;
    let (said, complained) = (memory()?, memory()?);
    let mut child = command
        .stdin(Stdio::from(given))
        .stdout(Stdio::from(said.try_clone()?))
        .stderr(Stdio::from(complained.try_clone()?))
        .spawn()?;
    let Some(status) = wait(&mut child, limit)? else {
        end(&mut child);
        let program = command.get_program().to_string_lossy().into_owned();
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("{program} has not ended within {} s, and was killed", limit.as_secs()),
        ));
    };
    Ok(Outcome { status, stdout: contents(&said)?, stderr: contents(&complained)? })
}

/// Kills it, unless it has ended, and waits for that for a moment: one that the kernel holds stays.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = wait(child, LAST_BREATH);
}

/// The caller's `PATH`, and where administration programs are: `su`, `sudo` and cron often leave
/// these out.
pub fn search_path() -> String {
    let given = std::env::var("PATH").unwrap_or_default();
    format!("{given}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}

/// Where the program is, by [`search_path`]; a path is itself.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let is_program = |path: &PathBuf| {
        let about = std::fs::metadata(path);
        about.is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
    };
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(is_program)
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let give_up = Instant::now() + limit;
    let mut step = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(step.min(left));
        step = (step * 2).min(STEP_MOST);
    }
}

/// A file without a name, in memory.
fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create(c"braid", MemfdFlags::CLOEXEC)?))
}

/// Wherever those who write it are just now.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    FromBeginning { file, at: 0 }.take(MOST).read_to_end(&mut contents)?;
    Ok(contents)
}

/// Where a file is read and written is one place for all who have it.
struct FromBeginning<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromBeginning<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: &[u8], limit: Duration) -> io::Result<Outcome> {
        run(Command::new("sh").args(["-c", script]), input, limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_it_says_and_how_it_ends_is_told() {
        let outcome = sh("cat; echo no >&2; exit 3", b"given", LONG).unwrap();
        assert_eq!(outcome.status.code(), Some(3));
        assert_eq!((&outcome.stdout[..], outcome.complaint()), (&b"given"[..], "no".to_owned()));
    }

    #[test]
    fn more_than_a_pipe_holds_stops_nobody() {
        let input = vec![b'x'; 1 << 20];
        let outcome = sh("cat; cat /dev/stdin >&2", &input, LONG).unwrap();
        assert_eq!(outcome.stdout.len(), input.len());
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let killed = sh("echo $$; exec sleep 3600", b"", Duration::from_millis(200));
        assert_eq!(killed.map(|_| ()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// As `btrfs scrub start` does.
    #[test]
    fn a_program_that_it_leaves_behind_is_not_waited_for() {
        let outcome = sh("sleep 3600 & echo $!", b"", LONG).unwrap();
        assert_eq!(outcome.status.code(), Some(0));
        let left = String::from_utf8(outcome.stdout).unwrap();
        let process = format!("/proc/{}/comm", left.trim());
        assert!(std::fs::read_to_string(&process).is_ok(), "it runs on, and holds the output");
        let ended = Command::new("kill").arg(left.trim()).status().unwrap();
        assert!(ended.success());
    }

    #[test]
    fn a_program_is_found_where_administrators_are_and_by_its_path() {
        assert!(find("sh").is_some_and(|sh| sh.is_absolute()));
        assert_eq!(find("./here"), Some("./here".into()));
        assert_eq!(find("no-such-program-at-all"), None);
        assert!(search_path().contains("/usr/sbin"));
    }
}
