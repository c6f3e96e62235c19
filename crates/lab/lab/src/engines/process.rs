use super::EngineError;
use crate::report::CpuSeconds;
use braid_linux::netns::NetNs;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much of a log is shown when something fails, bytes.
const TAIL_BYTES: u64 = 2_000;
/// How long a process has to end after SIGTERM.
const GENTLE: Duration = Duration::from_secs(3);

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the links end.
    Home,
    /// The server.
    Concentrator,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Home => "home",
            Side::Concentrator => "concentrator",
        })
    }
}

/// A running process of an engine. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    side: Side,
    child: Child,
    command: String,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `log`.
    pub(super) fn start(
        side: Side,
        mut command: Command,
        log: PathBuf,
    ) -> Result<Self, EngineError> {
        let text = written(&command);
        let failed = || EngineError::io(format!("{side}: can't start `{text}`"));
        let output = File::create(&log).map_err(failed())?;
        let errors = output.try_clone().map_err(failed())?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(failed())?;
        Ok(Process { side, child, command: text, log })
    }

    /// Returns an error if it has ended.
    pub(super) fn check(&mut self) -> Result<(), EngineError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(EngineError::Died {
                side: self.side,
                command: self.command.clone(),
                status: status.to_string(),
                log: self.log_tail(),
            }),
            Err(error) => Err(EngineError::io(format!("{}: `{}`", self.side, self.command))(error)),
        }
    }

    /// Where it runs.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Whether its output contains one of these.
    pub(super) fn has_said(&self, words: &[&str]) -> bool {
        let output = fs::read(&self.log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        words.iter().any(|word| output.contains(word))
    }

    /// The end of its output, introduced for an error message; empty if there is none.
    pub(super) fn log_tail(&self) -> String {
        let tail = tail(&self.log);
        if tail.is_empty() {
            tail
        } else {
            format!("\n--- {}: {}\n{tail}", self.side, self.command)
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // It isn't reaped yet, so the PID is still its own.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + GENTLE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a shell command to its end, for at most `limit`; its output is appended to `log`.
pub(super) fn run_to_end(
    side: Side,
    mut command: Command,
    shown: &str,
    log: &Path,
    limit: Duration,
) -> Result<(), EngineError> {
    let failed = || EngineError::io(format!("{side}: can't start `{shown}`"));
    let output = File::options().create(true).append(true).open(log).map_err(failed())?;
    let errors = output.try_clone().map_err(failed())?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().map_err(failed())?;
    let deadline = Instant::now() + limit;
    let problem = loop {
        match child.try_wait().map_err(failed())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => break format!("failed ({status})"),
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("did not end within {} s", limit.as_secs());
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = tail(log);
    let log = if said.is_empty() { said } else { format!("\n{said}") };
    Err(EngineError::Command { side, command: shown.to_owned(), problem, log })
}

/// A shell command in a namespace.
pub(super) fn shell(namespace: &NetNs, text: &str) -> Command {
    let mut command = namespace.command("sh");
    command.args(["-c", text]);
    command
}

/// CPU time used so far by the processes and all their descendants; `None` if there are no
/// processes.
pub fn cpu_seconds(processes: &[Process]) -> Option<CpuSeconds> {
    if processes.is_empty() {
        return None;
    }
    let table = process_table();
    let mut total = CpuSeconds::default();
    for process in processes {
        let seconds = of_tree(process.child.id(), &table);
        match process.side {
            Side::Home => total.home += seconds,
            Side::Concentrator => total.concentrator += seconds,
        }
    }
    Some(total)
}

struct Entry {
    parent: u32,
    seconds: f64,
}

fn of_tree(pid: u32, table: &HashMap<u32, Entry>) -> f64 {
    let own = table.get(&pid).map_or(0.0, |entry| entry.seconds);
    let children = table.iter().filter(|(child, entry)| entry.parent == pid && **child != pid);
    own + children.map(|(child, _)| of_tree(*child, table)).sum::<f64>()
}

fn process_table() -> HashMap<u32, Entry> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let Ok(folder) = fs::read_dir("/proc") else { return HashMap::new() };
    folder
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parse_stat(&stat, ticks)?))
        })
        .collect()
}

/// Parent and CPU time (including reaped children) from a line of /proc/PID/stat
/// (proc_pid_stat(5)).
fn parse_stat(stat: &str, ticks: f64) -> Option<Entry> {
    // The command may contain spaces and parentheses; the last parenthesis ends it.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let used: Option<u64> = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum();
    Some(Entry { parent, seconds: used? as f64 / ticks })
}

fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}

fn written(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stat_line_is_read_whatever_the_command_is_called() {
        let line = "12 (a) b (c) S 7 0 0 0 -1 0 0 0 0 0 150 50 25 25 20 0 1 0 0";
        let entry = parse_stat(line, 100.0).unwrap();
        assert_eq!((entry.parent, entry.seconds), (7, 2.5));
        assert!(parse_stat("12 (a", 100.0).is_none());
        assert!(parse_stat("12 (a) S 1", 100.0).is_none());
    }
}
