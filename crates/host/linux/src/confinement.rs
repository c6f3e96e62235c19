//! Privileges that a process gives up, so that an attacker who takes it over, or finds its files,
//! gains little: capabilities(7), core(5), umask(2).

#![allow(unsafe_code)]

use crate::sys;
use std::io;

/// A capability of the kernel, by its number in linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Access to files of other users.
    DacOverride = 1,
    /// Ports below 1024.
    NetBindService = 10,
    /// Devices, addresses, routes, rules, nftables.
    NetAdmin = 12,
    /// Raw and packet sockets, binding to a device.
    NetRaw = 13,
}

/// Only the owner may read or write files created from now on, unless a mode is given explicitly.
pub const PRIVATE: libc::mode_t = 0o077;
/// Others may read, not write.
pub const READABLE: libc::mode_t = 0o022;

/// Adds these bits to the umask that this process was started with.
pub fn tighten_umask(mask: libc::mode_t) {
    // SAFETY: umask can't fail and takes no pointers.
    unsafe {
        let before = libc::umask(mask);
        libc::umask(mask | before);
    }
}

/// Keeps memory that contains keys out of core dumps, and other processes of the same user from
/// attaching to this one.
///
/// # Errors
/// The system's error.
pub fn leave_no_core() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let mut found = none;
    // SAFETY: the structure outlives the call.
    sys::check(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut found) })?;
    // Skipped if already zero: a seccomp filter may forbid the call.
    if (found.rlim_cur, found.rlim_max) != (0, 0) {
        // SAFETY: the structure outlives the call.
        sys::check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) })?;
    }
    // SAFETY: this prctl takes no pointers.
    sys::check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }).map(drop)
}

/// Limits the calling thread, and threads that it starts from then on, to these capabilities for
/// good: neither a set-uid program nor one run as root gets more. Capabilities that the thread
/// lacks aren't added.
///
/// # Errors
/// The system's error.
pub fn keep_capabilities(kept: &[Capability]) -> io::Result<()> {
    let mask = kept.iter().fold(0_u64, |mask, &kept| mask | 1 << kept as u8);
    for number in (0..64).filter(|number| mask & (1 << number) == 0) {
        // SAFETY: this prctl takes no pointers.
        match sys::check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) }) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                // Beyond the last one; or not privileged, and no_new_privs
                // then does as well.
                Some(libc::EINVAL | libc::EPERM) => break,
                _ => return Err(error),
            },
        }
    }
    // SAFETY: these prctls take no pointers.
    unsafe {
        sys::check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
        sys::check(libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0))?;
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: version 3 reads and writes a header and two sets, which these are.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) };
    sys::check(got as libc::c_int)?;
    let before = sets;
    for (sets, mask) in sets.iter_mut().zip([mask as u32, (mask >> 32) as u32]) {
        sets.permitted &= mask;
        sets.effective &= mask;
        sets.inheritable = 0;
    }
    // As with the limit above.
    if sets == before {
        return Ok(());
    }
    // SAFETY: as above; they are only read.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, &raw const sets) };
    sys::check(set as libc::c_int).map(drop)
}

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h.
const VERSION_3: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(C)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_no_more_than_it_says() {
        let kept = [Capability::NetAdmin, Capability::NetRaw];
        let status = std::thread::spawn(move || {
            keep_capabilities(&kept).unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = status.join().unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let mask = 1 << 12 | 1 << 13;
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(value(set) & !mask, 0, "{status}");
        }
        assert_eq!(value("NoNewPrivs:"), 1);
    }
}
