//! All pools of the host as they are.

use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::{btrfs, md};
use braid_pool::observed::ObservedPool;

/// md arrays, then btrfs filesystems; those running or mounted, and those known only from their
/// disks. A btrfs on an array is reported with the array.
pub fn observe(host: &HostRoot, inventory: &Inventory) -> Vec<ObservedPool> {
    let arrays = md::observe(host, inventory).into_iter().map(ObservedPool::Md);
    arrays.chain(btrfs::observe(host, inventory).into_iter().map(ObservedPool::Btrfs)).collect()
}
