use super::*;
use crate::disk::{Content, Partition};
use crate::fixture::{GB, btrfs, disk, md};
use crate::layout::{MdLayout, Profile};
use crate::observed::{
    ExclusiveOperation, MdMemberState, ObservedBtrfs, ObservedMd, Purpose, SpaceUse,
};
use crate::step::{Condition, Undo};

fn ext4() -> Content {
    Content::Filesystem { kind: "ext4".into(), label: Some("photos".into()), uuid: None }
}

fn new(layout: &str, disks: Vec<Disk>) -> NewPool {
    NewPool {
        name: "data".parse().unwrap(),
        layout: layout.parse().unwrap(),
        filesystem: MdFilesystem::Ext4,
        disks,
        erase: ErasePermission::default(),
        mount_at: "/srv/data".to_owned(),
        options: MountOptions::default(),
        array: Uuid::from_bytes([1; 16]),
        filesystem_uuid: Uuid::from_bytes([2; 16]),
        accept_unstable: false,
    }
}

fn host() -> ObservedHost {
    ObservedHost {
        hostname: "alpha".into(),
        initramfs_command: Some(vec!["update-initramfs".into(), "-u".into()]),
        fstab: "# comment\nUUID=1 / ext4 defaults 0 1\nUUID=2 /home ext4 defaults 0 2\n".into(),
        ..ObservedHost::default()
    }
}

fn commands(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.action.to_string()).collect()
}

fn position(plan: &Plan, word: &str) -> usize {
    let found = commands(plan).iter().position(|command| command.contains(word));
    found.unwrap_or_else(|| panic!("no {word} in {:?}", commands(plan)))
}

mod changes;
mod create;
mod destroy;
mod encrypt;
