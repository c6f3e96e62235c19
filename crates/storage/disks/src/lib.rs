//! This host's disks and pools, from the kernel: sysfs, ioctls, superblocks; from other programs
//! (`blkid`, `wipefs`, `smartctl`) only what the kernel doesn't say. Nothing is changed here.

mod blankness;
pub mod block_device;
pub mod btrfs;
pub mod btrfs_ioctl;
pub mod host;
pub mod host_root;
pub mod identity;
pub mod inventory;
pub mod luks;
mod mapping;
pub mod md;
pub mod mount_table;
mod mounted_btrfs;
pub mod pools;
pub mod scope;
pub mod scrub_log;
pub mod signature;
pub mod smart;
pub mod superblock;
pub mod tool;

pub use host_root::HostRoot;
pub use inventory::{AskSmart, Inventory, NoSuchDisk, disk_now};
