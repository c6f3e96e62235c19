//! Preloaded into the kernel of the VM on x86-64; built by build.rs, not a
//! module of the crate.
//!
//! While it starts, the kernel measures four implementations of RAID 6 and selects the fastest
//! (lib/raid6/algos.c): each for 16 ticks of its clock, which made up most of the start-up time.
//! The clock ticks periodically until the kernel programs each event separately, soon after that.
//! While it ticks, its time runs [`FASTER`] times as fast here. From then on it runs like the
//! host's, a second ahead.
#![no_std]

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicI64, AtomicPtr, Ordering::Relaxed};

/// A tick of 10 ms becomes 0.3 ms, few of which are lost even on a busy host.
const FASTER: i64 = 32;
/// A kernel that still ticks when it is this far ahead will tick forever: it isn't sped up from
/// then on.
const FAR_AHEAD: i64 = 10 * NANOSECONDS;
const NANOSECONDS: i64 = 1_000_000_000;
/// `dlsym`'s name for "the next after this library".
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
const CLOCK_MONOTONIC: c_int = 1;

/// x86-64's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// x86-64's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Itimerspec {
    interval: Timespec,
    value: Timespec,
}

type ClockGettime = unsafe extern "C" fn(c_int, *mut Timespec) -> c_int;
type TimerSettime =
    unsafe extern "C" fn(*mut c_void, c_int, *const Itimerspec, *mut Itimerspec) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The C library's functions. They are looked up when the program is loaded: the kernel reads its
/// clock in signal handlers, and one that interrupts `dlsym` would wait for it forever.
static NEXT_CLOCK_GETTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static NEXT_TIMER_SETTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = find_next;

// The kernel has one thread, which alone reads and changes these.

/// The kernel's tick in nanoseconds while it is shortened; otherwise 0.
static SHORTENED: AtomicI64 = AtomicI64::new(0);
/// The timer that ticks.
static TIMER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The host's clock when it was last read, in nanoseconds.
static LAST: AtomicI64 = AtomicI64::new(0);
/// By how many nanoseconds the kernel's clock is ahead of the host's.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// Replaces the C library's.
///
/// # Safety
/// Like clock_gettime(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: what the caller promised; the C library's function has this type.
    unsafe {
        let result = next_clock_gettime()(clock, time);
        if result == 0 && clock == CLOCK_MONOTONIC {
            *time = Timespec::of(ahead((*time).nanoseconds()));
        }
        result
    }
}

/// Replaces the C library's.
///
/// # Safety
/// Like timer_settime(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_settime(
    timer: *mut c_void,
    flags: c_int,
    new: *const Itimerspec,
    old: *mut Itimerspec,
) -> c_int {
    // SAFETY: what the caller promised.
    unsafe {
        let mut now = Timespec::of(0);
        // Account for the time until now.
        clock_gettime(CLOCK_MONOTONIC, &mut now);
        let tick = (*new).interval.nanoseconds();
        if tick == 0 || AHEAD.load(Relaxed) > FAR_AHEAD {
            SHORTENED.store(0, Relaxed);
            return next_timer_settime()(timer, flags, new, old);
        }
        TIMER.store(timer, Relaxed);
        SHORTENED.store(tick, Relaxed);
        next_timer_settime()(timer, flags, &Itimerspec::every(tick / FASTER), old)
    }
}

/// The kernel's clock when the host's says `now`.
fn ahead(now: i64) -> i64 {
    let tick = SHORTENED.load(Relaxed);
    if tick != 0 {
        let passed = now - LAST.load(Relaxed);
        AHEAD.store(AHEAD.load(Relaxed) + passed * (FASTER - 1), Relaxed);
    }
    LAST.store(now, Relaxed);
    let ahead = AHEAD.load(Relaxed);
    if tick != 0 && ahead > FAR_AHEAD {
        SHORTENED.store(0, Relaxed);
        let timer = TIMER.load(Relaxed);
        // SAFETY: the kernel has this timer, and removes none.
        unsafe { next_timer_settime()(timer, 0, &Itimerspec::every(tick), ptr::null_mut()) };
    }
    now + ahead
}

extern "C" fn find_next() {
    // SAFETY: the names are zero-terminated.
    unsafe {
        NEXT_CLOCK_GETTIME.store(dlsym(RTLD_NEXT, c"clock_gettime".as_ptr()), Relaxed);
        let name = c"timer_settime".as_ptr();
        // Older versions of it number the timers differently; C libraries without such versions
        // have only one.
        let mut found = dlvsym(RTLD_NEXT, name, c"GLIBC_2.34".as_ptr());
        if found.is_null() {
            found = dlsym(RTLD_NEXT, name);
        }
        NEXT_TIMER_SETTIME.store(found, Relaxed);
    }
}

fn next_clock_gettime() -> ClockGettime {
    // SAFETY: the C library's function has this type.
    unsafe { transmute(found(&NEXT_CLOCK_GETTIME)) }
}

fn next_timer_settime() -> TimerSettime {
    // SAFETY: the C library's function has this type.
    unsafe { transmute(found(&NEXT_TIMER_SETTIME)) }
}

fn found(function: &AtomicPtr<c_void>) -> *mut c_void {
    if function.load(Relaxed).is_null() {
        // Another library that is loaded before this one may read the clock.
        find_next();
    }
    function.load(Relaxed)
}

impl Timespec {
    fn nanoseconds(self) -> i64 {
        self.seconds * NANOSECONDS + self.nanoseconds
    }

    fn of(nanoseconds: i64) -> Self {
        Timespec { seconds: nanoseconds / NANOSECONDS, nanoseconds: nanoseconds % NANOSECONDS }
    }
}

impl Itimerspec {
    fn every(nanoseconds: i64) -> Self {
        Itimerspec { interval: Timespec::of(nanoseconds), value: Timespec::of(nanoseconds) }
    }
}

#[panic_handler]
fn never(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
