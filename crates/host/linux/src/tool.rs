//! Other programs that do something and end: with a deadline, since whoever waits
//! for one does nothing else. And such as go on and tell of what happens.

use crate::sys;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What it said, and how it ended.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Outcome {
    /// What it said of what went wrong.
    pub(crate) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// Longer answers are cut: a ruleset of 100,000 rules has less.
const MOST: u64 = 32 << 20;
/// How often it is looked at whether the program has ended; the first times sooner.
const STEP_MOST: Duration = Duration::from_millis(20);
/// How long one that is killed is waited for. One that the kernel holds stays.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// What `program` says, for people.
///
/// # Errors
/// What the system says; `TimedOut` when it hasn't ended within `limit`, and was killed.
pub fn said(program: &str, arguments: &[&str], limit: Duration) -> io::Result<String> {
    let outcome = run(Command::new(program).args(arguments), b"", limit)?;
    let text = [outcome.stdout, outcome.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether `program` does it; else what it complained of.
///
/// # Errors
/// As [`said`].
pub fn does(
    program: &Path,
    arguments: &[&OsStr],
    limit: Duration,
) -> io::Result<Result<(), String>> {
    let outcome = run(Command::new(program).args(arguments), b"", limit)?;
    Ok(match (outcome.status.success(), outcome.complaint()) {
        (true, _) => Ok(()),
        (false, said) if said.is_empty() => Err(format!("it ended with {}", outcome.status)),
        (false, said) => Err(said),
    })
}

/// Runs `command` with this on its standard input. Nothing is read or written while
/// it runs, so neither can stand still.
///
/// # Errors
/// What the system says; `TimedOut` when it hasn't ended within `limit`, and was
/// killed.
pub(crate) fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Outcome> {
    let mut given = memory()?;
    given.write_all(input)?;
    given.rewind()?;
    let (mut said, mut complained) = (memory()?, memory()?);
    let mut child = command
        .stdin(Stdio::from(given))
        .stdout(Stdio::from(said.try_clone()?))
        .stderr(Stdio::from(complained.try_clone()?))
        .spawn()?;
    let status = match wait(&mut child, limit)? {
        Some(status) => status,
        None => {
            child.kill()?;
            wait(&mut child, LAST_BREATH)?;
            let program = command.get_program().to_string_lossy().into_owned();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{program} has not ended within {} s, and was killed", limit.as_secs()),
            ));
        }
    };
    Ok(Outcome { status, stdout: contents(&mut said)?, stderr: contents(&mut complained)? })
}

/// A program that goes on until it ends by itself, or this is dropped.
#[derive(Debug)]
pub struct Following(Child);

impl Following {
    /// Starts it, and gives what it says. It ends with the thread that calls this, too, so that
    /// a daemon that is killed leaves none behind.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(program: &str, arguments: &[&str]) -> io::Result<(Following, ChildStdout)> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: prctl allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| {
                sys::check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)).map(drop)
            });
        }
        let mut following = Following(command.spawn()?);
        let said = following.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((following, said))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It has ended by itself, or is taken away; one that the kernel holds stays.
        let _ = self.0.kill();
        let _ = wait(&mut self.0, LAST_BREATH);
    }
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
    // SAFETY: a name that ends with zero, and no other pointers.
    let fd = sys::check(unsafe { libc::memfd_create(c"braid".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: it was just opened, and is nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut contents = Vec::new();
    file.take(MOST).read_to_end(&mut contents)?;
    Ok(contents)
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
    fn who_refuses_says_why() {
        let sh = |script: &str| {
            does(Path::new("sh"), &[OsStr::new("-c"), OsStr::new(script)], LONG).unwrap()
        };
        assert_eq!(sh("echo fine"), Ok(()));
        assert_eq!(sh("echo no >&2; exit 3"), Err("no".to_owned()));
        assert_eq!(sh("exit 3"), Err("it ended with exit status: 3".to_owned()));
    }

    #[test]
    fn more_than_a_pipe_holds_stops_nobody() {
        let input = vec![b'x'; 1 << 20];
        let outcome = sh("cat; cat /dev/stdin >&2", &input, LONG).unwrap();
        assert_eq!(outcome.stdout.len(), input.len());
    }

    #[test]
    fn a_program_that_is_followed_ends_with_who_follows() {
        let (following, mut said) =
            Following::start("sh", &["-c", "echo $$; exec sleep 3600"]).unwrap();
        let mut pid = [0; 16];
        let len = said.read(&mut pid).unwrap();
        let process = format!("/proc/{}", String::from_utf8_lossy(&pid[..len]).trim());
        assert!(Path::new(&process).exists());
        drop(following);
        assert!(!Path::new(&process).exists());
        assert_eq!(said.read(&mut pid).unwrap(), 0);
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let killed = sh("echo $$; exec sleep 3600", b"", Duration::from_millis(200));
        assert_eq!(killed.map(|_| ()).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
