//! Runs other programs: for their output, for their effect, or to follow what they report.

#![allow(unsafe_code)]

use crate::sys;
use braid_tool::run;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Runs `program` and returns its output.
///
/// # Errors
/// The system's error; `TimedOut` if it didn't end within `limit` and was killed.
pub fn said(program: &str, arguments: &[&str], limit: Duration) -> io::Result<String> {
    let outcome = run(Command::new(program).args(arguments), b"", limit)?;
    let text = [outcome.stdout, outcome.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs `program`; if it fails, returns its error output.
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

/// A running program, killed when this is dropped.
#[derive(Debug)]
pub struct Following(Child);

impl Following {
    /// Starts it and returns its output. It also ends with the calling thread, so that a killed
    /// daemon leaves none behind.
    ///
    /// # Errors
    /// The system's error.
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
        braid_tool::end(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const LONG: Duration = Duration::from_secs(60);

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
}
