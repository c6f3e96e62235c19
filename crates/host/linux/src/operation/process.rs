//! Programs that stay, such as teamd and pppd: known by a file with their number.

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

/// A program that doesn't like its options ends within this.
const EARLY: Duration = Duration::from_millis(300);
/// pppd says goodbye to the other end; then it is killed.
const FAREWELL: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

/// That a program didn't stay, and its last words.
#[derive(Debug, thiserror::Error)]
#[error("{program} ended at once ({status}): {last}")]
pub(super) struct EndedAtOnce {
    program: String,
    status: ExitStatus,
    last: String,
}

/// Starts it in a session of its own; its output goes to a log beside the file
/// with its number.
///
/// # Errors
/// What the system says; [`EndedAtOnce`].
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
    // So that it doesn't stay as a zombie when it ends.
    std::thread::Builder::new()
        .name(program.chars().take(15).collect())
        .spawn(move || child.wait())?;
    Ok(())
}

/// Whether the program that was started so runs.
pub(super) fn is_running(name: &str, pid_file: &Path) -> io::Result<bool> {
    Ok(number(name, pid_file)?.is_some())
}

/// Ends it, and removes its files.
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

/// Its number, if a program of this name still has it.
fn number(name: &str, pid_file: &Path) -> io::Result<Option<i32>> {
    let text = match fs::read_to_string(pid_file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(pid) = text.trim().parse::<i32>() else { return Ok(None) };
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // "pid (name) state …"; a zombie runs no more (proc_pid_stat(5)).
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

/// What it says goes there.
pub(super) fn log_of(pid_file: &Path) -> PathBuf {
    pid_file.with_extension("log")
}
