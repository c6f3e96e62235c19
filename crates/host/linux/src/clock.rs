//! The host's clock.

#![allow(unsafe_code)]

use crate::sys::check;
use std::io;
use std::mem::MaybeUninit;

/// Whether the kernel considers the clock synchronised, for example by NTP (`STA_UNSYNC` of
/// adjtimex(2)).
///
/// # Errors
/// Those of adjtimex(2).
pub fn is_synchronized() -> io::Result<bool> {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all zeros is a timex, with no mode set: the kernel only writes to it.
    let state = unsafe {
        check(libc::adjtimex(state.as_mut_ptr()))?;
        state.assume_init()
    };
    Ok(state.status & libc::STA_UNSYNC == 0)
}
