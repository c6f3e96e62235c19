use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// O_DIRECT needs memory, offset and length in multiples of the logical sector, which is 512 or
/// 4096.
const ALIGNED: usize = 4096;

/// `length` bytes of a device from `offset`, both multiples of 4096, as they are on the disk now:
/// md writes its superblocks past the page cache, so a cached one may be old. Fewer bytes at the
/// device's end.
///
/// # Errors
/// When the device can't be opened or read.
pub fn read_at(device: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut memory = vec![0; length + ALIGNED];
    let start = memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
    let window = memory.get_mut(start..start + length).unwrap_or_default();
    let read = match open(device, libc::O_DIRECT).and_then(|file| fill(&file, offset, window)) {
        // Not every filesystem with disk images supports it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            fill(&open(device, 0)?, offset, window)?
        }
        other => other?,
    };
    memory.drain(..start);
    memory.truncate(read);
    Ok(memory)
}

fn open(device: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(device)
}

fn fill(file: &File, offset: u64, window: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = window.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // A short read at the end isn't aligned any more.
        if filled % ALIGNED != 0 {
            break;
        }
    }
    Ok(filled)
}
