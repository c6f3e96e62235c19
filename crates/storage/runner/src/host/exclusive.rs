//! Holding a disk so that nobody else takes it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A block device held with `O_EXCL`: mounts, md, swap and other programs that do the same are
/// kept out until it is dropped (open(2)).
#[derive(Debug)]
pub struct Held {
    _device: File,
}

/// Takes hold of it; nothing when somebody else has it.
pub fn hold(path: &str) -> io::Result<Option<Held>> {
    let flags = libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(device) => Ok(Some(Held { _device: device })),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(None),
        Err(error) => Err(error),
    }
}
