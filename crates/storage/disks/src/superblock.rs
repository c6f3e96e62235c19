//! Superblocks read from the members themselves: they describe arrays that aren't assembled and
//! btrfs filesystems that aren't mounted. Read-only, with fixed bounds: any bytes may be there.

pub mod bcachefs;
pub mod btrfs;
mod bytes;
pub mod luks;
pub mod md;
pub mod partitions;
mod uncached;

pub use uncached::read_at;
