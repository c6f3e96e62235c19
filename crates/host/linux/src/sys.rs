//! The few wrappers around system calls that several files here share.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Turns the C convention (-1 and errno) into a `Result`.
pub(crate) fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// As [`check`], for calls that return a byte count.
pub(crate) fn check_len(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Takes ownership of a descriptor that a system call has just returned.
pub(crate) fn own_fd(returned: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(returned)?;
    // SAFETY: the caller hands over the result of a call that creates a
    // descriptor; it succeeded, so `fd` is open and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket, close-on-exec and non-blocking when asked.
pub(crate) fn socket(
    domain: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    own_fd(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })
}

/// Sets an integer socket option.
pub(crate) fn set_option(
    fd: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_option_bytes(fd.as_raw_fd(), level, name, &value.to_ne_bytes())
}

/// Sets a socket option from bytes.
pub(crate) fn set_option_bytes(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which outlives the call.
    check(unsafe {
        libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// Reads an integer socket option.
pub(crate) fn get_option(
    fd: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `len` are valid for writes and describe each other.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
    })?;
    Ok(value)
}
