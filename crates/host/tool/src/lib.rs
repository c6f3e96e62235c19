//! Runs other programs to their end, with a deadline, since the caller blocks meanwhile.

#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program's output and exit status.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, at most [`MOST`] bytes.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Its error message.
    pub fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// Maximum output, bytes; a program that prints more is killed. A ruleset of 100,000 rules is
/// smaller.
pub const MOST: u64 = 32 << 20;
/// How often to check whether the output is too large; also whether the program has ended, if the
/// kernel can't notify: then the first checks come sooner.
const STEP_MOST: Duration = Duration::from_millis(20);
const STEP_LEAST: Duration = Duration::from_micros(500);
/// How long to wait for a killed program. One blocked in the kernel is left behind.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Runs `command` with `input` as its standard input. Input and output are files, so nothing is
/// read or written while it runs and no thread is needed: programs that it leaves behind may hold
/// its output as long as they like without blocking us.
///
/// # Errors
/// The system's error; `TimedOut` when it hasn't ended within `limit`, and `FileTooLarge` when it
/// said more than [`MOST`]: it was killed.
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
    let says_too_much = || [&said, &complained].iter().any(|file| is_too_much(file));
    let ended = wait_within(&mut child, limit, says_too_much);
    let outcome = ended.and_then(|ended| match ended {
        Ended::Itself(status) => {
            Ok(Outcome { status, stdout: contents(&said)?, stderr: contents(&complained)? })
        }
        Ended::Not(why) => {
            end(&mut child);
            let program = command.get_program().to_string_lossy();
            Err(why.of(&program, limit))
        }
    });
    // A program that still has them open would fill memory for nothing.
    for file in [said, complained] {
        let _ = fcntl_add_seals(&file, SealFlags::GROW);
    }
    outcome
}

/// Kills it, unless it has ended, and waits a moment for its end: one blocked in the kernel is left
/// behind.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = wait(child, LAST_BREATH);
}

/// The caller's `PATH` plus the folders of administration programs: `su`, `sudo` and cron often
/// leave these out.
pub fn search_path() -> String {
    search_path_after(&std::env::var("PATH").unwrap_or_default())
}

/// An empty part would mean the current folder, which may be anybody's.
fn search_path_after(given: &str) -> String {
    let given = given.split(':').filter(|folder| !folder.is_empty());
    given.chain(ADMINISTRATION).collect::<Vec<_>>().join(":")
}

const ADMINISTRATION: [&str; 5] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Finds the program in [`search_path`]; a path is returned as is.
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

/// Whether a program has ended.
enum Ended {
    Itself(ExitStatus),
    Not(Why),
}

/// Why waiting ended.
enum Why {
    Late,
    SaysTooMuch,
}

impl Why {
    fn of(self, program: &str, limit: Duration) -> io::Error {
        let (kind, what) = match self {
            Why::Late => {
                (io::ErrorKind::TimedOut, format!("has not ended within {} s", limit.as_secs()))
            }
            Why::SaysTooMuch => {
                (io::ErrorKind::FileTooLarge, format!("says more than {} MiB", MOST >> 20))
            }
        };
        io::Error::new(kind, format!("{program} {what}, and was killed"))
    }
}

/// Waits until it ends by itself, exceeds the time limit, or prints too much, which is checked
/// periodically.
fn wait_within(
    child: &mut Child,
    limit: Duration,
    says_too_much: impl Fn() -> bool,
) -> io::Result<Ended> {
    let give_up = Instant::now() + limit;
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        if let Some(status) = wait(child, left.min(STEP_MOST))? {
            return Ok(Ended::Itself(status));
        }
        if says_too_much() {
            return Ok(Ended::Not(Why::SaysTooMuch));
        }
        if left.is_zero() {
            return Ok(Ended::Not(Why::Late));
        }
    }
}

/// Waits until it ends, at most for `limit`; `None` if it is still running.
///
/// # Errors
/// The system's error.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let give_up = Instant::now() + limit;
    // Linux can notify of its end since 5.3.
    let end = Pid::from_raw(child.id().cast_signed())
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut step = STEP_LEAST;
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        match &end {
            Some(end) => sleep_until(end, left)?,
            None => std::thread::sleep(step.min(left)),
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if left.is_zero() {
            return Ok(None);
        }
        step = (step * 2).min(STEP_MOST);
    }
}

/// Sleeps until the process of `end` has ended, the time has passed, or a signal came.
fn sleep_until(end: &OwnedFd, left: Duration) -> io::Result<()> {
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&left)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file without a name, in memory.
fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create(c"braid", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?))
}

fn is_too_much(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.len() > MOST)
}

/// Reads the whole file, whatever the writers' current offset.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    FromBeginning { file, at: 0 }.take(MOST).read_to_end(&mut contents)?;
    Ok(contents)
}

/// All holders of a file share one offset, so this reads at explicit offsets.
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
    fn one_that_runs_on_is_waited_for_again() {
        let mut command = Command::new("sh");
        command.args(["-c", "read -r line; exit 3"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert!(wait(&mut child, Duration::from_millis(20)).unwrap().is_none());
        drop(child.stdin.take());
        for _ in 0..2 {
            assert_eq!(wait(&mut child, LONG).unwrap().and_then(|status| status.code()), Some(3));
        }
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let killed = sh("echo $$; exec sleep 3600", b"", Duration::from_millis(200));
        assert_eq!(killed.map(|_| ()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// Its output is in memory.
    #[test]
    fn what_says_more_than_anybody_wants_is_killed_and_what_it_leaves_behind_says_no_more() {
        let error = sh("exec head -c 500000000 /dev/zero", b"", LONG).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "sh says more than 32 MiB, and was killed");
        let folder = std::env::temp_dir().join(format!("braid-tool-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let told = folder.join("told");
        // It runs until nothing reads its output any more.
        let script = format!(
            "(while [ -d /proc/$$ ]; do sleep 0.01; done; sleep 0.1; head -c 500000000 /dev/zero; \
             echo $? >{0}.new; mv {0}.new {0}) 2>/dev/null &",
            told.display()
        );
        sh(&script, b"", LONG).unwrap();
        let status = loop {
            match std::fs::read_to_string(&told) {
                Ok(status) => break status,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(status.trim(), "1", "it could write no more");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Like `btrfs scrub start`.
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
        // Never where the caller happens to be.
        let only = ADMINISTRATION.join(":");
        assert_eq!(search_path_after(""), only);
        assert_eq!(search_path_after("/opt/bin::/x:"), format!("/opt/bin:/x:{only}"));
    }
}
