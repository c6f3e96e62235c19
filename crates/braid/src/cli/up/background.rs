use super::super::Global;
use super::super::failure::{Failure, FailureKind};
use braid_control::client::Client;
use braid_control::config::AnyConfig;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Name look-ups and slow routers included.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts `braid up --foreground` in a process group of its own and waits until
/// it answers; gives its log file.
pub fn start(file: &Path, config: &AnyConfig, global: &Global) -> Result<PathBuf, Failure> {
    let log = config.state_dir().join(format!("{}.log", config.name()));
    let out = open_log(&log)
        .map_err(|error| Failure::io(&format!("opening the log file {}", log.display()), &error))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("finding this program's own file", &error))?;
    let mut command = Command::new(program);
    command.args(["up", "--foreground", "--config"]).arg(absolute(file));
    command.args(["--log", &global.args.log]);
    if let Some(socket) = &global.args.socket {
        command.arg("--socket").arg(absolute(socket));
    }
    if global.args.log_json {
        command.arg("--log-json");
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
    let child = command
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::io("starting the daemon", &error))?;
    wait_until_up(child, &Client::new(config.control()), &log)?;
    Ok(log)
}

fn open_log(log: &Path) -> io::Result<File> {
    if let Some(directory) = log.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // Only of the last run: a router's flash is small.
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(log)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn wait_until_up(mut child: Child, client: &Client, log: &Path) -> Result<(), Failure> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if matches!(client.is_running(), Ok(true)) {
            return Ok(());
        }
        match child.try_wait() {
            Ok(Some(status)) => return Err(early_end(status, log)),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(Failure::io("waiting for the daemon", &error)),
        }
    }
    // A daemon that nobody can ask must not stay behind.
    let _ = child.kill();
    let _ = child.wait();
    Err(Failure::failed(format!("the tunnel did not come up within 30 s; see {}", log.display())))
}

/// The daemon's last words, with its exit code.
fn early_end(status: ExitStatus, log: &Path) -> Failure {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().last().unwrap_or_default();
    let words = last.strip_prefix("braid: ").unwrap_or(last);
    let message = match words {
        "" => format!("the daemon ended at once ({status})"),
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
