//! A machine must not outlive the program that started it, however that ends.

use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A shell that waits for the end of a pipe from this process, which the kernel
/// closes even when this process is killed, and then kills the machine's process
/// group.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Guards the process group `group`.
    pub(crate) fn of(group: u32) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", "read -r over || kill -9 -- -\"$1\"", "braid-vm-guard"])
            .arg(group.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = shell.stdin.take();
        Ok(Guard { shell, pipe })
    }
}

impl Drop for Guard {
    /// The machine is gone: a line sends the shell home without a kill, since
    /// another process group may have the number by now.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = io::Write::write_all(&mut pipe, b"over\n");
        }
        let _ = self.shell.wait();
    }
}
