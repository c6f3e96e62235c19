//! The filesystem on an array: made with stripe hints, and grown with it.

use crate::layout::{MdFilesystem, MdLayout, Spread};
use crate::observed::ObservedMd;
use crate::planner::engine::PoolOnHost;
use crate::planner::{NewPool, Refused, host_files};
use crate::step::{Action, Argv, Condition, Step, Undo};

const CHUNK_KIB: u64 = 512;
const BLOCK_KIB: u64 = 4;

/// How many members a full stripe spans, so that the filesystem can align to it; as md reports it
/// by its optimal I/O size.
fn stripe_members(layout: MdLayout, disks: usize) -> Option<u64> {
    let n = disks as u64;
    Some(match layout {
        MdLayout::Raid0 => n,
        MdLayout::Raid1 => return None,
        MdLayout::Raid10 { spread: Spread::Near, copies }
            if n.is_multiple_of(u64::from(copies)) =>
        {
            n / u64::from(copies)
        }
        MdLayout::Raid10 { .. } => n,
        MdLayout::Raid5 => n - 1,
        MdLayout::Raid6 => n - 2,
    })
}

/// mkfs on the new array. mkfs.ext4 overwrites anything without asking, so the array must be the
/// one that this plan made. What a fresh array shows was left by an older one on the same disks,
/// and belongs to nobody.
pub(super) fn make(new: &NewPool, layout: MdLayout, device: &str) -> Step {
    let uuid = new.filesystem_uuid.to_string();
    let stripe = stripe_members(layout, new.disks.len());
    let mut args: Vec<String> = Vec::new();
    let mut push = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    match new.filesystem {
        MdFilesystem::Ext4 => {
            push(&["-q", "-F", "-m", "0", "-U", &uuid]);
            if let Some(label) = new.name.label_within(16) {
                push(&["-L", label]);
            }
            if let Some(members) = stripe {
                let stride = CHUNK_KIB / BLOCK_KIB;
                push(&["-E", &format!("stride={stride},stripe_width={}", stride * members)]);
            }
        }
        MdFilesystem::Xfs => {
            push(&["-q", "-f", "-m", &format!("uuid={uuid}")]);
            if let Some(label) = new.name.label_within(12) {
                push(&["-L", label]);
            }
            if let Some(members) = stripe {
                push(&["-d", &format!("su={CHUNK_KIB}k,sw={members}")]);
            }
        }
    }
    push(&[device]);
    let kind = new.filesystem.as_str();
    Step {
        name: "mkfs".to_owned(),
        says: format!("make {kind} on the array, aligned to its stripes"),
        before: vec![
            Condition::ArrayIs { uuid: new.array, layout, disks: new.disks.len() },
            Condition::NotMounted { at: new.mount_at.clone() },
        ],
        action: Action::Run(Argv::new(&format!("mkfs.{kind}"), args)),
        after: vec![Condition::Filesystem {
            device: device.to_owned(),
            kind: kind.to_owned(),
            uuid: new.filesystem_uuid,
        }],
        undo: Undo::By(vec![crate::planner::erase::wipe(device)]),
    }
}

/// The filesystem grows into the array's new space. Both kinds can while mounted; XFS only then.
pub(super) fn grow(place: &PoolOnHost<'_, ObservedMd>, device: &str) -> Result<Vec<Step>, Refused> {
    let pool = place.pool;
    let Some(on) = &pool.carries else { return Ok(Vec::new()) };
    let Some(uuid) = on.uuid else { return Ok(Vec::new()) };
    let mut steps = Vec::new();
    let at = match on.mounts.first() {
        Some(mount) => mount.at.clone(),
        None => {
            let said = place.mount_at.map(str::to_owned);
            let at = said.or_else(|| host_files::fstab_place(place.host, uuid));
            let at =
                at.ok_or_else(|| Refused::NotMounted { pool: pool.short_name().to_owned() })?;
            steps.push(host_files::mount_point(&at));
            steps.push(host_files::mount_again(place.host, device, &on.kind, &[], uuid, &at));
            at
        }
    };
    let argv = match on.kind.as_str() {
        "ext4" => Argv::new("resize2fs", [device]),
        "xfs" => Argv::new("xfs_growfs", [at.as_str()]),
        other => {
            return Err(Refused::Impossible {
                what: format!("on the array is {other}, which Braid doesn't grow"),
                instead: "grow it by its own tools after `mdadm --grow`".to_owned(),
            });
        }
    };
    steps.push(Step {
        name: "grow filesystem".to_owned(),
        says: format!("{} uses all of the array", on.kind),
        before: vec![Condition::Mounted { uuid, at: at.clone() }],
        action: Action::Run(argv),
        after: vec![Condition::FilesystemFillsDevice { uuid, at }],
        undo: Undo::Nothing,
    });
    Ok(steps)
}
