//! Preloaded into the kernel of the VM on x86-64; built by build.rs, not a
//! module of the crate.
//!
//! User Mode Linux reads and writes a process's FPU state at every system call and twice at every
//! page fault, though it rarely changes it, and never while the process is stopped. Each time the
//! host copies 2 KiB or more and allocates memory for it. This library remembers the state of the
//! process that ran last: repeated reads are served from there, and writing back an unchanged state
//! does nothing.
//!
//! Also, User Mode Linux before 6.13 keeps the state in buffers of a fixed size (AVX-512's), while
//! the host's `ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE)` only accepts its own full size
//! (`xstateregs_set` of arch/x86/kernel/fpu/regset.c). On CPUs with more state, such as AMX's 8 KiB
//! of tiles, each such call fails with EFAULT and the VM's first process dies. This `ptrace` fills
//! in the missing part with its initial state: nothing in a VM has requested tiles, so none is in
//! use.
#![no_std]

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::mem::transmute;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const PTRACE_CONT: c_uint = 7;
const PTRACE_GETREGS: c_uint = 12;
const PTRACE_SETREGS: c_uint = 13;
const PTRACE_SYSCALL: c_uint = 24;
const PTRACE_SYSEMU: c_uint = 31;
const PTRACE_GETSIGINFO: c_uint = 0x4202;
const PTRACE_GETREGSET: c_uint = 0x4204;
const PTRACE_SETREGSET: c_uint = 0x4205;
const NT_X86_XSTATE: usize = 0x202;
const EFAULT: c_int = 14;
/// `dlsym`'s name for "the next after this library".
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
/// More than any CPU's state.
const ROOM: usize = 64 * 1024;
/// Offset of XSTATE_BV, a bit for each component that isn't in its initial
/// state (Intel SDM 1, 13.4.2).
const XSTATE_BV: usize = 512;
/// x87, SSE, AVX, MPX, AVX-512, PT, PKRU: what the fixed buffers have room for.
const KNOWN_COMPONENTS: u64 = 0x3ff;

#[repr(C)]
struct IoVec {
    base: *mut c_void,
    length: usize,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

type Ptrace = unsafe extern "C" fn(c_uint, c_int, *mut c_void, *mut c_void) -> c_long;

/// The C library's `ptrace`, found at the first call, when the kernel checks what the host
/// supports.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Static, since the VM's kernel only has stacks of 16 KiB. It runs on one processor, and a
/// ptrace(2) call is never interrupted by another.
static KEPT: Kept = Kept(UnsafeCell::new(State {
    pid: 0,
    length: 0,
    is_ahead: false,
    bytes: Bytes([0; ROOM]),
    full_length: 0,
    full: Bytes([0; ROOM]),
}));

struct Kept(UnsafeCell<State>);

// SAFETY: as said at KEPT.
unsafe impl Sync for Kept {}

/// What is known about the FPU states of stopped processes.
struct State {
    /// The process whose state this is; 0 for none.
    pid: c_int,
    /// The state's length, as reported by the host.
    length: usize,
    /// The process itself has another state: it gets this one before it continues.
    is_ahead: bool,
    bytes: Bytes,
    /// The host's full size; 0 as long as it accepts the VM's own.
    full_length: usize,
    full: Bytes,
}

#[repr(align(64))]
struct Bytes([u8; ROOM]);

/// Replaces the C library's `ptrace`.
///
/// # Safety
/// Like ptrace(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(
    request: c_uint,
    pid: c_int,
    address: *mut c_void,
    data: *mut c_void,
) -> c_long {
    // SAFETY: what the caller promised to ptrace(2); no one else uses the state.
    unsafe {
        let kept = &mut *KEPT.0.get();
        match request {
            PTRACE_GETREGSET if address as usize == NT_X86_XSTATE => kept.get(pid, data.cast()),
            PTRACE_SETREGSET if address as usize == NT_X86_XSTATE => kept.set(pid, data.cast()),
            PTRACE_GETREGS | PTRACE_SETREGS | PTRACE_GETSIGINFO => {
                next()(request, pid, address, data)
            }
            // The kernel's own code continues there, which doesn't use the state, and may leave
            // another: with the signal the host starts from the initial one.
            PTRACE_CONT if kept.pid == pid => {
                kept.is_ahead = true;
                next()(request, pid, address, data)
            }
            PTRACE_CONT => next()(request, pid, address, data),
            PTRACE_SYSEMU | PTRACE_SYSCALL if kept.pid != pid => {
                next()(request, pid, address, data)
            }
            // It continues, or something else happens to it, after which nothing is known.
            _ => {
                let given = kept.give();
                if kept.pid == pid {
                    kept.pid = 0;
                }
                if given != 0 { given } else { next()(request, pid, address, data) }
            }
        }
    }
}

impl State {
    /// Reads the state of a process.
    ///
    /// # Safety
    /// Like PTRACE_GETREGSET: the vector's buffer is writable.
    unsafe fn get(&mut self, pid: c_int, into: *mut IoVec) -> c_long {
        // SAFETY: what the caller promised; lengths are checked.
        unsafe {
            if self.pid == pid && (*into).length >= self.length {
                ptr::copy_nonoverlapping(self.bytes.0.as_ptr(), (*into).base.cast(), self.length);
                (*into).length = self.length;
                return 0;
            }
            let given = self.give();
            if given != 0 {
                return given;
            }
            self.pid = 0;
            let result = next()(PTRACE_GETREGSET, pid, NT_X86_XSTATE as *mut c_void, into.cast());
            if result == 0 && (*into).length <= ROOM {
                self.pid = pid;
                self.length = (*into).length;
                let told = (*into).base.cast::<u8>();
                ptr::copy_nonoverlapping(told, self.bytes.0.as_mut_ptr(), self.length);
            }
            result
        }
    }

    /// Writes the state of a process, at the latest before it continues.
    ///
    /// # Safety
    /// Like PTRACE_SETREGSET: the vector's buffer is readable.
    unsafe fn set(&mut self, pid: c_int, from: *mut IoVec) -> c_long {
        // SAFETY: what the caller promised; lengths are checked.
        unsafe {
            if self.pid != pid || (*from).length < self.length {
                return self.set_now(pid, (*from).base.cast(), (*from).length);
            }
            let new = (*from).base.cast::<u8>();
            let old = self.bytes.0.as_mut_ptr();
            let is_same =
                slice::from_raw_parts(new, self.length) == slice::from_raw_parts(old, self.length);
            if !is_same {
                ptr::copy_nonoverlapping(new, old, self.length);
                self.is_ahead = true;
            }
            0
        }
    }

    /// Writes the kept state to its process, if it doesn't have it yet.
    ///
    /// # Safety
    /// The process is stopped.
    unsafe fn give(&mut self) -> c_long {
        if self.pid == 0 || !self.is_ahead {
            self.is_ahead = false;
            return 0;
        }
        self.is_ahead = false;
        let bytes = self.bytes.0.as_ptr();
        // SAFETY: the bytes are there.
        unsafe { self.set_now(self.pid, bytes, self.length) }
    }

    /// # Safety
    /// `bytes` has this length.
    unsafe fn set_now(&mut self, pid: c_int, bytes: *const u8, length: usize) -> c_long {
        let next = |request, state: &mut IoVec| {
            // SAFETY: the vector has its buffer.
            unsafe {
                next()(request, pid, NT_X86_XSTATE as *mut c_void, ptr::from_mut(state).cast())
            }
        };
        let mut own = IoVec { base: bytes.cast_mut().cast(), length };
        if self.full_length == 0 {
            let result = next(PTRACE_SETREGSET, &mut own);
            // SAFETY: there is always an errno.
            if result == 0 || unsafe { *__errno_location() } != EFAULT {
                return result;
            }
            let mut all = IoVec { base: self.full.0.as_mut_ptr().cast(), length: ROOM };
            let result = next(PTRACE_GETREGSET, &mut all);
            if result != 0 {
                return result;
            }
            self.full_length = all.length;
            self.full.0.fill(0);
        }
        let mut all = IoVec { base: self.full.0.as_mut_ptr().cast(), length: self.full_length };
        // SAFETY: both are so long, and the word of bits is aligned.
        unsafe {
            let most = length.min(self.full_length);
            ptr::copy_nonoverlapping(bytes, self.full.0.as_mut_ptr(), most);
            *self.full.0.as_mut_ptr().add(XSTATE_BV).cast::<u64>() &= KNOWN_COMPONENTS;
        }
        next(PTRACE_SETREGSET, &mut all)
    }
}

unsafe fn next() -> Ptrace {
    let mut found = NEXT.load(Relaxed);
    if found.is_null() {
        // SAFETY: the name is zero-terminated; the C library has a ptrace.
        found = unsafe { dlsym(RTLD_NEXT, c"ptrace".as_ptr()) };
        NEXT.store(found, Relaxed);
    }
    // SAFETY: it is the C library's ptrace(2), of this type on x86-64, where
    // variadic arguments of these kinds stand in the same registers.
    unsafe { transmute::<*mut c_void, Ptrace>(found) }
}

#[panic_handler]
fn never(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
