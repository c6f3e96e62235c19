use super::{
    Md, check_apart, check_complete, check_idle, check_size, device, filesystem, idle, join,
    layout, settled,
};
use crate::capacity::member_bytes;
use crate::growth::{Growth, growth};
use crate::layout::{Layout, MdLayout};
use crate::observed::ObservedMd;
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{Refused, erase};
use crate::step::{Action, Argv, Condition, Progress, Step, SyncWanted, Undo};

/// The disks join, the array is reshaped, and the filesystem grows.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedMd>,
    disks: Vec<NewMember>,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    let level = layout(pool)?;
    check_idle(pool)?;
    check_complete(pool)?;
    check_apart(pool, &disks)?;
    disks.iter().try_for_each(|disk| check_size(pool, disk))?;
    if growth(Layout::Md(level)) == Growth::Never {
        return Err(Refused::Impossible {
            what: format!("{level} can never be reshaped (\"Cannot reshape RAID10 in far-mode\")"),
            instead: "create a new pool and copy, or use the disk as a spare: `mdadm --add`"
                .to_owned(),
        });
    }
    let device = device(place)?;
    let paths: Vec<&str> = disks.iter().map(|disk| disk.path.as_str()).collect();
    let mut draft = Draft {
        title: format!("add {} to pool {}", paths.join(", "), Md::name(pool)),
        claims: disks.iter().map(|disk| disk.claim.clone()).collect(),
        ..Draft::default()
    };
    draft.steps.extend(erase::prepared(&disks));
    widen(place, level, &device, &disks, &mut draft)?;
    Ok(draft)
}

/// The steps from free disks to an array and a filesystem on all of them.
pub(super) fn widen(
    place: &PoolOnHost<'_, ObservedMd>,
    level: MdLayout,
    device: &str,
    disks: &[NewMember],
    draft: &mut Draft,
) -> Result<(), Refused> {
    let pool = place.pool;
    let wants = pool.wants_disks + disks.len();
    if level == MdLayout::Raid0 {
        // Without redundancy there are no spares: the disks are added by the reshape itself, via
        // raid4.
        draft.warnings.push("md reshapes a raid0 by way of raid4; have a backup".to_owned());
        draft.steps.push(grow_raid0(pool, device, disks, wants));
    } else {
        draft.steps.extend(disks.iter().map(|disk| join(pool, device, disk)));
        draft.steps.push(grow(pool, level, device, wants));
    }
    let until = idle(
        pool,
        if level == MdLayout::Raid1 { SyncWanted::Anything } else { SyncWanted::Reshape },
    );
    draft.steps.push(settled("reshape", "wait until the array has its new shape", pool, until));
    if level == MdLayout::Raid1 {
        draft
            .warnings
            .push("a further disk of a raid1 is another copy and gives no room".to_owned());
        return Ok(());
    }
    let size = larger(pool, level, disks);
    draft.steps.push(settled("size", "the array has its new size", pool, size));
    draft.steps.extend(filesystem::grow(place, device)?);
    Ok(())
}

/// Sets the new number of members. This starts a reshape that continues by itself, even across a
/// reboot.
pub(super) fn grow(pool: &ObservedMd, level: MdLayout, device: &str, wants: usize) -> Step {
    let devices = format!("--raid-devices={wants}");
    let mut args = vec!["--grow", device, &devices];
    if level == MdLayout::Raid6 {
        // A former raid5 has its second parity on one disk; mdadm must be told to keep that.
        args.push("--layout=preserve");
    }
    Step {
        name: "grow".to_owned(),
        says: format!("spread the array over {wants} disks"),
        before: vec![idle(pool, SyncWanted::Anything)],
        action: Action::Run(
            Argv::new("mdadm", args).with_progress(Progress::MdSync { uuid: pool.uuid }),
        ),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: level, disks: wants }],
        undo: reshape_stays(pool, device),
    }
}

/// A reshape of an array in use runs to its end; mdadm reverts one only while assembling an array.
pub(super) fn reshape_stays(pool: &ObservedMd, device: &str) -> Undo {
    let members: Vec<&str> =
        pool.members.iter().filter_map(|member| member.path.as_deref()).collect();
    Undo::Never(format!(
        "a reshape that has begun goes on to its end; while it runs, only this takes it back: unmount, `mdadm --stop {device}`, `mdadm --assemble --update=revert-reshape {device} {} NEW…`",
        members.join(" ")
    ))
}

fn grow_raid0(pool: &ObservedMd, device: &str, disks: &[NewMember], wants: usize) -> Step {
    let mut step = grow(pool, MdLayout::Raid0, device, wants);
    let mut args = vec![
        "--grow".to_owned(),
        device.to_owned(),
        format!("--raid-devices={wants}"),
        "--add".to_owned(),
    ];
    args.extend(disks.iter().map(NewMember::device));
    step.before.extend(disks.iter().map(|disk| disk.ready()));
    step.action =
        Action::Run(Argv::new("mdadm", args).with_progress(Progress::MdSync { uuid: pool.uuid }));
    // While it reshapes, the array calls itself raid4.
    step.after = disks
        .iter()
        .map(|disk| Condition::ArrayMember { uuid: pool.uuid, disk: disk.claim.id().clone() })
        .collect();
    step
}

/// The size it must have in the end, less rounding.
fn larger(pool: &ObservedMd, level: MdLayout, disks: &[NewMember]) -> Condition {
    let (n, more) = (pool.wants_disks as u64, disks.len() as u64);
    let member = pool.member_bytes;
    let gain = match level {
        MdLayout::Raid0 => disks.iter().map(|disk| member_bytes(level, disk.size_bytes())).sum(),
        MdLayout::Raid1 => 0,
        MdLayout::Raid10 { copies, .. } => {
            ((n + more) * member / u64::from(copies)).saturating_sub(n * member / u64::from(copies))
        }
        MdLayout::Raid5 | MdLayout::Raid6 => more * member,
    };
    let rounding = (n + more) * (1 << 20);
    let at_least_bytes = (pool.size_bytes + gain).saturating_sub(rounding).max(pool.size_bytes);
    Condition::ArraySize { uuid: pool.uuid, at_least_bytes }
}
