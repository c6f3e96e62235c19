//! btrfs filesystems: mounted ones by `/sys/fs/btrfs/UUID` and ioctls, others by their members'
//! superblocks.

mod member_fault;
mod nodatacow;
pub mod scrub_record;
mod unmounted;

use crate::block_device;
use crate::btrfs_ioctl as ioctl;
use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::mount_table::{self, MountTable};
use crate::mounted_btrfs::{SYSFS, devices, kernel_name, mounted, mounts_of};
use crate::superblock::btrfs::{self as superblock, BtrfsSuper};
use braid_pool::layout::Profile;
use braid_pool::observed::{
    BtrfsErrors, BtrfsMember, ExclusiveOperation, MemberFault, ObservedBtrfs, Purpose, Scrub,
    SpaceUse,
};
use braid_pool::untrusted::Untrusted;
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
use std::fs::File;

/// All btrfs filesystems of the host: the mounted ones first.
pub fn observe(host: &HostRoot, inventory: &Inventory) -> Vec<ObservedBtrfs> {
    let mounts = MountTable::read(host);
    let mut all: Vec<ObservedBtrfs> =
        mounted(host).into_iter().map(|uuid| observe_one(host, inventory, &mounts, uuid)).collect();
    unmounted::add(host, inventory, &mut all);
    all
}

/// An open directory of the filesystem, for ioctls; `None` when it isn't mounted where we see it.
pub fn open(host: &HostRoot, uuid: Uuid) -> Option<File> {
    let mounts = MountTable::read(host);
    let mounts = mounts_of(host, &mounts, uuid);
    mounts.into_iter().find_map(|mounted| File::open(&mounted.reach).ok())
}

/// Bytes in use, copies included, on all devices of a filesystem that is mounted anywhere.
pub fn used_on_devices(host: &HostRoot, uuid: Uuid) -> Option<u64> {
    let used =
        |kind: &str| host.number::<u64>(format!("sys/fs/btrfs/{uuid}/allocation/{kind}/disk_used"));
    ["data", "metadata", "system"].into_iter().map(used).sum()
}

/// Progress of a running scrub, per device; empty when none runs.
pub fn running_scrub(host: &HostRoot, uuid: Uuid) -> Vec<ioctl::ScrubProgress> {
    let Some(directory) = open(host, uuid) else { return Vec::new() };
    devids(host, uuid)
        .into_iter()
        .filter_map(|devid| ioctl::scrub_progress(&directory, devid).ok().flatten())
        .collect()
}

/// Write and read errors so far on the target of a running replace; nothing when none runs.
pub fn replace_target_errors(host: &HostRoot, uuid: Uuid) -> BtrfsErrors {
    errors(host, &format!("{SYSFS}/{uuid}"), 0, open(host, uuid).as_ref())
}

/// Estimated progress of a scrub, 0 to 1: each device has its share of all copies to read. `None`
/// when no device is scrubbed.
pub fn scrub_share(pool: &ObservedBtrfs, running: &[ioctl::ScrubProgress]) -> Option<f64> {
    if running.is_empty() {
        return None;
    }
    let copies = |space: &SpaceUse| space.used_bytes.saturating_mul(space.profile.copies() as u64);
    let all: f64 = pool.space.iter().map(|space| copies(space) as f64).sum();
    let allocated: f64 = pool.present().map(|member| member.allocated_bytes as f64).sum();
    let done: f64 = pool
        .present()
        .map(|member| {
            let to_read = all * member.allocated_bytes as f64 / allocated.max(1.0);
            let progress = running.iter().find(|progress| progress.devid == member.devid);
            // One that is no longer being scrubbed is done.
            progress.map_or(to_read, |progress| (progress.scrubbed_bytes as f64).min(to_read))
        })
        .sum();
    Some((done / all.max(1.0)).clamp(0.0, 1.0))
}

/// What is known of the scrubs of a mounted filesystem.
pub fn scrub_state(host: &HostRoot, uuid: Uuid) -> Scrub {
    let there = |devid: &u64| !host.flag(format!("{SYSFS}/{uuid}/devinfo/{devid}/missing"));
    let present: Vec<u64> = devids(host, uuid).into_iter().filter(there).collect();
    let mut scrub = scrub_record::read(host, uuid, &present);
    for progress in running_scrub(host, uuid) {
        scrub.running = true;
        scrub.uncorrectable = scrub.uncorrectable.saturating_add(progress.uncorrectable);
        scrub.corrected = scrub.corrected.saturating_add(progress.corrected);
    }
    scrub
}

/// Per device, the errors that the last or the running scrub could not correct.
fn uncorrectable(host: &HostRoot, uuid: Uuid) -> BTreeMap<u64, u64> {
    let mut of = scrub_record::uncorrectable(host, uuid);
    for progress in running_scrub(host, uuid) {
        of.insert(progress.devid, progress.uncorrectable);
    }
    of
}

fn observe_one(
    host: &HostRoot,
    inventory: &Inventory,
    table: &MountTable,
    uuid: Uuid,
) -> ObservedBtrfs {
    let sysfs = format!("{SYSFS}/{uuid}");
    let mounts = mounts_of(host, table, uuid);
    let directory = mounts.iter().find_map(|mounted| File::open(&mounted.reach).ok());
    let superblocks: BTreeMap<u64, (String, BtrfsSuper)> = devices(host, uuid)
        .into_iter()
        .filter_map(|name| {
            let path = host.path(block_device::node(&name));
            let found = superblock::read(&path).ok().flatten()?;
            (found.filesystem == uuid).then_some((found.devid, (name, found)))
        })
        .collect();
    let members: Vec<BtrfsMember> = devids(host, uuid)
        .into_iter()
        .filter(|devid| !directory.as_ref().is_some_and(|directory| is_removed(directory, *devid)))
        .map(|devid| {
            let seen = superblocks.get(&devid);
            member(host, inventory, &sysfs, devid, seen, directory.as_ref())
        })
        .collect();
    let mut members = members;
    let uncorrectable = uncorrectable(host, uuid);
    for member in &mut members {
        member.uncorrectable = uncorrectable.get(&member.devid).copied().unwrap_or(0);
    }
    let newest = superblocks.values().map(|(_, found)| found.generation).max();
    ObservedBtrfs {
        uuid,
        label: host.word(format!("{sysfs}/label")).map(Untrusted),
        space: space(host, &sysfs),
        profiles_on_disk: Vec::new(),
        exclusive_operation: exclusive_operation(host, &sysfs),
        scrub: Scrub { pool_age: mount_table::age(&mounts), ..scrub_state(host, uuid) },
        quotas: host.flag(format!("{sysfs}/qgroups/enabled")),
        generation: newest.or_else(|| host.number(format!("{sysfs}/generation"))).unwrap_or(0),
        nodatacow: nodatacow::found(table, &mounts),
        mounts: mounts.iter().map(|mounted| mounted.to_model()).collect(),
        members,
    }
}

fn member(
    host: &HostRoot,
    inventory: &Inventory,
    sysfs: &str,
    devid: u64,
    seen: Option<&(String, BtrfsSuper)>,
    directory: Option<&File>,
) -> BtrfsMember {
    let info = directory.and_then(|directory| ioctl::device_info(directory, devid).ok());
    let told = info.as_ref().and_then(|info| info.path.as_deref()).and_then(kernel_name);
    let name = seen.map(|(name, _)| name.clone()).or(told.clone());
    let device = name.as_ref().and_then(|name| block_device::one(host, name));
    // A disk that was pulled out: btrfs still lists it, but its node is gone.
    let vanished = told.is_some() && device.is_none();
    let path = device.as_ref().map(|device| device.path());
    let fault = device
        .as_ref()
        .filter(|_| seen.is_none())
        .and_then(|device| member_fault::found(&host.path(device.path()), device.size_bytes));
    let superblock = seen.map(|(_, superblock)| superblock);
    BtrfsMember {
        devid,
        uuid: superblock.map(|found| found.device).or(info.as_ref().map(|info| info.uuid)),
        disk: path.as_ref().and_then(|path| inventory.by_path(path)).map(|disk| disk.member_id()),
        path,
        size_bytes: info
            .as_ref()
            .map(|info| info.total_bytes)
            .or(superblock.map(|found| found.device_bytes))
            .unwrap_or(0),
        device_bytes: device.map(|device| device.size_bytes),
        allocated_bytes: info
            .as_ref()
            .map(|info| info.allocated_bytes)
            .or(superblock.map(|found| found.allocated_bytes))
            .unwrap_or(0),
        missing: vanished
            || fault.is_some_and(MemberFault::is_dead)
            || host.flag(format!("{sysfs}/devinfo/{devid}/missing")),
        fault,
        errors: errors(host, sysfs, devid, directory),
        uncorrectable: 0,
        generation: superblock.map(|found| found.generation),
    }
}

/// Numbers of all members, missing ones too; 0 is a replace's target, not a member yet.
fn devids(host: &HostRoot, uuid: Uuid) -> Vec<u64> {
    let mut devids: Vec<u64> = host
        .names(format!("{SYSFS}/{uuid}/devinfo"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|devid| *devid != 0)
        .collect();
    devids.sort_unstable();
    devids
}

/// Linux 6.1 still lists a missing device in sysfs after it was removed.
fn is_removed(directory: &File, devid: u64) -> bool {
    let info = ioctl::device_info(directory, devid);
    info.is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
}

/// From `devinfo/N/error_stats` (since Linux 5.14), or the ioctl.
fn errors(host: &HostRoot, sysfs: &str, devid: u64, directory: Option<&File>) -> BtrfsErrors {
    let Some(text) = host.word(format!("{sysfs}/devinfo/{devid}/error_stats")) else {
        return directory.and_then(|dir| ioctl::device_errors(dir, devid).ok()).unwrap_or_default();
    };
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    BtrfsErrors {
        write: count("write_errs"),
        read: count("read_errs"),
        flush: count("flush_errs"),
        corruption: count("corruption_errs"),
        generation: count("generation_errs"),
    }
}

/// `allocation/PURPOSE/PROFILE/{total_bytes,used_bytes}`, one directory for each profile that has
/// block groups.
fn space(host: &HostRoot, sysfs: &str) -> Vec<SpaceUse> {
    const PURPOSES: [(&str, Purpose); 4] = [
        ("data", Purpose::Data),
        ("metadata", Purpose::Metadata),
        ("system", Purpose::System),
        ("mixed", Purpose::Mixed),
    ];
    let mut all = Vec::new();
    for (directory, purpose) in PURPOSES {
        let of = format!("{sysfs}/allocation/{directory}");
        for name in host.names(&of) {
            let Some(profile) = Profile::from_word(&name) else { continue };
            let number = |file: &str| host.number::<u64>(format!("{of}/{name}/{file}"));
            let Some(total_bytes) = number("total_bytes").filter(|total| *total > 0) else {
                continue;
            };
            let used_bytes = number("used_bytes").unwrap_or(0);
            all.push(SpaceUse { purpose, profile, total_bytes, used_bytes });
        }
    }
    all
}

/// The words of the kernel's fs/btrfs/sysfs.c, `btrfs_exclusive_operation_show`.
fn exclusive_operation(host: &HostRoot, sysfs: &str) -> ExclusiveOperation {
    match host.word(format!("{sysfs}/exclusive_operation")).as_deref() {
        None | Some("none") => ExclusiveOperation::None,
        Some("balance") => ExclusiveOperation::Balance,
        Some("balance paused") => ExclusiveOperation::BalancePaused,
        Some("device add") => ExclusiveOperation::DeviceAdd,
        Some("device remove") => ExclusiveOperation::DeviceRemove,
        Some("device replace") => ExclusiveOperation::DeviceReplace,
        Some("resize") => ExclusiveOperation::Resize,
        Some(other) => ExclusiveOperation::Other(other.to_owned()),
    }
}
