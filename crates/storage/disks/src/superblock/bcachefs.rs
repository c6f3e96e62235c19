//! The superblock of a bcachefs member (`struct bch_sb` in the kernel's former
//! fs/bcachefs/bcachefs_format.h). libblkid knows the current magic number only since 2.39, so on
//! older hosts such a member would look empty.

use super::bytes::Block;
use super::read_at;
use braid_pool::uuid::Uuid;
use std::io;
use std::path::Path;

/// The first one, at sector 8.
const AT: u64 = 4096;
const LENGTH: usize = 4096;
/// A checksum and versions come before it.
const MAGIC_AT: usize = 24;
const MAGIC: [u8; 16] = [
    0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef,
];
/// The UUID that users see; an internal one comes before it.
const USER_UUID_AT: usize = 56;

/// UUID of the filesystem that the device is a member of; `None` when it is none.
///
/// # Errors
/// When the device can't be opened or read.
pub fn read(device: &Path) -> io::Result<Option<Uuid>> {
    Ok(parse(&read_at(device, AT, LENGTH)?))
}

/// Parses the bytes at 4 KiB.
pub fn parse(bytes: &[u8]) -> Option<Uuid> {
    let block = Block(bytes);
    (block.array(MAGIC_AT)? == MAGIC).then_some(Uuid::from_bytes(block.array(USER_UUID_AT)?))
}
