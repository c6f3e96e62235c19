//! Logging to stderr on a thread of its own, so that neither a full disk nor a stalled reader
//! blocks or kills the threads that log.

use super::supervise::start_thread;
use portable_atomic::{AtomicU64, Ordering};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Maximum waiting lines; a line has some 100 bytes.
const WAITING: usize = 4096;
/// How long to wait for the last lines at the end.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The process's; none before [`init`].
static LOG: OnceLock<Log> = OnceLock::new();

/// Starts logging what `filter` (a level, or levels of modules, as `tracing_subscriber`'s
/// `Targets` reads them) lets through.
pub fn init(filter: &str, json: bool) -> Result<(), LogError> {
    let filter = filter.parse::<Targets>().map_err(|error| {
        LogError::Filter(format!("--log {filter:?}: {error}; write it as \"info\""))
    })?;
    let log = Log::start(io::stderr()).map_err(LogError::Start)?;
    let log = LOG.get_or_init(|| log);
    // Errors of writing to stderr can't be reported on stderr.
    let lines = tracing_subscriber::fmt::layer().with_writer(log).log_internal_errors(false);
    let filtered = tracing_subscriber::registry().with(filter);
    let started = match json {
        true => filtered.with(lines.json()).try_init(),
        false => filtered.with(lines.with_ansi(false).with_target(false)).try_init(),
    };
    started.map_err(|error| LogError::Start(io::Error::other(error)))?;
    std::panic::set_hook(Box::new(tell_panic));
    Ok(())
}

/// The standard library would write to stderr directly, and block if the reader stalls.
fn tell_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let said = info.to_string().replace('\n', " ");
    tracing::error!("the thread {} {said}", thread.name().unwrap_or_default());
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!("{backtrace}");
    }
}

/// Why nothing can be logged.
pub enum LogError {
    /// The filter is invalid.
    Filter(String),
    /// What the system said.
    Start(io::Error),
}

/// Waits a moment until what was logged is written.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.flush();
    }
}

/// The queue of lines for the thread.
struct Log {
    lines: SyncSender<Line>,
    /// Lines dropped because the queue was full.
    lost: Arc<AtomicU64>,
}

enum Line {
    Text(Vec<u8>),
    /// Reports when everything before it is written or lost.
    Flush(Sender<()>),
}

/// A line on its way.
struct Pending<'a>(&'a Log, Vec<u8>);

impl Log {
    fn start(out: impl Write + Send + 'static) -> io::Result<Log> {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { out, lost: lost.clone(), torn: false };
        start_thread("braid-log", move || writer.run(&waiting))?;
        Ok(Log { lines, lost })
    }

    fn flush(&self) {
        let (done, is_done) = channel();
        // Full means that nothing has been written for a long time.
        if self.lines.try_send(Line::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(LAST_LINES);
        }
    }
}

impl<'a> MakeWriter<'a> for &'static Log {
    type Writer = Pending<'a>;

    fn make_writer(&'a self) -> Pending<'a> {
        Pending(self, Vec::new())
    }
}

impl Write for Pending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Pending(log, text) = self;
        if text.is_empty() {
            return;
        }
        if log.lines.try_send(Line::Text(std::mem::take(text))).is_err() {
            log.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Writer<W> {
    out: W,
    lost: Arc<AtomicU64>,
    /// The last line was cut off.
    torn: bool,
}

impl<W: Write> Writer<W> {
    fn run(mut self, waiting: &Receiver<Line>) {
        for line in waiting {
            match line {
                Line::Text(text) => self.write(&text),
                // A caller that went away needs no answer.
                Line::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// First reports how many lines were lost before this one.
    fn write(&mut self, text: &[u8]) {
        let lost = self.lost.load(Ordering::Relaxed);
        let mut whole = Vec::new();
        if self.torn {
            whole.push(b'\n');
        }
        if lost > 0 {
            let _ = writeln!(whole, "({lost} log lines lost: they could not be written)");
        }
        whole.extend_from_slice(text);
        match self.out.write_all(&whole).and_then(|()| self.out.flush()) {
            Ok(()) => {
                self.torn = false;
                self.lost.fetch_sub(lost, Ordering::Relaxed);
            }
            Err(_) => {
                self.torn = true;
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Accepts this many more bytes, like a disk.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let taken = bytes.len().min(disk.0);
            disk.0 -= taken;
            disk.1.extend_from_slice(&bytes[..taken]);
            match taken {
                0 => Err(io::ErrorKind::StorageFull.into()),
                taken => Ok(taken),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_line(log: &'static Log, text: &str) {
        writeln!(log.make_writer(), "{text}").unwrap();
        log.flush();
    }

    #[test]
    fn what_a_full_disk_swallowed_is_counted_and_told_when_there_is_room() {
        let disk = Disk(Arc::new(Mutex::new((10, Vec::new()))));
        let log: &'static Log = Box::leak(Box::new(Log::start(disk.clone()).unwrap()));
        for text in ["first", "second", "third"] {
            log_line(log, text);
        }
        disk.0.lock().unwrap().0 = 1000;
        log_line(log, "fourth");
        log_line(log, "fifth");
        let written = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
        let told = "(2 log lines lost: they could not be written)";
        assert_eq!(written, format!("first\nseco\n{told}\nfourth\nfifth\n"));
    }

    #[test]
    fn a_panic_is_told_in_the_log() {
        let disk = Disk(Arc::new(Mutex::new((10_000, Vec::new()))));
        let log: &'static Log = Box::leak(Box::new(Log::start(disk.clone()).unwrap()));
        let lines = tracing_subscriber::fmt::layer().with_writer(log);
        let logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(tell_panic));
        assert!(std::panic::catch_unwind(|| panic!("half done")).is_err());
        std::panic::set_hook(before);
        drop(logs);
        log.flush();
        let written = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
        assert!(written.contains("log.rs") && written.contains(": half done"), "{written}");
    }

    #[test]
    fn a_reader_that_stands_still_holds_nobody_up() {
        let (read, write) = io::pipe().unwrap();
        let log: &'static Log = Box::leak(Box::new(Log::start(write).unwrap()));
        // More than the pipe and the queue can hold.
        let loses = (0..2 * WAITING).any(|_| {
            writeln!(log.make_writer(), "{}", "x".repeat(100)).unwrap();
            // Check each time: a writer that starts late reports what was lost by then.
            log.lost.load(Ordering::Relaxed) > 0
        });
        assert!(loses);
        drop(read);
    }
}
