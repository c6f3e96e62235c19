use super::{Md, check_complete, check_idle, describe, device, layout, member};
use crate::layout::MdLayout;
use crate::observed::{MdMember, MdMemberState, ObservedMd};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::{MemberName, Refused};
use crate::step::{Action, Argv, Condition, Step, Undo};

/// A spare or faulty member can leave at once, and any copy of a raid1. Everything else would have
/// to shrink first.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedMd>,
    name: &MemberName,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    let level = layout(pool)?;
    let device = device(place)?;
    let leaving = member(pool, name)?;
    let Some(path) = leaving.path.clone() else {
        return Err(Refused::Impossible {
            what: "that member is not there, so it can't be removed".to_owned(),
            instead: format!(
                "put a disk in its place: `braid pool replace {} missing NEW`",
                Md::name(pool)
            ),
        });
    };
    let mut draft = Draft {
        title: format!("remove {} from pool {}", describe(leaving), Md::name(pool)),
        ..Draft::default()
    };
    match leaving.state {
        MdMemberState::Spare | MdMemberState::Faulty => {
            draft.steps.push(let_go(pool, &device, leaving, &path, false));
        }
        _ if level == MdLayout::Raid1 && pool.wants_disks > 2 => {
            check_idle(pool)?;
            check_complete(pool)?;
            draft.steps.push(let_go(pool, &device, leaving, &path, true));
            draft.steps.push(fewer(pool, &device, level));
        }
        _ => {
            return Err(Refused::Impossible {
                what: format!(
                    "{level} of {} disks can't give one back while in use",
                    pool.wants_disks
                ),
                instead: "replace it by another disk, or create a smaller pool and copy".to_owned(),
            });
        }
    }
    Ok(draft)
}

/// Removes it from the array, with its superblock, which could bring it back.
pub(super) fn let_go(
    pool: &ObservedMd,
    device: &str,
    leaving: &MdMember,
    path: &str,
    in_use: bool,
) -> Step {
    let mut args = vec![device];
    if in_use {
        args.extend(["--fail", path]);
    }
    args.extend(["--remove", path]);
    let after =
        leaving.disk.clone().map(|disk| Condition::ArrayLists { uuid: pool.uuid, disk }.negated());
    Step {
        name: format!("remove {path}"),
        says: format!("take {path} out of the array"),
        before: vec![],
        action: Action::Run(Argv::new("mdadm", args)),
        after: after.into_iter().collect(),
        undo: Undo::By(vec![Action::Run(Argv::new("mdadm", [device, "--add", path]))]),
    }
}

fn fewer(pool: &ObservedMd, device: &str, level: MdLayout) -> Step {
    let wants = pool.wants_disks - 1;
    let devices = |n: usize| {
        Action::Run(Argv::new("mdadm", ["--grow", device, &format!("--raid-devices={n}")]))
    };
    Step {
        name: "shrink".to_owned(),
        says: format!("the array is complete with {wants} disks"),
        before: vec![],
        action: devices(wants),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: level, disks: wants }],
        undo: Undo::By(vec![devices(pool.wants_disks)]),
    }
}
