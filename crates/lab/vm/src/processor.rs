//! The host's processor on which a machine runs.
//!
//! User Mode Linux has one processor, but each of its processes is a host process traced by its
//! kernel: they wait for each other at every system call and page fault, and waking one on another
//! processor takes longer than what it then does. Bound to one processor, a process starts in half
//! the time or less (docs/measurements/tests.md).

#![allow(unsafe_code)]

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A processor of the host. Machines that start later avoid it while they have a choice.
#[derive(Debug)]
pub(crate) struct Processor {
    number: usize,
    /// The claim lasts as long as the socket is open, whatever happens to this process.
    _claim: Option<UnixDatagram>,
}

impl Processor {
    /// A processor that no machine uses, otherwise any that this process may use; `None` if the
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

    /// Binds the command, and everything that it starts, to this processor.
    pub(crate) fn run_there(&self, command: &mut Command) {
        if self.number >= CpuSet::MAX_CPU {
            return;
        }
        let mut only = CpuSet::new();
        only.set(self.number);
        let pin = move || {
            // On failure it isn't bound, and works anyway.
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

/// The processors that this process may use.
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
        // If all are taken, it may be any.
        assert!(other.number != one.number || other._claim.is_none());
    }
}
