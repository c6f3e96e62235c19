//! Healthy disks and pools, for tests.

use crate::disk::emptiness::{Reading, examine};
use crate::disk::{Disk, DiskKind, Identity};
use crate::layout::{MdLayout, Profile};
use crate::observed::{
    BtrfsMember, ExclusiveOperation, MdMember, MdMemberState, Mount, ObservedBtrfs, ObservedMd,
    OnArray, Purpose, SpaceUse,
};
use crate::uuid::Uuid;

pub(crate) const GB: u64 = 1_000_000_000;

/// An empty `/dev/sdX` with serial `SX`.
pub(crate) fn disk(letter: char, size_bytes: u64) -> Disk {
    let identity = Identity {
        serial: Some(format!("S{letter}")),
        by_id: Some(format!("/dev/disk/by-id/ata-S{letter}")),
        ..Identity::default()
    };
    let path = format!("/dev/sd{letter}");
    let mut disk = Disk::unexamined(path, identity, size_bytes, DiskKind::Hdd);
    disk.examined(examine(size_bytes, |_| Reading::Zeroes));
    disk
}

/// A mounted btrfs on `/dev/sdX…` with this much data, each allocated a chunk more than it uses.
pub(crate) fn btrfs(
    profile: Profile,
    metadata: Profile,
    letters: &str,
    size: u64,
    used: u64,
) -> ObservedBtrfs {
    let member = |(index, letter): (usize, char)| BtrfsMember {
        devid: index as u64 + 1,
        uuid: None,
        path: Some(format!("/dev/sd{letter}")),
        disk: Some(disk(letter, size).id()),
        size_bytes: size,
        device_bytes: Some(size),
        allocated_bytes: used * profile.copies() as u64 / letters.len() as u64 + (1 << 30),
        missing: false,
        fault: None,
        errors: Default::default(),
        uncorrectable: 0,
        generation: Some(9),
    };
    let space = |purpose, profile, used_bytes| SpaceUse {
        purpose,
        profile,
        total_bytes: used_bytes + (1 << 30),
        used_bytes,
    };
    ObservedBtrfs {
        uuid: Uuid::from_bytes([2; 16]),
        label: Some("data".into()),
        members: letters.chars().enumerate().map(member).collect(),
        space: vec![
            space(Purpose::Data, profile, used),
            space(Purpose::Metadata, metadata, used / 1000),
        ],
        profiles_on_disk: Vec::new(),
        exclusive_operation: ExclusiveOperation::None,
        scrub: Default::default(),
        quotas: false,
        mounts: vec![Mount { at: "/srv/data".into(), options: vec!["rw".into()], subvolume: None }],
        generation: 9,
        nodatacow: Vec::new(),
    }
}

/// A complete array on `/dev/sdX…` with a mounted ext4.
pub(crate) fn md(layout: MdLayout, letters: &str, size: u64) -> ObservedMd {
    let member = |(slot, letter): (usize, char)| MdMember {
        path: Some(format!("/dev/sd{letter}")),
        disk: Some(disk(letter, size).id()),
        slot: Some(slot),
        state: MdMemberState::InSync,
        errors: 0,
        device_bytes: Some(size),
        events: Some(5),
    };
    let member_bytes = crate::capacity::member_bytes(layout, size);
    ObservedMd {
        uuid: Uuid::from_bytes([1; 16]),
        device: Some("md127".into()),
        name: "any:data".into(),
        metadata: "1.2".into(),
        layout: Some(layout),
        chunk_bytes: 512 << 10,
        wants_disks: letters.len(),
        members: letters.chars().enumerate().map(member).collect(),
        degraded: 0,
        sync: None,
        size_bytes: member_bytes,
        member_bytes,
        bitmap: true,
        scrub: Default::default(),
        carries: Some(OnArray {
            kind: "ext4".into(),
            uuid: Some(Uuid::from_bytes([2; 16])),
            label: None,
            size_bytes: Some(member_bytes),
            used_bytes: Some(0),
            mounts: vec![Mount {
                at: "/srv/data".into(),
                options: vec!["rw".into()],
                subvolume: None,
            }],
        }),
    }
}
