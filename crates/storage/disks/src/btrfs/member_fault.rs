//! Devices of which only the name is there.

use crate::superblock::read_at;
use braid_pool::observed::MemberFault;
use std::io;
use std::path::Path;

/// What is wrong with a member of a mounted btrfs whose superblock wasn't found on its device.
pub fn found(device: &Path, size_bytes: u64) -> Option<MemberFault> {
    if size_bytes == 0 {
        return Some(MemberFault::NoSize);
    }
    if !fails(device, SUPERBLOCK) {
        return None;
    }
    let elsewhere = [0, 1 << 20, size_bytes / 2, size_bytes.saturating_sub(2 * BLOCK)];
    let all_fail = elsewhere.into_iter().all(|at| fails(device, at - at % BLOCK));
    Some(match all_fail {
        true => MemberFault::NoAnswer,
        false => MemberFault::SuperblockUnreadable,
    })
}

/// Where the first superblock is (include/uapi/linux/btrfs_tree.h, `BTRFS_SUPER_INFO_OFFSET`).
const SUPERBLOCK: u64 = 64 << 10;
const BLOCK: u64 = 4096;

/// Whether the device itself fails to read there; lacking permission to read isn't its fault.
fn fails(device: &Path, at: u64) -> bool {
    let ours = [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound];
    read_at(device, at, BLOCK as usize).is_err_and(|error| !ours.contains(&error.kind()))
}
