use crate::console::Console;
use crate::error::VmError;
use crate::guard::Guard;
use crate::guest;
use crate::processor::Processor;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Interval between checks for its end.
const LOOK: Duration = Duration::from_millis(10);
/// How much of the kernel's log is reported when it dies, bytes.
const LOG_TAIL: usize = 4_000;

/// A running machine. Dropping it cuts its power.
#[derive(Debug)]
pub struct Running {
    child: Child,
    console: Option<Console>,
    guard: Option<Guard>,
    share: TempDir,
    kernel_log: PathBuf,
    started: Instant,
    limit: Duration,
    _processor: Option<Processor>,
    ended: bool,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit status; 128 plus the signal's number if one ended it.
    pub status: i32,
    /// Its output, standard output and error interleaved.
    pub console: String,
}

impl Output {
    /// Whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }
}

impl Running {
    pub(crate) fn new(
        child: Child,
        console: Option<Console>,
        share: TempDir,
        kernel_log: PathBuf,
        limit: Duration,
        processor: Option<Processor>,
    ) -> Self {
        let started = Instant::now();
        Running {
            child,
            console,
            guard: None,
            share,
            kernel_log,
            started,
            limit,
            _processor: processor,
            ended: false,
        }
    }

    pub(crate) fn guard(&mut self, guard: Guard) {
        self.guard = Some(guard);
    }

    /// The number of its process and process group on the host.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn console(&self) -> String {
        self.console.as_ref().map(Console::so_far).unwrap_or_default()
    }

    /// Waits until it has printed `text`.
    ///
    /// # Errors
    /// It ended, or the time passed, without printing it.
    pub fn wait_for(&self, text: &str, within: Duration) -> Result<(), VmError> {
        if self.console.as_ref().is_some_and(|console| console.wait_for(text, within)) {
            return Ok(());
        }
        Err(VmError::NotPrinted { text: text.to_owned(), within, console: self.console() })
    }

    /// Whether it has ended; then [`Running::wait`] returns at once.
    pub fn is_over(&self) -> bool {
        self.has_ended()
    }

    /// Waits until the command has ended and the machine is off.
    ///
    /// # Errors
    /// The time limit passed, or the kernel died.
    pub fn wait(mut self) -> Result<Output, VmError> {
        let deadline = self.started + self.limit;
        loop {
            if self.has_ended() {
                break;
            }
            if Instant::now() >= deadline {
                let limit = self.limit;
                return Err(VmError::TimeLimit { limit, console: self.power_cut() });
            }
            thread::sleep(LOOK);
        }
        // Its other processes have ended by themselves, or do so now.
        self.end();
        let console = self.console.as_mut().map(Console::all).unwrap_or_default();
        match guest::status(self.share.path()) {
            Some(status) => Ok(Output { status, console }),
            None => Err(VmError::Died { console, kernel_log: self.kernel_log() }),
        }
    }

    /// Ends it at once, as if its plug were pulled: what it hadn't written to its disks is lost.
    /// Returns its output.
    pub fn power_cut(mut self) -> String {
        self.end();
        self.console.as_mut().map(Console::all).unwrap_or_default()
    }

    /// Whether the first process has ended; it isn't reaped, so that its number stays the group's.
    fn has_ended(&self) -> bool {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), how), Ok(None))
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        // It isn't reaped yet, so the number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        self.guard = None;
    }

    fn kernel_log(&self) -> String {
        let log = fs::read(&self.kernel_log).unwrap_or_default();
        let from = log.len().saturating_sub(LOG_TAIL);
        String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
