#![allow(unsafe_code)]

use super::ioctl::{self, SendArgs};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// How a stream is written. Two streams of one snapshot are the same, byte for
/// byte, only when they are of the same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendKind {
    /// The protocol's version, 1 or 2.
    pub version: u32,
    /// Compressed extents are sent as they are on disk (needs version 2).
    pub compressed: bool,
}

/// What the kernel should write.
#[derive(Clone, Copy, Debug)]
pub struct SendOrder {
    /// The subvolume whose difference to `root` is sent, by its number; it
    /// must be read-only and have been so ever since.
    pub parent: Option<u64>,
    /// How.
    pub kind: SendKind,
    /// Only the extents' lengths instead of their data, for an estimate.
    pub without_data: bool,
}

/// Writes the stream of the read-only subvolume open as `root` into `pipe`;
/// returns when all is written.
///
/// # Errors
/// `BrokenPipe` when the reader closed its end; `PermissionDenied` when the
/// subvolume is not read-only.
pub fn send(root: &File, order: &SendOrder, pipe: &OwnedFd) -> io::Result<()> {
    // The parent may also lend extents that moved to other files.
    let clone_sources: Vec<u64> = order.parent.into_iter().collect();
    let mut args: SendArgs = ioctl::zeroed();
    args.send_fd = i64::from(pipe.as_raw_fd());
    args.clone_sources_count = clone_sources.len() as u64;
    args.clone_sources = clone_sources.as_ptr();
    args.parent_root = order.parent.unwrap_or(0);
    if order.kind.version > 1 {
        args.flags |= VERSION;
        args.version = order.kind.version;
    }
    if order.kind.compressed {
        args.flags |= COMPRESSED;
    }
    if order.without_data {
        args.flags |= NO_FILE_DATA;
    }
    // SAFETY: the request's own structure; `clone_sources` outlives the call.
    unsafe { ioctl::call(root, ioctl::SEND, &mut args) }
}

/// `BTRFS_SEND_FLAG_NO_FILE_DATA`
const NO_FILE_DATA: u64 = 0x1;
/// `BTRFS_SEND_FLAG_VERSION`
const VERSION: u64 = 0x8;
/// `BTRFS_SEND_FLAG_COMPRESSED`
const COMPRESSED: u64 = 0x10;
