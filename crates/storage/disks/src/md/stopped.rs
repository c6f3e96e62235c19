use super::add_missing;
use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::scrub_log::ScrubLog;
use crate::superblock::md::{self as superblock, MdSuper, Role};
use braid_pool::disk::{Content, Disk, Family};
use braid_pool::observed::{MdMember, MdMemberState, ObservedMd, Scrub};
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;

/// Adds the arrays found by the disks' superblocks that aren't running; one that was assembled but
/// lacks the members to run has its device, and size 0.
pub fn add(host: &HostRoot, inventory: &Inventory, all: &mut Vec<ObservedMd>) {
    let mut by_array: BTreeMap<Uuid, Vec<(&Disk, MdSuper)>> = BTreeMap::new();
    for disk in inventory.disks.iter().filter(|disk| is_member(disk)) {
        let Ok(Some(found)) = superblock::read(&host.path(&disk.path), disk.size_bytes) else {
            continue;
        };
        by_array.entry(found.array).or_default().push((disk, found));
    }
    for (uuid, mut members) in by_array {
        // The one that missed least represents its slot.
        members.sort_by_key(|(_, found)| std::cmp::Reverse(found.events));
        if let Some(running) = all.iter_mut().find(|running| running.uuid == uuid) {
            members.iter().for_each(|(disk, found)| left_out(running, disk, found));
            continue;
        }
        let Some((_, newest)) = members.iter().max_by_key(|(_, found)| found.events) else {
            continue;
        };
        all.push(of_superblocks(host, &members, newest));
    }
}

/// A disk whose superblock says that it belongs to an array which runs without it: it takes a
/// missing member's slot; usually it appeared too late or missed writes.
fn left_out(running: &mut ObservedMd, disk: &Disk, found: &MdSuper) {
    if running.members.iter().any(|member| member.path.as_deref() == Some(disk.path.as_str())) {
        return;
    }
    let (Role::Active(slot) | Role::Recovering(slot)) = found.role else { return };
    let empty = |member: &&mut MdMember| {
        member.state == MdMemberState::Missing
            && member.path.is_none()
            && member.slot == Some(slot as usize)
    };
    if let Some(place) = running.members.iter_mut().find(empty) {
        *place = MdMember { state: MdMemberState::Missing, ..member(disk, found) };
    }
}

fn is_member(disk: &Disk) -> bool {
    let is = |content: &Content| matches!(content, Content::Member { family: Family::Md, .. });
    disk.contents.iter().any(is)
}

fn of_superblocks(host: &HostRoot, disks: &[(&Disk, MdSuper)], newest: &MdSuper) -> ObservedMd {
    let mut members: Vec<MdMember> =
        disks.iter().map(|(disk, found)| member(disk, found)).collect();
    members.sort_by_key(|member| (member.slot.is_none(), member.slot));
    let wants_disks = newest.raid_disks as usize;
    add_missing(&mut members, wants_disks);
    let whole = |member: &&MdMember| {
        member.state == MdMemberState::InSync && member.events == Some(newest.events)
    };
    let whole = members.iter().filter(whole).count();
    ObservedMd {
        uuid: newest.array,
        device: disks.iter().find_map(|(disk, _)| holder(disk)),
        name: newest.name.clone(),
        metadata: newest.version.to_owned(),
        layout: newest.layout,
        chunk_bytes: newest.chunk_bytes,
        wants_disks,
        members,
        degraded: wants_disks.saturating_sub(whole),
        sync: None,
        size_bytes: 0,
        member_bytes: newest.member_bytes,
        bitmap: newest.bitmap,
        scrub: Scrub {
            ended_ago: ScrubLog::read(host, newest.array).ended_ago(),
            ..Scrub::default()
        },
        carries: None,
    }
}

fn holder(disk: &Disk) -> Option<String> {
    disk.contents.iter().find_map(|content| match content {
        Content::Holder { device } if device.starts_with("md") => Some(device.clone()),
        _ => None,
    })
}

fn member(disk: &Disk, found: &MdSuper) -> MdMember {
    let (slot, state) = match found.role {
        Role::Active(slot) => (Some(slot as usize), MdMemberState::InSync),
        Role::Recovering(slot) => (Some(slot as usize), MdMemberState::Recovering),
        Role::Spare | Role::Journal => (None, MdMemberState::Spare),
        Role::Faulty => (None, MdMemberState::Faulty),
    };
    MdMember {
        path: Some(disk.path.clone()),
        disk: Some(disk.member_id()),
        slot,
        state,
        errors: 0,
        device_bytes: Some(disk.size_bytes),
        events: Some(found.events),
    }
}
