//! Superblocks read from the members themselves: what an array that isn't assembled, or a btrfs
//! that isn't mounted, is. Read only, with fixed bounds: any bytes may be there.

pub mod bcachefs;
pub mod btrfs;
mod bytes;
pub mod luks;
pub mod md;
pub mod partitions;
mod uncached;

pub use uncached::read_at;
