//! All pools of the host as they are.

use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::{btrfs, md};
use braid_pool::observed::ObservedPool;

/// md arrays, then btrfs filesystems; those that run or are mounted, and those that their disks
/// tell of. A btrfs on an array is told of by the array.
pub fn observe(host: &HostRoot, inventory: &Inventory) -> Vec<ObservedPool> {
    let arrays = md::observe(host, inventory).into_iter().map(ObservedPool::Md);
    arrays.chain(btrfs::observe(host, inventory).into_iter().map(ObservedPool::Btrfs)).collect()
}
