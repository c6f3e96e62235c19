use super::{Md, check_complete, check_idle, device, idle, layout, settled};
use crate::layout::{Layout, MdLayout};
use crate::observed::ObservedMd;
use crate::planner::Refused;
use crate::planner::engine::{Draft, Engine, Place};
use crate::step::{Action, Argv, Condition, Progress, Step, SyncWanted, Undo};

/// md can take over few layouts as others without a second set of disks: those that keep their room and their members.
pub(super) fn draft(place: &Place<'_, ObservedMd>, to: Layout) -> Result<Draft, Refused> {
    let pool = place.pool;
    let from = layout(pool)?;
    let mut draft =
        Draft { title: format!("convert pool {} to {to}", Md::name(pool)), ..Draft::default() };
    if to == Layout::Md(from) {
        return Ok(draft);
    }
    check_idle(pool)?;
    check_complete(pool)?;
    let step = match (from, to, pool.wants_disks) {
        // Two members of a raid1 are a raid5 of two: data and parity are the same then.
        (MdLayout::Raid1, Layout::Md(MdLayout::Raid5), 2) => take_over(place, MdLayout::Raid5)?,
        (MdLayout::Raid5, Layout::Md(MdLayout::Raid1), 2) => take_over(place, MdLayout::Raid1)?,
        _ => {
            return Err(Refused::Impossible {
                what: format!("md can't turn md-{from} of {} disks into {to} in place", pool.wants_disks),
                instead: "create a new pool on other disks and copy; of layouts in place md only turns raid1 of two disks into raid5, which can take further disks, and back".to_owned(),
            });
        }
    };
    draft
        .warnings
        .push("a raid5 of two disks has no more room than a raid1; add a disk next".to_owned());
    draft.steps.push(step);
    draft.steps.push(settled(
        "reshape",
        "wait until the array has its new shape",
        pool,
        idle(pool, SyncWanted::Reshape),
    ));
    Ok(draft)
}

fn take_over(place: &Place<'_, ObservedMd>, to: MdLayout) -> Result<Step, Refused> {
    let pool = place.pool;
    let device = device(place)?;
    let from = layout(pool)?;
    let level = |level: MdLayout| {
        let word = format!("--level={}", level.level());
        let progress = Progress::MdSync { uuid: pool.uuid };
        Action::Run(Argv::new("mdadm", ["--grow", &device, &word]).with_progress(progress))
    };
    Ok(Step {
        name: "level".to_owned(),
        says: format!("the array becomes {to}"),
        before: vec![idle(pool, SyncWanted::Anything)],
        action: level(to),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: to, disks: 2 }],
        undo: Undo::By(vec![level(from)]),
    })
}
