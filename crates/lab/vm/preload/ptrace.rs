//! Preloaded into the kernel of the VM on x86-64; built by build.rs, not a
//! module of the crate.
//!
//! User Mode Linux before 6.13 keeps a process's FPU state in buffers of a fixed
//! size (AVX-512's), while the host takes the state by
//! `ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE)` only in its own full size
//! (`xstateregs_set` of arch/x86/kernel/fpu/regset.c). On CPUs with more state,
//! as AMX's 8 KiB of tiles, each such call fails with EFAULT and the VM's first
//! process dies. This `ptrace` fills up what is missing with its initial state:
//! nothing in a VM has asked for tiles, so none is in use.
#![no_std]

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

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

/// The C library's `ptrace`.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The host's full size; 0 as long as the VM's own was taken.
static FULL: AtomicUsize = AtomicUsize::new(0);

/// Static, since the VM's kernel has stacks of 16 KiB only. It runs on one
/// processor and never leaves a ptrace(2) for another.
static STATE: State = State(UnsafeCell::new([0; ROOM / 8]));

#[repr(align(64))]
struct State(UnsafeCell<[u64; ROOM / 8]>);

// SAFETY: as said at STATE.
unsafe impl Sync for State {}

/// Takes the place of the C library's `ptrace`.
///
/// # Safety
/// As ptrace(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(
    request: c_uint,
    pid: c_int,
    address: *mut c_void,
    data: *mut c_void,
) -> c_long {
    // SAFETY: what the caller promised to ptrace(2); the buffer is larger than
    // both states, the kernel is told its size, and no one else uses it.
    unsafe {
        let next = next();
        if request != PTRACE_SETREGSET || address as usize != NT_X86_XSTATE {
            return next(request, pid, address, data);
        }
        if FULL.load(Relaxed) == 0 {
            let result = next(request, pid, address, data);
            if result == 0 || *__errno_location() != EFAULT {
                return result;
            }
        }
        let state = STATE.0.get().cast::<u8>();
        if FULL.load(Relaxed) == 0 {
            let mut all = IoVec { base: state.cast(), length: ROOM };
            let result = next(PTRACE_GETREGSET, pid, address, (&raw mut all).cast());
            if result != 0 {
                return result;
            }
            FULL.store(all.length, Relaxed);
            ptr::write_bytes(state, 0, all.length);
        }
        let given = &*data.cast::<IoVec>();
        let mut all = IoVec { base: state.cast(), length: FULL.load(Relaxed) };
        ptr::copy_nonoverlapping(given.base.cast::<u8>(), state, given.length.min(all.length));
        *state.add(XSTATE_BV).cast::<u64>() &= KNOWN_COMPONENTS;
        next(request, pid, address, (&raw mut all).cast())
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
