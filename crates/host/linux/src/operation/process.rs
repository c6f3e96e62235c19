//! Long-running programs, such as teamd and pppd, identified by a pid file.

#![allow(unsafe_code)]

use super::file;
use crate::sys;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program that rejects its options exits within this time.
const EARLY: Duration = Duration::from_millis(300);
/// pppd gets this long to terminate its link; then it is killed.
const FAREWELL: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

/// A program exited at once; with its last output.
#[derive(Debug, thiserror::Error)]
#[error("{program} exited at once ({status}): {last}")]
pub(super) struct EndedAtOnce {
    program: String,
    status: ExitStatus,
    last: String,
}

/// Starts it in its own session; its output goes to a log beside the pid file.
///
/// # Errors
/// The system's error; [`EndedAtOnce`].
pub(super) fn start(argv: &[String], pid_file: &Path) -> io::Result<()> {
    let [program, arguments @ ..] = argv else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    if let Some(directory) = pid_file.parent() {
        fs::create_dir_all(directory)?;
    }
    let log = log_of(pid_file);
    let out = File::create(&log)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").stdin(Stdio::null());
    command.stdout(out.try_clone()?).stderr(out);
    // SAFETY: between fork and exec only setsid is called, which neither
    // allocates nor locks.
    unsafe {
        command.pre_exec(|| sys::check(libc::setsid()).map(drop));
    }
    let mut child = command.spawn()?;
    fs::write(pid_file, child.id().to_string())?;
    let give_up = Instant::now() + EARLY;
    while Instant::now() < give_up {
        if let Some(status) = child.try_wait()? {
            let said = fs::read_to_string(&log).unwrap_or_default();
            file::remove(pid_file)?;
            file::remove(&log)?;
            let last = said.lines().last().unwrap_or("it said nothing").to_owned();
            return Err(io::Error::other(EndedAtOnce { program: program.clone(), status, last }));
        }
        std::thread::sleep(STEP);
    }
    // Reaps it when it exits.
    std::thread::Builder::new()
        .name(program.chars().take(15).collect())
        .spawn(move || child.wait())?;
    Ok(())
}

/// Whether the program started with this pid file is running.
pub(super) fn is_running(name: &str, pid_file: &Path) -> io::Result<bool> {
    Ok(number(name, pid_file)?.is_some())
}

/// Stops it and removes its files.
pub(super) fn stop(name: &str, pid_file: &Path) -> io::Result<()> {
    if let Some(pid) = number(name, pid_file)? {
        signal(pid, Signal::TERM)?;
        let give_up = Instant::now() + FAREWELL;
        while number(name, pid_file)?.is_some() {
            if Instant::now() >= give_up {
                signal(pid, Signal::KILL)?;
                break;
            }
            std::thread::sleep(STEP);
        }
    }
    file::remove(pid_file)?;
    file::remove(&log_of(pid_file))
}

/// Its process id, if a program with this name still has it.
fn number(name: &str, pid_file: &Path) -> io::Result<Option<i32>> {
    let text = match fs::read_to_string(pid_file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(pid) = text.trim().parse::<i32>() else { return Ok(None) };
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // "pid (name) state …"; a zombie isn't running (proc_pid_stat(5)).
    let Some((before, after)) = status.rsplit_once(") ") else { return Ok(None) };
    let same =
        before.split_once('(').is_some_and(|(_, comm)| comm == name.get(..15).unwrap_or(name));
    Ok((same && !after.starts_with('Z') && pid > 1).then_some(pid))
}

fn signal(pid: i32, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    match kill_process(pid, signal) {
        Err(Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// The file for its output.
pub(super) fn log_of(pid_file: &Path) -> PathBuf {
    pid_file.with_extension("log")
}
