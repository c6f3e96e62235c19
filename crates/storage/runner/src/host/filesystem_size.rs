//! Whether a filesystem fills the device below it.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that the ext4 on this device occupies, by its superblock
/// (Documentation/filesystems/ext4/super.rst: `s_blocks_count`, `s_log_block_size`).
pub fn ext4(device: &Path) -> io::Result<u64> {
    let mut superblock = [0u8; 1024];
    File::open(device)?.read_exact_at(&mut superblock, 1024)?;
    let word = |at: usize| {
        let bytes: [u8; 4] = std::array::from_fn(|index| superblock[at + index]);
        u64::from(u32::from_le_bytes(bytes))
    };
    if word(0x38) & 0xffff != 0xef53 {
        return Err(io::Error::other("no ext4 is there"));
    }
    let blocks = word(0x150) << 32 | word(0x4);
    Ok(blocks.saturating_mul(1024 << word(0x18).min(6)))
}

/// Bytes of the data section of the XFS mounted here: `datablocks` and `blocksize` of
/// `struct xfs_fsop_geom_v1` (fs/xfs/libxfs/xfs_fs.h).
pub fn xfs(mount: &Path) -> io::Result<u64> {
    /// `_IOR('X', 100, struct xfs_fsop_geom_v1)`, 112 bytes.
    const GEOMETRY: u64 = 2 << 30 | 112 << 16 | (b'X' as u64) << 8 | 100;
    let mut answer = [0u64; 14];
    let folder = File::open(mount)?;
    // SAFETY: the number holds the size of `answer`, which lives through the call.
    let result =
        unsafe { libc::ioctl(folder.as_raw_fd(), GEOMETRY as libc::Ioctl, answer.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // The first 32-bit word is the size of a block.
    let block_bytes = answer[0] & 0xffff_ffff;
    Ok(block_bytes.saturating_mul(answer[DATA_BLOCKS]))
}

/// blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct: 32 bytes.
const DATA_BLOCKS: usize = 4;
