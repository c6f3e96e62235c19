//! The superblock of a btrfs device, by the kernel's fs/btrfs and include/uapi/linux/btrfs_tree.h
//! (`struct btrfs_super_block`).

pub mod devices;

use super::bytes::Block;
use super::read_at;
use braid_pool::uuid::Uuid;
use std::io;
use std::path::Path;

/// What it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BtrfsSuper {
    /// UUID of the filesystem.
    pub filesystem: Uuid,
    /// The UUID by which members recognise each other: the one it was made with, which stays when
    /// the filesystem gets another (`btrfstune -m`).
    pub belongs_to: Uuid,
    /// Its label.
    pub label: Option<String>,
    /// Transaction that wrote it.
    pub generation: u64,
    /// How many devices the filesystem has.
    pub devices: u64,
    /// Number of this device.
    pub devid: u64,
    /// UUID of this device.
    pub device: Uuid,
    /// Size of this device as btrfs uses it.
    pub device_bytes: u64,
    /// Bytes occupied by chunks.
    pub allocated_bytes: u64,
}

/// The first copy; the others, at 64 MiB and 256 GiB, are for recovery.
const AT: u64 = 64 << 10;
const LENGTH: usize = 4096;
const MAGIC: [u8; 8] = *b"_BHRfS_M";
/// `struct btrfs_dev_item` inside of it.
const DEV_ITEM: usize = 0xc9;

/// Reads it; `None` when there is none.
///
/// # Errors
/// When the device can't be opened or read.
pub fn read(device: &Path) -> io::Result<Option<BtrfsSuper>> {
    Ok(parse(&read_at(device, AT, LENGTH)?))
}

/// Parses the bytes at 64 KiB.
pub fn parse(bytes: &[u8]) -> Option<BtrfsSuper> {
    let block = Block(bytes);
    // `bytenr` distinguishes a copy from the first.
    if block.array(0x40)? != MAGIC || block.u64(0x30)? != AT {
        return None;
    }
    let filesystem = Uuid::from_bytes(block.array(0x20)?);
    // `BTRFS_FEATURE_INCOMPAT_METADATA_UUID`
    let has_metadata_uuid = block.u64(0xbc)? & 1 << 10 != 0;
    Some(BtrfsSuper {
        filesystem,
        belongs_to: match has_metadata_uuid {
            true => Uuid::from_bytes(block.array(0x23b)?),
            false => filesystem,
        },
        generation: block.u64(0x48)?,
        devices: block.u64(0x88)?,
        devid: block.u64(DEV_ITEM)?,
        device_bytes: block.u64(DEV_ITEM + 8)?,
        allocated_bytes: block.u64(DEV_ITEM + 16)?,
        device: Uuid::from_bytes(block.array(DEV_ITEM + 66)?),
        label: Some(block.text(0x12b, 256)?).filter(|label| !label.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of a pair got a new UUID, the other is as it was made.
    #[test]
    fn a_member_with_another_uuid_still_belongs_to_the_others() {
        let mut made = vec![0; LENGTH];
        made[0x20..0x30].fill(1);
        made[0x30..0x38].copy_from_slice(&AT.to_le_bytes());
        made[0x40..0x48].copy_from_slice(&MAGIC);
        let mut renamed = made.clone();
        renamed[0x20..0x30].fill(2);
        renamed[0x23b..0x24b].fill(1);
        renamed[0xbc..0xc4].copy_from_slice(&(1u64 << 10).to_le_bytes());
        let (made, renamed) = (parse(&made).unwrap(), parse(&renamed).unwrap());
        assert_ne!(made.filesystem, renamed.filesystem);
        assert_eq!(made.belongs_to, renamed.belongs_to);
    }
}
