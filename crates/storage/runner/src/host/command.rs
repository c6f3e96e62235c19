//! Programs, run without a shell.

#![allow(unsafe_code)]

use braid_pool::step::Argv;
use braid_tool::{search_path, wait};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often a running program is checked.
const TICK: Duration = Duration::from_millis(50);
/// How much of a program's output goes into an error.
const TAIL: u64 = 2000;

/// What happens to the program when this process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenKilled {
    /// It is killed too: it must not keep writing while the plan is resumed.
    Dies,
    /// It continues: the kernel does the work and can be asked for its progress.
    GoesOn,
}

/// Whether to keep waiting for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Yes.
    GoOn,
    /// No: it is left alone, as if we had been killed.
    Stop,
}

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It couldn't be started.
    #[error("{program}: {error}{}", missing(error))]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// It ended with an error.
    #[error("`{argv}` {}{}{}", ended(status), said(tail), no_md(argv))]
    Failed {
        /// Program and arguments.
        argv: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        tail: String,
    },
    /// Waiting for it was stopped.
    #[error("stopped")]
    Stopped,
    /// Its output couldn't be stored.
    #[error("{}: {error}", path.display())]
    Output {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Runs a program to its end: in the C locale, with its step's input on stdin, in its own process
/// group (Ctrl-C reaches only us), its output appended to `output`. `tick` is called while it runs.
pub fn run(
    argv: &Argv,
    output: &Path,
    when_killed: WhenKilled,
    tick: &mut dyn FnMut() -> Tick,
) -> Result<(), CommandError> {
    let kept = |error| CommandError::Output { path: output.to_owned(), error };
    let mut log = OpenOptions::new().create(true).append(true).open(output).map_err(kept)?;
    writeln!(log, "$ {argv}").map_err(kept)?;
    let from = log.seek(SeekFrom::End(0)).map_err(kept)?;
    let mut child = start(argv, &log, when_killed)?;
    let status = loop {
        match wait(&mut child, TICK) {
            Ok(Some(status)) => break status,
            Ok(None) if tick() == Tick::Stop => return Err(CommandError::Stopped),
            Ok(None) => {}
            Err(error) => return Err(CommandError::Start { program: argv.to_string(), error }),
        }
    };
    if status.success() {
        return Ok(());
    }
    let tail = tail(output, from).map_err(kept)?;
    Err(CommandError::Failed { argv: argv.to_string(), status, tail })
}

fn start(argv: &Argv, log: &File, when_killed: WhenKilled) -> Result<Child, CommandError> {
    let failed = |error| CommandError::Start { program: argv.program.clone(), error };
    let mut command = Command::new(&argv.program);
    command
        .args(&argv.args)
        .envs([("LC_ALL", "C"), ("LANGUAGE", "C")])
        .env("PATH", search_path())
        .stdin(if argv.input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log.try_clone().map_err(failed)?)
        .process_group(0);
    if when_killed == WhenKilled::Dies {
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of ours.
        unsafe {
            let parent = libc::getpid();
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent died before it could be watched.
                if libc::getppid() != parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
    }
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // Inputs are far smaller than a pipe, so this doesn't block. A program that reads none of
        // it says why.
        let _ = input.write_all(argv.input.as_bytes());
    }
    Ok(child)
}

fn tail(output: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(output)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn ended(status: &ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended strangely".to_owned(),
    }
}

fn said(tail: &str) -> String {
    if tail.is_empty() { String::new() } else { format!(": {tail}") }
}

/// mdadm's own message is about a device that it can't open.
fn no_md(argv: &str) -> &'static str {
    match argv.starts_with("mdadm ") && !Path::new("/proc/mdstat").exists() {
        true => "; this kernel has no md (there is no /proc/mdstat): try `modprobe md_mod`",
        false => "",
    }
}

fn missing(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => " (not installed?)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str) -> Argv {
        Argv::new("sh", ["-c", script])
    }

    #[test]
    fn what_a_failing_program_said_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let failing = shell("echo no such disk >&2; exit 3");
        let error = run(&failing, &output, WhenKilled::Dies, &mut || Tick::GoOn).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("ended with status 3: no such disk"), "{message}");
        let again = run(&shell("exit 4"), &output, WhenKilled::Dies, &mut || Tick::GoOn);
        assert!(!again.unwrap_err().to_string().contains("no such disk"));
        assert!(std::fs::read_to_string(&output).unwrap().contains("no such disk"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = Argv::new("braid-no-such-program", [""; 0]);
        let output = folder.path().join("output");
        let error = run(&nothing, &output, WhenKilled::Dies, &mut || Tick::GoOn).unwrap_err();
        assert!(error.to_string().contains("not installed"), "{error}");
    }

    #[test]
    fn it_speaks_english_reads_nothing_and_is_not_in_our_group() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let script = "cat; echo $LC_ALL; test $(ps -o pgid= -p $$) = $$ && echo leads";
        run(&shell(script), &output, WhenKilled::Dies, &mut || Tick::GoOn).unwrap();
        let text = std::fs::read_to_string(&output).unwrap();
        assert!(text.ends_with("C\nleads\n"), "{text}");
        let reads = Argv::new("cat", [""; 0]).with_input("given".to_owned());
        run(&reads, &output, WhenKilled::Dies, &mut || Tick::GoOn).unwrap();
        assert!(std::fs::read_to_string(&output).unwrap().ends_with("given"));
    }

    #[test]
    fn when_stopped_a_long_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let slow = shell("sleep 0.5; echo done");
        let stopped = run(&slow, &output, WhenKilled::GoesOn, &mut || Tick::Stop);
        assert!(matches!(stopped, Err(CommandError::Stopped)));
        let begun = Instant::now();
        while !std::fs::read_to_string(&output).unwrap().contains("done\n") {
            assert!(begun.elapsed() < Duration::from_secs(20), "it was killed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
