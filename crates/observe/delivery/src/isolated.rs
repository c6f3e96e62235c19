use crate::words::foreign;
use braid_alert::{Alert, Deliver, Message};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Delivers in a separate process, which ends within a bounded time and can't grow: whatever a
/// server answers, the caller survives.
#[derive(Clone, Debug)]
pub struct Isolated {
    program: PathBuf,
    arguments: Vec<OsString>,
    deadline: Duration,
}

/// The process' standard input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The recipient.
    pub alert: Alert,
    /// The message.
    pub message: Message,
}

/// From the start to the end of the process.
const DEADLINE: Duration = Duration::from_secs(45);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Limit of address space, bytes: several times what TLS and the host's certificates need.
const MEMORY: u64 = 512 << 20;
/// Limit of processor time, seconds.
const PROCESSOR: u64 = 20;
/// Maximum length of the process' output that is read, bytes.
const MOST_TOLD: u64 = 4096;
const MOST_JOB: u64 = 4 << 20;

impl Isolated {
    /// Delivers with this program, which calls [`run_job`] when it is started with these arguments.
    pub fn by(program: PathBuf, arguments: Vec<OsString>) -> Isolated {
        Isolated { program, arguments, deadline: DEADLINE }
    }

    /// Sets another deadline.
    pub fn within(self, deadline: Duration) -> Isolated {
        Isolated { deadline, ..self }
    }
}

impl Deliver for Isolated {
    fn deliver(&self, alert: &Alert, message: &Message) -> Result<(), String> {
        let job = Job { alert: alert.clone(), message: message.clone() };
        let job = serde_json::to_vec(&job).map_err(|error| error.to_string())?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // If it has ended already, its output says why.
            let _ = stdin.write_all(&job);
        }
        let outcome = self.wait(&mut child);
        // A command may have left processes behind.
        if let Ok(pid) = i32::try_from(child.id()) {
            let _ = Pid::from_raw(pid).map(|group| kill_process_group(group, Signal::KILL));
        }
        let _ = child.wait();
        outcome
    }
}

impl Isolated {
    fn wait(&self, child: &mut Child) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let told = said(child);
                    return Err(if told.is_empty() { status.to_string() } else { told });
                }
                None if begun.elapsed() > self.deadline => {
                    return Err(format!("not done within {} s", self.deadline.as_secs()));
                }
                None => thread::sleep(LOOK_EVERY),
            }
        }
    }
}

/// Its output, without waiting for more: other processes may hold its end of the pipe open.
fn said(child: &mut Child) -> String {
    let Some(stderr) = child.stderr.take() else { return String::new() };
    let mut text = Vec::new();
    if rustix::io::ioctl_fionbio(&stderr, true).is_ok() {
        let _ = stderr.take(MOST_TOLD).read_to_end(&mut text);
    }
    foreign(&String::from_utf8_lossy(&text))
}

/// The process' part: reads a job from `input` and carries it out, within its limits.
///
/// # Errors
/// Why the message didn't arrive, in words.
pub fn run_job(input: impl Read) -> Result<(), String> {
    limit(Resource::As, MEMORY).map_err(|error| error.to_string())?;
    limit(Resource::Cpu, PROCESSOR).map_err(|error| error.to_string())?;
    let job: Job = serde_json::from_reader(input.take(MOST_JOB))
        .map_err(|error| format!("the job can't be read: {error}"))?;
    crate::deliver(&job.alert, &job.message)
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(resource, limit).map_err(io::Error::from)
}
