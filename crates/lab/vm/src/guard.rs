//! A machine must not outlive the program that started it, however that ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A shell that waits for the end of a pipe from this process, which the kernel closes even if this
/// process is killed, and then kills the machine's process group.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Guards the process group `group`.
    pub(crate) fn of(group: u32) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", "read -r over || kill -s KILL -- -\"$1\"", "braid-vm-guard"])
            .arg(group.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to this process' whole group, such as a terminal's interrupt, must not reach
            // it.
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Guard { shell, pipe })
    }
}

impl Drop for Guard {
    /// The machine is gone: a line makes the shell exit without a kill, since another process group
    /// may have the number by now.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = io::Write::write_all(&mut pipe, b"over\n");
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, getpgid};
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_machine_ends_with_us_whatever_ends_us() {
        let mut machine = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut guard = Guard::of(machine.id()).unwrap();
        assert_ne!(getpgid(Some(Pid::from_child(&guard.shell))), getpgid(None));
        // As the kernel does after this process has ended.
        drop(guard.pipe.take());
        assert_eq!(machine.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
