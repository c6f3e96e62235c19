//! A remote shell: started, its messages collected, ended.

use crate::error::Error;
use crate::ssh_said::{SshFailure, ssh_failure};
use crate::wire::Connection;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Ends the shell with the connection; empty if there is none.
#[derive(Default)]
pub struct Guard(Option<Shell>);

struct Shell {
    child: Child,
    /// It is OpenSSH, whose exit code and messages have a known meaning.
    is_ssh: bool,
    heard: Arc<AtomicBool>,
    complaints: Arc<Mutex<Complaints>>,
}

/// What the shell wrote on its standard error, the last of it.
#[derive(Default)]
struct Complaints {
    text: Vec<u8>,
    ended: bool,
}

/// How much of the error output is kept.
const KEPT: usize = 4096;
/// A shell whose connection was closed ends by itself within this.
const END_WITHIN: Duration = Duration::from_secs(5);
/// The last output of a shell that has ended arrives within this; processes it left behind may hold
/// its standard error forever.
const SAY_WITHIN: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// From here on a code means a signal,
const BY_SIGNAL: i32 = 128;
/// or that OpenSSH itself failed, and not the command at the other end.
const SSH_FAILED: i32 = 255;

impl Guard {
    /// Starts `shell` with its arguments for `remote`, a command at `host`.
    pub(super) fn start(
        shell: &[String],
        port: Option<u16>,
        host: &str,
        remote: &str,
    ) -> Result<(Connection, Guard), Error> {
        let Some((program, arguments)) = shell.split_first() else {
            return Err(Error::Refused("the remote shell's command is empty".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(port) = port {
            command.args(["-p", &port.to_string()]);
        }
        let mut child = command
            .args([host, remote])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::Refused(format!("{program} is not installed")),
                _ => Error::Io { doing: format!("starting {program}"), error },
            })?;
        let complaints = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            let complaints = Arc::clone(&complaints);
            let ear = thread::Builder::new().spawn(move || listen(stderr, &complaints));
            if let Err(error) = ear {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Io { doing: format!("listening to {program}"), error });
            }
        }
        let (Some(out), Some(incoming)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Refused(format!("{program} has no input or output")));
        };
        let connection =
            Connection::over(File::from(OwnedFd::from(incoming)), File::from(OwnedFd::from(out)));
        let is_ssh = Path::new(program).file_name().is_some_and(|name| name == "ssh");
        let heard = connection.incoming.heard();
        Ok((connection, Guard(Some(Shell { child, is_ssh, heard, complaints }))))
    }

    /// Waits for the shell; an error in its exit code is added to the outcome's.
    ///
    /// # Errors
    /// The outcome's.
    pub fn finish<T>(mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        let Some(mut shell) = self.0.take() else { return outcome };
        let code = shell.end();
        match (outcome, code) {
            (Err(Error::Connection(why)), Some(code)) if code != 0 => Err(shell.why(&why, code)),
            (outcome, _) => outcome,
        }
    }
}

impl Shell {
    /// Its exit code, if it ended by itself.
    fn end(&mut self) -> Option<i32> {
        let until = Instant::now() + END_WITHIN;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < until => thread::sleep(LOOK_AGAIN),
                Ok(None) | Err(_) => {
                    self.kill();
                    return None;
                }
                Ok(status) => return status.and_then(|status| status.code()),
            }
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Why the connection broke: whether that is permanent can be judged only before the other end
    /// was heard.
    fn why(&self, why: &str, code: i32) -> Error {
        // As in shells: 127 not found, 126 not executable.
        if code == 127 {
            return Error::Refused(
                "braid isn't installed at the other end, or not in the PATH there; \
                 name it with --remote-braid"
                    .to_owned(),
            );
        }
        let never_heard = !self.heard.load(Ordering::Relaxed);
        if self.is_ssh && never_heard {
            let said = self.said();
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            if code < BY_SIGNAL {
                let last = last.map_or_else(String::new, |line| format!(": {line}"));
                return Error::Refused(format!(
                    "the command at the other end failed ({code}){last}"
                ));
            }
            match last.filter(|_| code == SSH_FAILED).map(|last| (ssh_failure(&said), last)) {
                Some((SshFailure::Lasting, last)) => {
                    return Error::Refused(format!("{last} (the remote shell ended with {code})"));
                }
                Some((SshFailure::Nameless, last)) => return Error::Nameless(last.to_owned()),
                Some((SshFailure::Passing, _)) | None => {}
            }
        }
        Error::Connection(format!("{why} (the remote shell ended with {code})"))
    }

    fn said(&self) -> String {
        let until = Instant::now() + SAY_WITHIN;
        loop {
            let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
            if complaints.ended || Instant::now() > until {
                let text = String::from_utf8_lossy(&complaints.text).into_owned();
                return text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
            }
            drop(complaints);
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Shows the shell's output, and keeps the end of it.
fn listen(mut from: ChildStderr, complaints: &Mutex<Complaints>) {
    let mut buffer = [0; 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.unwrap_or(0),
        };
        let some = buffer.get(..read).unwrap_or_default();
        // With stderr closed there is nobody to tell.
        let _ = io::stderr().write_all(some);
        let mut complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        complaints.text.extend_from_slice(some);
        let beyond = complaints.text.len().saturating_sub(KEPT);
        complaints.text.drain(..beyond);
        complaints.ended = some.is_empty();
        if complaints.ended {
            return;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut shell) = self.0.take() {
            shell.kill();
        }
    }
}
