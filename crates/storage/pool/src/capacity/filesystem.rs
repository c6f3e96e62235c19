//! What ext4 and XFS keep for themselves.

use crate::layout::MdFilesystem;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// What a fill with large files reaches on a filesystem made by Braid (no blocks reserved for
/// root).
pub(super) fn fill_bytes(filesystem: MdFilesystem, device_bytes: u64) -> u64 {
    let own = match filesystem {
        MdFilesystem::Ext4 => {
            let inodes = device_bytes / ext4_bytes_per_inode(device_bytes) * 256;
            // Superblock copies, group descriptors, bitmaps; and 2 %, at most 4096 clusters, that
            // nobody may use (`ext4_calculate_resv_clusters`).
            let groups = device_bytes / (128 * MIB) * 3 * BLOCK;
            inodes
                + ext4_journal_bytes(device_bytes)
                + groups
                + (device_bytes / 50).min(4096 * BLOCK)
        }
        // The log is a 2048th of large devices (64 MiB to 2 GiB); allocation groups, free space
        // trees and the reserves of reflink and inode trees take about another percent.
        MdFilesystem::Xfs => {
            (device_bytes / 2048).clamp(64 * MIB, 2 * GIB - MIB) + device_bytes / 100
        }
    };
    device_bytes.saturating_sub(own)
}

/// The usage types of mke2fs.conf: small, default, big, huge.
fn ext4_bytes_per_inode(device_bytes: u64) -> u64 {
    match device_bytes {
        bytes if bytes < 512 * MIB => 4096,
        bytes if bytes < 4 * TIB => 16_384,
        bytes if bytes < 16 * TIB => 32_768,
        _ => 65_536,
    }
}

/// `ext2fs_default_journal_size` of e2fsprogs 1.47.
fn ext4_journal_bytes(device_bytes: u64) -> u64 {
    let blocks = match device_bytes / BLOCK {
        blocks if blocks < 32_768 => 1024,
        blocks if blocks < 256 * 1024 => 4096,
        blocks if blocks < 512 * 1024 => 8192,
        blocks if blocks < 4096 * 1024 => 16_384,
        blocks if blocks < 8192 * 1024 => 32_768,
        blocks if blocks < 16_384 * 1024 => 65_536,
        blocks if blocks < 32_768 * 1024 => 131_072,
        _ => 262_144,
    };
    blocks * BLOCK
}
