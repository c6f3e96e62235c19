//! md arrays: running ones by `/sys/block/mdX/md` (the kernel's Documentation/admin-guide/md.rst),
//! others by their members' superblocks.

mod stopped;

use crate::block_device::{self, BlockDevice};
use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::mount_table::{self, MountTable};
use crate::scrub_log::ScrubLog;
use crate::signature;
use crate::superblock::md::{self as superblock, MdSuper};
use braid_pool::disk::{Content, Family};
use braid_pool::layout::MdLayout;
use braid_pool::observed::{MdMember, MdMemberState, ObservedMd, OnArray, Scrub, Sync, SyncAction};
use braid_pool::uuid::Uuid;
use std::path::Path;
use std::slice;

/// All arrays of the host: the running ones first. Containers of firmware RAID aren't ours and are
/// left out.
pub fn observe(host: &HostRoot, inventory: &Inventory) -> Vec<ObservedMd> {
    let mounts = MountTable::read(host);
    let mut all: Vec<ObservedMd> = running(host)
        .iter()
        .filter_map(|name| observe_one(host, inventory, &mounts, name))
        .collect();
    stopped::add(host, inventory, &mut all);
    all
}

/// Kernel names of the running arrays. One that was stopped stays listed for a while (`clear`), and
/// one that lacks members is assembled without running (`inactive`): the kernel doesn't show it
/// yet, its superblocks say more.
pub fn running(host: &HostRoot) -> Vec<String> {
    let mut names = host.names("sys/block");
    names.retain(|name| {
        let state = host.word(format!("sys/block/{name}/md/array_state"));
        state.is_some_and(|state| state != "clear" && state != "inactive")
    });
    names
}

fn observe_one(
    host: &HostRoot,
    inventory: &Inventory,
    mounts: &MountTable,
    name: &str,
) -> Option<ObservedMd> {
    let md = format!("sys/block/{name}/md");
    let word = |file: &str| host.word(format!("{md}/{file}"));
    let metadata = word("metadata_version").filter(|version| !version.starts_with("external:"))?;
    let device = block_device::one(host, name)?;
    let (mut members, superblocks): (Vec<MdMember>, Vec<Option<MdSuper>>) =
        members(host, inventory, &md).into_iter().unzip();
    let superblock = superblocks.into_iter().flatten().next();
    let wants_disks = host.number(format!("{md}/raid_disks")).unwrap_or(0);
    add_missing(&mut members, wants_disks);
    let level = word("level").unwrap_or_default();
    let sync = sync(host, &md);
    let uuid = match &superblock {
        Some(superblock) => superblock.array,
        None => sysfs_uuid(&word("uuid")?, &metadata)?,
    };
    Some(ObservedMd {
        uuid,
        name: superblock
            .map(|superblock| superblock.name)
            .filter(|name| !name.is_empty())
            .or_else(|| name_given_here(host, name))
            .unwrap_or_default(),
        metadata,
        layout: MdLayout::from_kernel(&level, host.number(format!("{md}/layout")).unwrap_or(0)),
        chunk_bytes: host.number(format!("{md}/chunk_size")).unwrap_or(0),
        wants_disks,
        degraded: host.number(format!("{md}/degraded")).unwrap_or(0),
        sync,
        size_bytes: device.size_bytes,
        member_bytes: kib(host.number(format!("{md}/component_size"))),
        bitmap: has_bitmap(host, &md),
        scrub: Scrub {
            pool_age: mount_table::age(&mounts.of_number(device.number).collect::<Vec<_>>()),
            ..scrub(host, name, uuid, sync)
        },
        carries: carries(host, inventory, mounts, &device),
        device: Some(name.to_owned()),
        members,
    })
}

/// The name in /dev/md of an array without a name in its metadata, from mdadm.conf or its creation.
/// Numbers (`127`, `0_0`) are mdadm's fallback, not names.
fn name_given_here(host: &HostRoot, device: &str) -> Option<String> {
    let is_name = |link: &String| link.contains(|c: char| !c.is_ascii_digit() && c != '_');
    let names = host.names("dev/md").into_iter().filter(is_name);
    let is_it = |link: &String| host.link_name(format!("dev/md/{link}")).as_deref() == Some(device);
    names.filter(|link| !is_kernel_name(link)).find(is_it)
}

/// `md127`.
fn is_kernel_name(name: &str) -> bool {
    name.strip_prefix("md").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// With metadata 0.90, sysfs shows the bytes of each word in memory order, mdadm and mdadm.conf as
/// a number.
fn sysfs_uuid(text: &str, metadata: &str) -> Option<Uuid> {
    let mut bytes = text.parse::<Uuid>().ok()?.bytes();
    if metadata == "0.90" && cfg!(target_endian = "little") {
        bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    // An array without metadata has only zeroes.
    Some(Uuid::from_bytes(bytes)).filter(|_| bytes != [0; 16])
}

fn kib(number: Option<u64>) -> u64 {
    number.unwrap_or(0).saturating_mul(1024)
}

/// Those that the kernel has, with their superblocks, by slot; spares and faulty ones last.
fn members(host: &HostRoot, inventory: &Inventory, md: &str) -> Vec<(MdMember, Option<MdSuper>)> {
    let mut members: Vec<_> = host
        .names(md)
        .iter()
        .filter_map(|entry| Some((entry.clone(), entry.strip_prefix("dev-")?.to_owned())))
        .map(|(entry, name)| member(host, inventory, &format!("{md}/{entry}"), &name))
        .collect();
    members.sort_by_key(|(member, _)| (member.slot.is_none(), member.slot));
    members
}

fn member(
    host: &HostRoot,
    inventory: &Inventory,
    directory: &str,
    name: &str,
) -> (MdMember, Option<MdSuper>) {
    // The kernel takes `/` out of names here.
    let name = host.link_name(format!("{directory}/block")).unwrap_or_else(|| name.to_owned());
    let device = block_device::one(host, &name);
    let path = device.as_ref().map(BlockDevice::path);
    let slot = host.number::<usize>(format!("{directory}/slot"));
    let state = host.word(format!("{directory}/state")).unwrap_or_default();
    let superblock = device.as_ref().and_then(|device| {
        superblock::read(&host.path(device.path()), device.size_bytes).ok().flatten()
    });
    let member = MdMember {
        disk: path.as_ref().and_then(|path| inventory.by_path(path)).map(|disk| disk.member_id()),
        path,
        slot,
        state: member_state(&state, slot),
        errors: host.number(format!("{directory}/errors")).unwrap_or(0),
        device_bytes: device.map(|device| device.size_bytes),
        events: superblock.as_ref().map(|superblock| superblock.events),
    };
    (member, superblock)
}

/// The words are separated by commas: `faulty,write_error`. A spare that has been given a slot is
/// being rebuilt.
fn member_state(words: &str, slot: Option<usize>) -> MdMemberState {
    let has = |word: &str| words.split(',').any(|each| each.trim() == word);
    match () {
        () if has("faulty") => MdMemberState::Faulty,
        () if has("in_sync") => MdMemberState::InSync,
        () if slot.is_some() => MdMemberState::Recovering,
        () => MdMemberState::Spare,
    }
}

/// Each empty slot gets a missing member, less as many as were kicked out and are still listed.
fn add_missing(members: &mut Vec<MdMember>, wants_disks: usize) {
    let placed = |slot: usize| members.iter().any(|member| member.slot == Some(slot));
    let free: Vec<usize> = (0..wants_disks.min(MOST_DISKS)).filter(|slot| !placed(*slot)).collect();
    let is_kicked =
        |member: &&MdMember| member.slot.is_none() && member.state == MdMemberState::Faulty;
    let kicked = members.iter().filter(is_kicked).count();
    members.extend(free.into_iter().skip(kicked).map(|slot| MdMember {
        path: None,
        disk: None,
        slot: Some(slot),
        state: MdMemberState::Missing,
        errors: 0,
        device_bytes: None,
        events: None,
    }));
}

/// A superblock may claim anything; more roles than these don't fit into its 4 KiB.
const MOST_DISKS: usize = 1_920;

fn sync(host: &HostRoot, md: &str) -> Option<Sync> {
    let word = |file: &str| host.word(format!("{md}/{file}"));
    let completed = word("sync_completed").unwrap_or_default();
    let action = match word("sync_action")?.as_str() {
        _ if completed == "delayed" => SyncAction::Waiting,
        "resync" => SyncAction::Resync,
        "recover" => SyncAction::Recover,
        "reshape" => SyncAction::Reshape,
        "check" => SyncAction::Check,
        "repair" => SyncAction::Repair,
        "frozen" => SyncAction::Waiting,
        _ => return None,
    };
    // Sectors done, of how many: `1234 / 129024`.
    let done = completed.split_once('/').and_then(|(done, of)| {
        let (done, of): (f64, f64) = (done.trim().parse().ok()?, of.trim().parse().ok()?);
        (of > 0.0).then(|| (done / of).clamp(0.0, 1.0))
    });
    let speed = host.number(format!("{md}/sync_speed"));
    Some(Sync {
        action,
        done: done.unwrap_or(0.0),
        bytes_per_sec: speed.map(|speed| kib(Some(speed))),
    })
}

fn has_bitmap(host: &HostRoot, md: &str) -> bool {
    match host.word(format!("{md}/bitmap/location")) {
        Some(location) => location != "none",
        None => host.word(format!("{md}/consistency_policy")).as_deref() == Some("bitmap"),
    }
}

/// What an array is doing now.
pub fn sync_now(host: &HostRoot, device: &str) -> Option<Sync> {
    sync(host, &format!("sys/block/{device}/md"))
}

/// Whether the last check read everything: for an interrupted one the kernel keeps where to
/// continue.
pub fn last_check_was_complete(host: &HostRoot, device: &str) -> bool {
    let md = format!("sys/block/{device}/md");
    let word = |file: &str| host.word(format!("{md}/{file}"));
    word("last_sync_action").as_deref() == Some("check")
        && word("sync_action").as_deref() == Some("idle")
        && host.number::<u64>(format!("{md}/sync_min")).unwrap_or(0) == 0
}

/// Sectors that differed in the last check.
pub fn mismatches(host: &HostRoot, device: &str) -> u64 {
    host.number(format!("sys/block/{device}/md/mismatch_cnt")).unwrap_or(0)
}

fn scrub(host: &HostRoot, device: &str, uuid: Uuid, sync: Option<Sync>) -> Scrub {
    let log = ScrubLog::read(host, uuid);
    let last = host.word(format!("sys/block/{device}/md/last_sync_action"));
    // Nobody waited for the last one to end, but it is over: it is at most as old as its start.
    let ended_ago = match last_check_was_complete(host, device) {
        true => log.ended_ago().into_iter().chain(log.started_ago()).min(),
        false => log.ended_ago(),
    };
    Scrub {
        pool_age: None,
        ended_ago,
        may_not_be_read: log.may_not_be_read,
        running: sync.is_some_and(|s| matches!(s.action, SyncAction::Check | SyncAction::Repair)),
        uncorrectable: 0,
        // A resync or repair counts what it corrects, too.
        corrected: if last.as_deref() == Some("check") { mismatches(host, device) } else { 0 },
    }
}

fn carries(
    host: &HostRoot,
    inventory: &Inventory,
    mounts: &MountTable,
    array: &BlockDevice,
) -> Option<OnArray> {
    let mounted: Vec<_> = mounts.of_number(array.number).collect();
    let contents = match inventory.arrays.get(&array.name) {
        Some(seen) => seen.contents(&[]),
        // It has started since.
        None => signature::look(host, slice::from_ref(array)).pop()?.contents(&[]),
    };
    let (kind, uuid, label) = contents.into_iter().find_map(|content| match content {
        Content::Filesystem { kind, label, uuid } => Some((kind, uuid, label)),
        Content::Member { family: Family::Btrfs, name, uuid } => {
            Some(("btrfs".to_owned(), uuid, name))
        }
        _ => None,
    })?;
    let room = mounted.first().and_then(|mounted| room(&mounted.reach));
    Some(OnArray {
        kind,
        uuid: uuid.and_then(|uuid| uuid.parse().ok()),
        label,
        size_bytes: room.map(|(size, _)| size),
        used_bytes: room.map(|(_, used)| used),
        mounts: mounted.into_iter().map(|mounted| mounted.to_model()).collect(),
    })
}

/// Size and use of a mounted filesystem (statvfs(3)).
fn room(at: &Path) -> Option<(u64, u64)> {
    let answer = rustix::fs::statvfs(at).ok()?;
    let blocks = |count: u64| count.saturating_mul(answer.f_frsize);
    Some((blocks(answer.f_blocks), blocks(answer.f_blocks.saturating_sub(answer.f_bfree))))
}
