//! How soon the kernel lets a thread run (sched(7), sched_setattr(2)).

#![allow(unsafe_code)]

use crate::sys;
use std::io;
use std::mem;
use std::time::Duration;

/// The shortest slice that the kernel grants an ordinary thread.
const SHORTEST_SLICE: Duration = Duration::from_micros(100);
/// Ordinary threads' timers fire up to 50 µs late by default.
const TIMER_SLACK: libc::c_ulong = 1_000;

/// `struct sched_attr` of linux/sched/types.h, first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Makes the calling thread run soon after it is woken: it requests short slices, for which the
/// kernel (from 6.12 on) preempts threads with longer ones, and exact timers. This gives it no
/// larger share of the processor and needs no privilege. Older kernels ignore it.
///
/// # Errors
/// Those of sched_setattr(2): sandboxes may forbid it.
pub fn run_soon() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    sys::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK) })?;
    // SAFETY: all-zero is a valid value of these integers.
    let mut attributes: Attributes = unsafe { mem::zeroed() };
    let size = mem::size_of::<Attributes>() as u32;
    // SAFETY: the pointer is to as many bytes as `size` says.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    sys::check(got as libc::c_int)?;
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return Ok(()); // Whoever started it chose another way to hurry.
    }
    attributes.size = size;
    attributes.flags = 0;
    attributes.runtime = SHORTEST_SLICE.as_nanos() as u64;
    // SAFETY: the structure is as long as it says, and only read.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    sys::check(set as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_and_keeps_its_priority() {
        std::thread::spawn(|| {
            // SAFETY: no pointers are passed.
            let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            let before = nice();
            match run_soon() {
                Ok(()) => assert_eq!(nice(), before),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    eprintln!("skipped: this sandbox forbids sched_setattr");
                }
                Err(error) => panic!("{error}"),
            }
        })
        .join()
        .expect("the thread ends");
    }
}
