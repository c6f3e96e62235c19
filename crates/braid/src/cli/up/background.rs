use super::super::Global;
use super::super::failure::{self, Failure, FailureKind};
use crate::daemon;
use braid_control::client::Client;
use braid_control::config::AnyConfig;
use braid_linux::claim::Holder;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Allows for name look-ups and slow routers.
const PATIENCE: Duration = Duration::from_secs(30);
/// By then it has undone what it started.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum length of a reason, bytes: the errors of a long config.
const MOST_WORDS: u64 = 64 * 1024;

/// Starts `braid up --foreground` in its own process group and waits until it answers; returns its
/// log file, if there is one.
pub fn start(file: &Path, config: &AnyConfig, global: &Global) -> Result<Option<PathBuf>, Failure> {
    let (log, out) = open_log(config);
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("finding this program's own file", &error))?;
    let mut command = Command::new(program);
    command.args(["up", "--foreground", "--reason-on-stdout", "--config"]).arg(absolute(file));
    command.args(["--log", &global.args.log]);
    if let Some(socket) = &global.args.socket {
        command.arg("--socket").arg(absolute(socket));
    }
    if global.args.log_json {
        command.arg("--log-json");
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(out);
    let child = command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::io("starting the daemon", &error))?;
    wait_until_up(child, config, log.as_deref())?;
    Ok(log)
}

/// A tunnel matters more than its log: if none can be opened, it comes up without one, and the user
/// is told.
fn open_log(config: &AnyConfig) -> (Option<PathBuf>, Stdio) {
    let name = format!("{}.log", config.name());
    let folders = [Some(config.state_dir()), config.control().parent()];
    for folder in folders.into_iter().flatten() {
        let log = folder.join(&name);
        match open(folder, &log) {
            Ok(out) => return (Some(log), out.into()),
            Err(error) => {
                failure::tell(&format!("can't open the log file {}: {error}", log.display()))
            }
        }
    }
    (None, Stdio::null())
}

fn open(folder: &Path, log: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    // The last run's log may explain how it ended; a router's flash is small, so older ones go. If
    // there was none, this fails.
    let _ = std::fs::rename(log, log.with_extension("log.1"));
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(log)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn wait_until_up(mut child: Child, config: &AnyConfig, log: Option<&Path>) -> Result<(), Failure> {
    let client = Client::of(config);
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if matches!(client.is_running(), Ok(true)) {
            return Ok(());
        }
        match child.try_wait() {
            Ok(Some(status)) => return Err(early_end(status, &mut child)),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(Failure::io("waiting for the daemon", &error)),
        }
    }
    // A daemon that can't be reached must not stay behind, nor what it has set on the host.
    if !ends(&mut child, ENDS_WITHIN) {
        let _ = child.kill();
        let _ = child.wait();
    }
    if daemon::has_left_something(config) {
        daemon::take_back(config)?;
    }
    let log = log.map_or(String::new(), |log| format!("; see {}", log.display()));
    Err(Failure::failed(format!("the tunnel did not come up within 30 s{log}")))
}

/// Asks it to undo everything and exit; returns whether it did.
fn ends(child: &mut Child, within: Duration) -> bool {
    let Ok(process) = i32::try_from(child.id()) else { return false };
    let give_up = Instant::now() + within;
    let mut asked = (Holder { process }).ask_to_end().is_ok();
    while asked && Instant::now() < give_up {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => asked = false,
        }
    }
    false
}

/// Why the daemon ended, with its exit code.
fn early_end(status: ExitStatus, child: &mut Child) -> Failure {
    let mut words = String::new();
    if let Some(said) = &mut child.stdout {
        // Its last output is all there is.
        let _ = said.take(MOST_WORDS).read_to_string(&mut words);
    }
    let message = match words.trim() {
        "" => format!("the daemon exited at once ({status})"),
        words => words.to_owned(),
    };
    let kind = match status.code() {
        Some(2) => FailureKind::Usage,
        Some(3) => FailureKind::Config,
        Some(5) => FailureKind::Permission,
        Some(6) => FailureKind::AlreadyRunning,
        _ => FailureKind::Failed,
    };
    Failure::new(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_daemon_that_is_too_slow_is_asked_before_it_is_killed() {
        let start = |does_on_term: &str| {
            let script = format!("trap '{does_on_term}' TERM; echo; while :; do sleep 0.1; done");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // Wait until it is ready.
            child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let mut one_that_hears = start("exit 7");
        assert!(ends(&mut one_that_hears, Duration::from_secs(60)));
        assert_eq!(one_that_hears.wait().unwrap().code(), Some(7));
        let mut one_that_does_not = start("");
        assert!(!ends(&mut one_that_does_not, Duration::from_millis(300)));
        one_that_does_not.kill().unwrap();
        one_that_does_not.wait().unwrap();
    }

    #[test]
    fn the_log_of_the_last_run_stays_and_of_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("braid0.log");
        for run in ["first", "second", "third"] {
            write!(open(folder.path(), &log).unwrap(), "{run}").unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("braid0.log"), read("braid0.log.1")), ("third".into(), "second".into()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
