//! `braid restart`: replaces this process by the program now installed, for example after an
//! upgrade. The tunnel's device is handed on and the host's settings stay, so no route or address
//! is missing in between and connections survive; keys and paths are negotiated again.

#![allow(unsafe_code)]

use super::supervise::start_thread;
use braid_control::config::AnyConfig;
use braid_control::request::Refusal;
use braid_linux::exec::{Orphans, exec, inherited};
use braid_linux::tool;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How this process was started, to do the same again.
#[derive(Clone)]
pub struct Program(Arc<Started>);

struct Started {
    /// Determined at the start, as the file may be replaced later.
    file: PathBuf,
    arguments: Vec<OsString>,
}

/// What one program hands on to the other.
pub struct HandedOn {
    /// The queues of the tunnel's device; none for a group, whose device is the kernel's.
    pub queues: Vec<OwnedFd>,
}

/// Contains the process id and the device's descriptors; the id because children inherit the
/// environment.
const VARIABLE: &str = "BRAID_HANDED_ON";
/// In place of descriptors, where there are none.
const NONE: &str = "-";
/// Timeout; less than the commands wait for an answer.
const CHECK: Duration = Duration::from_secs(7);
/// How often children of the previous program are reaped; they end within some seconds.
const REAP_EVERY: Duration = Duration::from_millis(500);

impl Program {
    /// The running program.
    ///
    /// # Errors
    /// /proc is missing.
    pub fn of_this_process() -> io::Result<Program> {
        let file = std::env::current_exe()?;
        Ok(Program(Arc::new(Started { file, arguments: std::env::args_os().collect() })))
    }

    /// Whether the installed program could take over the tunnel of `running`.
    ///
    /// # Errors
    /// Why not; nothing has changed.
    pub fn can_take_over(&self, running: &AnyConfig) -> Result<(), Refusal> {
        let file = &self.0.file;
        let shown = file.display();
        let config = running.file();
        let arguments = ["config", "check", "--config"].map(OsStr::new);
        let arguments = [&arguments[..], &[config.as_os_str()]].concat();
        match tool::does(file, &arguments, CHECK) {
            Ok(Ok(())) => {}
            Ok(Err(said)) => return Err(Refusal::Invalid(format!("{shown}: {said}"))),
            Err(error) => return Err(Refusal::Failed(format!("running {shown}: {error}"))),
        }
        let now = AnyConfig::load(config).map_err(|errors| {
            Refusal::Invalid(format!(
                "the running program can't read it, but {shown} can: {errors}; {TO_CHANGE_MORE}"
            ))
        })?;
        match same_place(running, &now) {
            Some(what) => Err(Refusal::Invalid(format!("{what} has changed; {TO_CHANGE_MORE}"))),
            None => Ok(()),
        }
    }

    /// Replaces this process by it; returns only on failure.
    pub fn take_over(&self, queues: &[OwnedFd]) -> io::Error {
        let numbers: Vec<String> =
            queues.iter().map(|queue| queue.as_raw_fd().to_string()).collect();
        let numbers = if numbers.is_empty() { NONE.to_owned() } else { numbers.join(",") };
        let value = OsString::from(format!("{} {numbers}", std::process::id()));
        let kept: Vec<_> = queues.iter().map(AsFd::as_fd).collect();
        exec(&self.0.file, &self.0.arguments, (OsStr::new(VARIABLE), &value), &kept)
    }
}

/// What to do about a change that a running daemon can't take over.
pub const TO_CHANGE_MORE: &str = "that needs `braid down` and `braid up`";

/// The settings by which what was set on the host is found again.
fn same_place(before: &AnyConfig, now: &AnyConfig) -> Option<&'static str> {
    let kind = |config: &AnyConfig| match config {
        AnyConfig::Tunnel(config) => Some(config.interface.layer),
        AnyConfig::Group(_) => None,
    };
    let found = [
        ("interface.name", before.name() == now.name()),
        ("interface.control", before.control() == now.control()),
        ("interface.state_dir", before.state_dir() == now.state_dir()),
        ("interface.layer or engine", kind(before) == kind(now)),
    ];
    found.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

impl HandedOn {
    /// What was handed on to this process, if it takes over. Call it once.
    pub fn take() -> Option<HandedOn> {
        let given = std::env::var(VARIABLE).ok()?;
        let numbers = given_to(&given, std::process::id())?;
        reap(Orphans::find());
        let queue = |number| {
            // SAFETY: the program before kept it for this, and nobody has taken it yet.
            unsafe { inherited(number) }
                .inspect_err(
                    |error| tracing::warn!(%error, "the device wasn't passed on completely"),
                )
                .ok()
        };
        Some(HandedOn { queues: numbers.into_iter().filter_map(queue).collect() })
    }
}

/// Until the last of them has ended, such as a tool that was running when the program changed.
fn reap(mut orphans: Orphans) {
    if orphans.reap() {
        let waits = move || {
            while orphans.reap() {
                std::thread::sleep(REAP_EVERY);
            }
        };
        if let Err(error) = start_thread("braid-orphans", waits) {
            tracing::debug!(%error, "child processes of the previous program stay as zombies");
        }
    }
}

/// The descriptors, where they're for this process.
fn given_to(text: &str, process: u32) -> Option<Vec<RawFd>> {
    let (whose, numbers) = text.split_once(' ')?;
    if whose.parse() != Ok(process) {
        return None;
    }
    match numbers {
        NONE => Some(Vec::new()),
        numbers => numbers.split(',').map(|number| number.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn only_what_is_for_this_process_is_taken() {
        assert_eq!(given_to("17 5", 17), Some(vec![5]));
        assert_eq!(given_to("17 5,9", 17), Some(vec![5, 9]));
        assert_eq!(given_to("17 -", 17), Some(Vec::new()));
        for others in ["16 5", "", "17", "17 five", "x 5", "17 5 6", "17 5,", "17 ,"] {
            assert_eq!(given_to(others, 17), None, "{others}");
        }
    }

    #[test]
    fn a_program_that_does_not_run_here_or_refuses_the_config_takes_nothing_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("braid.toml");
        let text = "[interface]\nprivate_key_file = \"k\"\n[[link]]\nname = \"a\"\nfwmark = 5";
        std::fs::write(&file, text).unwrap();
        let running = AnyConfig::load(&file).unwrap();
        let by = |program: &str| {
            let started = Started { file: program.into(), arguments: Vec::new() };
            Program(Arc::new(started)).can_take_over(&running)
        };
        assert_eq!(by("/bin/true"), Ok(()));
        assert!(matches!(by("/bin/false"), Err(Refusal::Invalid(_))));
        assert!(matches!(by("/nonexistent/braid"), Err(Refusal::Failed(_))));
        let no_program = by(file.to_str().unwrap());
        assert!(matches!(no_program, Err(Refusal::Failed(_))), "{no_program:?}");
        std::fs::write(&file, text.replace("private", "pirate")).unwrap();
        let unread = by("/bin/true").unwrap_err().to_string();
        assert!(unread.contains("the running program can't read it"), "{unread}");
    }

    #[test]
    fn what_is_found_by_its_name_keeps_it() {
        let config = |text: &str| AnyConfig::parse(text, Path::new("c.toml")).unwrap();
        let tunnel = |more: &str| {
            config(&format!(
                "[interface]\nprivate_key_file = \"k\"\n{more}\n[[link]]\nname = \"a\"\nfwmark = 5"
            ))
        };
        let before = tunnel("");
        assert_eq!(same_place(&before, &tunnel("mtu = 1300\nmode = \"overflow\"")), None);
        let changes = [
            ("name = \"other\"", "interface.name"),
            ("control = \"/run/x\"", "interface.control"),
            ("state_dir = \"/x\"", "interface.state_dir"),
            ("layer = \"l2\"", "interface.layer or engine"),
        ];
        for (change, what) in changes {
            assert_eq!(same_place(&before, &tunnel(change)), Some(what));
        }
    }
}
