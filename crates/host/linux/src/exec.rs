//! Replaces this process by another program (execve(2)): with the same process id, children and
//! rights, and with the descriptors that it passes on.

#![allow(unsafe_code)]

use crate::sys;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Signals that ask a daemon to stop.
const ENDING: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Replaces this process by `program`, with these arguments (the first is its name), this
/// environment plus `variable`, and `kept` open. All other threads end. The calling thread's signal
/// mask stays: signals held back by [`block_signals`] arrive when the new program unblocks them.
/// Returns only on failure.
pub fn exec(
    program: &Path,
    arguments: &[OsString],
    variable: (&OsStr, &OsStr),
    kept: &[BorrowedFd<'_>],
) -> io::Error {
    match try_exec(program, arguments, variable, kept) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Blocks the signals that ask to stop, for the calling thread and threads that it starts from now
/// on. If every thread blocks them, they stay pending.
///
/// # Errors
/// Those of sigprocmask(2).
pub fn block_signals() -> io::Result<()> {
    mask(libc::SIG_BLOCK)
}

/// Unblocks them for the calling thread; pending ones arrive at once.
///
/// # Errors
/// Those of sigprocmask(2).
pub fn unblock_signals() -> io::Result<()> {
    mask(libc::SIG_UNBLOCK)
}

/// Takes the descriptor that [`exec`] kept open.
///
/// # Errors
/// `InvalidInput` for one of the standard streams, those of fcntl(2) if it isn't open.
///
/// # Safety
/// Nothing else in this process has this descriptor.
pub unsafe fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    close_on_exec(number, true)?;
    // SAFETY: it is open, and the caller guarantees that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

enum Never {}

/// Children of the program that this process was before: nothing else waits for them.
#[derive(Debug)]
pub struct Orphans(Vec<libc::pid_t>);

impl Orphans {
    /// All current children: call it before this program starts any. Empty if the kernel doesn't
    /// list them (`CONFIG_PROC_CHILDREN`).
    pub fn find() -> Orphans {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
        let children = tasks.filter_map(of_task).collect::<Vec<String>>().join(" ");
        Orphans(children.split_whitespace().filter_map(|number| number.parse().ok()).collect())
    }

    /// Reaps those that have ended. Returns whether some are left.
    pub fn reap(&mut self) -> bool {
        self.0.retain(|child| {
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(*child, ptr::null_mut(), libc::WNOHANG) == 0 }
        });
        !self.0.is_empty()
    }
}

fn try_exec(
    program: &Path,
    arguments: &[OsString],
    variable: (&OsStr, &OsStr),
    kept: &[BorrowedFd<'_>],
) -> io::Result<Never> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
    let path = text(program.as_os_str())?;
    let arguments: Vec<CString> =
        arguments.iter().map(|argument| text(argument)).collect::<io::Result<_>>()?;
    let others = std::env::vars_os().filter(|(name, _)| name != variable.0);
    let variables: Vec<CString> = others
        .chain([(variable.0.to_owned(), variable.1.to_owned())])
        .map(|(name, value)| text(&[name, value].join(OsStr::new("="))))
        .collect::<io::Result<_>>()?;
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, variables) = (pointers(&arguments), pointers(&variables));
    for descriptor in kept {
        close_on_exec(descriptor.as_raw_fd(), false)?;
    }
    // SAFETY: the texts end with zero, the lists with a null pointer, and all of them live.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
    let error = io::Error::last_os_error();
    for descriptor in kept {
        let _ = close_on_exec(descriptor.as_raw_fd(), true);
    }
    Err(error)
}

fn close_on_exec(number: RawFd, on: bool) -> io::Result<()> {
    let flags = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: F_SETFD takes a number.
    sys::check(unsafe { libc::fcntl(number, libc::F_SETFD, flags) }).map(drop)
}

fn mask(how: libc::c_int) -> io::Result<()> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set, which the others then read and write.
    unsafe {
        sys::check(libc::sigemptyset(signals.as_mut_ptr()))?;
        for signal in ENDING {
            sys::check(libc::sigaddset(signals.as_mut_ptr(), signal))?;
        }
        match libc::pthread_sigmask(how, signals.as_ptr(), ptr::null_mut()) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;

    /// Set in the child that becomes a shell.
    const CHILD: &str = "BRAID_TEST_EXEC";

    /// Runs as a process of its own, from the test below.
    #[test]
    fn child_that_becomes_a_shell() {
        let Some(file) = std::env::var_os(CHILD) else { return };
        let mut file = std::fs::File::options().append(true).open(file).unwrap();
        writeln!(file, "before {}", std::process::id()).unwrap();
        // The signal arrives before a handler is installed.
        let script = format!(
            "echo after $$ $GIVEN >&{0}; kill -TERM $$; echo alive >&{0}",
            file.as_fd().as_raw_fd()
        );
        let arguments = ["sh", "-c", &script].map(OsString::from);
        let given = (OsStr::new("GIVEN"), OsStr::new("a=b c"));
        block_signals().unwrap();
        panic!("{}", exec(Path::new("/bin/sh"), &arguments, given, &[file.as_fd()]));
    }

    #[test]
    fn the_process_goes_on_with_what_it_keeps_and_is_not_ended_in_between() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exec::tests::child_that_becomes_a_shell", "--nocapture"])
            .env(CHILD, file.path())
            .env("GIVEN", "another")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() && status.signal().is_none(), "{status}");
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, process, ..] = words[..] else { panic!("{text}") };
        assert_eq!(text, format!("before {process}\nafter {process} a=b c\nalive\n"));
    }

    #[test]
    fn what_cannot_be_run_is_told_and_this_process_goes_on() {
        let arguments = [OsString::from("x")];
        let none = (OsStr::new("A"), OsStr::new("b"));
        let error = exec(Path::new("/nonexistent/program"), &arguments, none, &[]);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_not_taken() {
        // SAFETY: the standard streams are refused, and no descriptor has the other number.
        unsafe {
            assert_eq!(inherited(1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(inherited(987_654).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}
