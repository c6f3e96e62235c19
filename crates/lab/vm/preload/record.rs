//! Preloaded into the kernel of a VM whose disks are recorded; built by build.rs,
//! not a module of the crate.
//!
//! User Mode Linux's disk driver (arch/um/drivers/ubd_kern.c) serves all disks one request after
//! another, with these functions of the C library. Their effects on files are appended to the file
//! that `BRAID_VM_RECORD` names, each in one write: see src/recording.rs for the format. They are
//! carried out first and recorded then: when the machine learns that something is on its disk, it
//! is in the record. Flushes aren't recorded: the driver (Linux 6.1) does nothing for them.
#![no_std]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Relaxed};

/// `dlsym`'s name for "the next after this library".
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
/// `O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC` of x86-64.
const TO_APPEND: c_int = 0o1 | 0o100 | 0o2000 | 0o2000000;
/// Size of x86-64's `struct stat`, in words.
const STAT_WORDS: usize = 18;

const WRITTEN: u64 = 0;
const EMPTIED: u64 = 1;

#[repr(C)]
struct Piece {
    base: *const c_void,
    length: usize,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn writev(file: c_int, pieces: *const Piece, count: c_int) -> isize;
    fn fstat(file: c_int, stat: *mut u64) -> c_int;
    fn abort() -> !;
}

/// The C library's functions, looked up once: the driver's process shares its memory with the
/// kernel's but has another number, and the C library takes both for one thread, so that `dlsym`
/// could be entered twice at a time.
static NEXT_PWRITE64: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static NEXT_FALLOCATE64: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = find_next;

/// The record, once it is open.
static RECORD: AtomicI32 = AtomicI32::new(-1);

/// Replaces the C library's.
///
/// # Safety
/// Like pwrite(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    file: c_int,
    data: *const c_void,
    length: usize,
    offset: i64,
) -> isize {
    type Pwrite = unsafe extern "C" fn(c_int, *const c_void, usize, i64) -> isize;
    // SAFETY: what the caller promised; the C library's function has this type.
    unsafe {
        let next: Pwrite = transmute(found(&NEXT_PWRITE64, c"pwrite64"));
        let written = next(file, data, length, offset);
        if written > 0 {
            note(file, WRITTEN, offset as u64, written as u64, data);
        }
        written
    }
}

/// Replaces the C library's: discards and writes of zeros.
///
/// # Safety
/// Like fallocate(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate64(file: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
    type Fallocate = unsafe extern "C" fn(c_int, c_int, i64, i64) -> c_int;
    // SAFETY: what the caller promised; the C library's function has this type.
    unsafe {
        let next: Fallocate = transmute(found(&NEXT_FALLOCATE64, c"fallocate64"));
        let result = next(file, mode, offset, length);
        if result == 0 {
            note(file, EMPTIED, offset as u64, length as u64, ptr::null());
        }
        result
    }
}

extern "C" fn find_next() {
    found(&NEXT_PWRITE64, c"pwrite64");
    found(&NEXT_FALLOCATE64, c"fallocate64");
}

fn found(function: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    if function.load(Relaxed).is_null() {
        // SAFETY: the name is zero-terminated.
        function.store(unsafe { dlsym(RTLD_NEXT, name.as_ptr()) }, Relaxed);
    }
    function.load(Relaxed)
}

/// Kind, the file's inode number, offset, length; then the data if there is any.
unsafe fn note(file: c_int, kind: u64, offset: u64, length: u64, data: *const c_void) {
    // SAFETY: fstat(2) fills what is large enough, writev(2) reads what lives here
    // or what the caller has just written.
    unsafe {
        let mut stat = [0; STAT_WORDS];
        if fstat(file, stat.as_mut_ptr()) != 0 {
            return;
        }
        let head = [kind, stat[1], offset, length].map(u64::to_le_bytes);
        let data_length = if data.is_null() { 0 } else { length as usize };
        let pieces = [
            Piece { base: head.as_ptr().cast(), length: size_of_val(&head) },
            Piece { base: data, length: data_length },
        ];
        let wanted = (size_of_val(&head) + data_length) as isize;
        // An incomplete record is worse than no machine.
        if writev(record(), pieces.as_ptr(), 2) != wanted {
            abort();
        }
    }
}

unsafe fn record() -> c_int {
    let open_already = RECORD.load(Relaxed);
    if open_already >= 0 {
        return open_already;
    }
    // SAFETY: the names are zero-terminated.
    let opened = unsafe {
        let path = getenv(c"BRAID_VM_RECORD".as_ptr());
        if path.is_null() {
            abort();
        }
        open(path, TO_APPEND, 0o600)
    };
    RECORD.store(opened, Relaxed);
    opened
}

#[panic_handler]
fn never(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
