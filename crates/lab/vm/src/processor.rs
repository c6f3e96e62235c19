//! The processor of the host that a machine runs on.
//!
//! User Mode Linux has one processor, but each process in it is one of the host's that its kernel
//! traces: they wait for each other at every system call and page fault, and to wake one on
//! another processor takes longer than what it then does. On one processor a process starts in
//! half the time or less (docs/measurements/tests.md).

#![allow(unsafe_code)]

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A processor of the host, which machines that start later leave to this one while they have a
/// choice.
#[derive(Debug)]
pub(crate) struct Processor {
    number: usize,
    /// Its name is taken for as long as the socket is open, whatever becomes of this process.
    _claim: Option<UnixDatagram>,
}

impl Processor {
    /// One that no machine has, or else one of those that this process may use; none where the
    /// system doesn't say which.
    pub(crate) fn choose() -> Option<Self> {
        let allowed = allowed();
        let free = allowed
            .iter()
            .find_map(|&number| Some(Processor { number, _claim: Some(claim(number).ok()?) }));
        free.or_else(|| {
            let any = allowed.get(std::process::id() as usize % allowed.len().max(1))?;
            Some(Processor { number: *any, _claim: None })
        })
    }

    /// Has the command, and all that it starts, run there alone.
    pub(crate) fn run_there(&self, command: &mut Command) {
        if self.number >= CpuSet::MAX_CPU {
            return;
        }
        let mut only = CpuSet::new();
        only.set(self.number);
        let pin = move || {
            // It stays where it was on failure, and works too.
            let _ = sched_setaffinity(None, &only);
            Ok(())
        };
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(pin) };
    }
}

fn claim(number: usize) -> io::Result<UnixDatagram> {
    let name = format!("braid-vm-processor-{number}");
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Those that this process may run on.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&number| set.is_set(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_on_its_processor_alone_and_others_choose_another() {
        let one = Processor::choose().unwrap();
        let mut command = Command::new("grep");
        one.run_there(command.args(["Cpus_allowed_list", "/proc/self/status"]));
        let output = command.output().unwrap();
        let line = String::from_utf8_lossy(&output.stdout);
        assert_eq!(line.split_whitespace().last(), Some(one.number.to_string().as_str()));
        let other = Processor::choose().unwrap();
        // Where all are taken it is any.
        assert!(other.number != one.number || other._claim.is_none());
    }
}
