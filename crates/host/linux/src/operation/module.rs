//! Kernel modules, which the kernel loads on demand.

use super::process::EndedAtOnce;
use crate::probe::has_module;
use braid_engines::Feature;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Errors of a kernel that lacks a kind of device or queueing discipline, or a socket family. They
/// also occur while a modprobe started by another program is loading it.
pub(super) const LACKING: [i32; 3] = [libc::EOPNOTSUPP, libc::ENOENT, libc::EAFNOSUPPORT];
/// Pauses between attempts, 3 s in all: modprobe takes some milliseconds, but most of a second on a
/// busy machine.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1500),
];

/// Loads a kernel module.
pub(super) fn load(name: &str) -> io::Result<()> {
    let mut command = Command::new("modprobe");
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

/// Does `work`, which needs the module of `feature`. If two programs request a module at once, one
/// may get an error while it is being loaded for the other; so if the host has the module, `work`
/// is retried.
pub(super) fn with<T>(
    feature: Option<Feature>,
    ask: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    ask_again(ask, is_lacking, || has(feature), std::thread::sleep)
}

/// Starts a program that requests modules, including that of `feature`. It reports kernel errors
/// only as text, so any early exit is retried.
pub(super) fn with_program(
    feature: Option<Feature>,
    start: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    ask_again(start, has_ended, || has(feature), std::thread::sleep)
}

fn has(feature: Option<Feature>) -> bool {
    feature.and_then(Feature::module).is_some_and(has_module)
}

fn is_lacking(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| LACKING.contains(&code))
}

fn has_ended(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<EndedAtOnce>())
}

fn ask_again<T>(
    mut ask: impl FnMut() -> io::Result<T>,
    is_lacking: impl Fn(&io::Error) -> bool,
    has_module: impl FnOnce() -> bool,
    mut pause: impl FnMut(Duration),
) -> io::Result<T> {
    let is_lacking = |outcome: &io::Result<T>| outcome.as_ref().is_err_and(&is_lacking);
    let mut outcome = ask();
    if !is_lacking(&outcome) || !has_module() {
        return outcome;
    }
    for length in PAUSES {
        pause(length);
        outcome = ask();
        if !is_lacking(&outcome) {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::*;

    /// Fails `times` times with a lacking module, then returns `then`. Returns the result, the
    /// number of attempts, and the number of pauses.
    fn asked(times: usize, then: io::Result<()>, has_module: bool) -> (Option<i32>, usize, usize) {
        let (mut then, mut asked, mut paused) = (Some(then), 0, 0);
        let outcome = ask_again(
            || {
                asked += 1;
                let lacking = || Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
                if asked <= times { lacking() } else { then.take().unwrap_or_else(lacking) }
            },
            is_lacking,
            || has_module,
            |_| paused += 1,
        );
        (outcome.err().and_then(|error| error.raw_os_error()), asked, paused)
    }

    #[test]
    fn a_module_that_another_loads_is_asked_for_again() {
        assert_eq!(asked(0, Ok(()), true), (None, 1, 0));
        assert_eq!(asked(2, Ok(()), true), (None, 3, 2));
        let exists = || Err(io::Error::from_raw_os_error(libc::EEXIST));
        assert_eq!(asked(1, exists(), true), (Some(libc::EEXIST), 2, 1), "another error is told");
    }

    #[test]
    fn a_program_that_is_told_that_there_is_none_is_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("sh.pid");
        let script = format!(
            "cd {} && [ -e asked ] && exec sleep 60; : >asked; exit 1",
            folder.path().display()
        );
        let argv = ["sh", "-c", &script].map(str::to_owned);
        let mut paused = 0;
        ask_again(|| process::start(&argv, &pid_file), has_ended, || true, |_| paused += 1)
            .unwrap();
        assert_eq!(paused, 1);
        process::stop("sleep", &pid_file).unwrap();
    }

    #[test]
    fn a_host_that_has_none_is_asked_once_and_one_that_lies_not_for_ever() {
        assert_eq!(asked(usize::MAX, Ok(()), false), (Some(libc::EOPNOTSUPP), 1, 0));
        let (outcome, asked, paused) = asked(usize::MAX, Ok(()), true);
        assert_eq!(outcome, Some(libc::EOPNOTSUPP));
        assert_eq!((asked, paused), (PAUSES.len() + 1, PAUSES.len()));
    }
}
