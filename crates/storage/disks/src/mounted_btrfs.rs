//! Which btrfs are mounted, where, and by which devices.

use crate::block_device;
use crate::btrfs_ioctl::filesystem_uuid;
use crate::host_root::HostRoot;
use crate::mount_table::{MountTable, Mounted};
use crate::scope;
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// Where the kernel shows mounted ones.
pub const SYSFS: &str = "sys/fs/btrfs";

/// UUIDs of the mounted ones, even if only in a mount namespace that we don't see.
pub fn mounted(host: &HostRoot) -> Vec<Uuid> {
    let all = host.names(SYSFS).into_iter().filter_map(|name| name.parse().ok());
    let is_seen = |device: &String| block_device::one(host, device).is_some();
    let limited = scope::is_limited(host);
    all.filter(|uuid| !limited || devices(host, *uuid).iter().any(is_seen)).collect()
}

/// Where each member device of a mounted btrfs is mounted, by its kernel name.
pub fn members(host: &HostRoot, mounts: &MountTable) -> BTreeMap<String, Vec<String>> {
    let mut places = BTreeMap::new();
    for uuid in mounted(host) {
        let mut at: Vec<String> =
            mounts_of(host, mounts, uuid).into_iter().map(|mounted| mounted.at.clone()).collect();
        if at.is_empty() {
            at.push("a place in another mount namespace".to_owned());
        }
        for device in devices(host, uuid) {
            places.insert(device, at.clone());
        }
    }
    places
}

/// The mounts of one filesystem. The kernel says for each btrfs mount which filesystem it is; where
/// it can't be asked, the mount's source does.
pub fn mounts_of<'a>(host: &HostRoot, mounts: &'a MountTable, uuid: Uuid) -> Vec<&'a Mounted> {
    let devices = devices(host, uuid);
    let is_its = |mounted: &&Mounted| {
        let asked = File::open(&mounted.reach).ok().and_then(|dir| filesystem_uuid(&dir).ok());
        match asked {
            Some(of) => of == uuid,
            None => kernel_name(&mounted.source).is_some_and(|name| devices.contains(&name)),
        }
    };
    mounts.of_kind("btrfs").filter(is_its).collect()
}

/// Kernel names of the member devices that are there.
pub fn devices(host: &HostRoot, uuid: Uuid) -> Vec<String> {
    host.names(format!("{SYSFS}/{uuid}/devices"))
}

/// For `/dev/mapper/…` and by-id links, the node's own name.
pub fn kernel_name(path: &str) -> Option<String> {
    let node = fs::canonicalize(path).ok();
    let node = node.as_deref().and_then(Path::to_str).unwrap_or(path);
    block_device::name_of(node)
}
