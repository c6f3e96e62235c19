use super::{
    Md, add, check_apart, check_complete, check_idle, check_size, device, idle, join, layout,
    settled,
};
use crate::layout::{Layout, MdLayout};
use crate::observed::ObservedMd;
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{Refused, erase};
use crate::step::{Action, Argv, Condition, Progress, Step, SyncWanted, Undo};

/// md converts few layouts in place: those whose stripes stay, or for which a reshape is known to
/// work.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedMd>,
    to: Layout,
    disks: Vec<NewMember>,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    let from = layout(pool)?;
    let mut draft = Draft {
        title: format!("convert pool {} to {to}", Md::name(pool)),
        claims: disks.iter().map(|disk| disk.claim.clone()).collect(),
        ..Draft::default()
    };
    if to == Layout::Md(from) && disks.is_empty() {
        return Ok(draft);
    }
    check_idle(pool)?;
    check_complete(pool)?;
    check_apart(pool, &disks)?;
    disks.iter().try_for_each(|disk| check_size(pool, disk))?;
    let device = device(place)?;
    draft.steps.extend(erase::prepared(&disks));
    let members = pool.wants_disks;
    match (from, to, members, disks.len()) {
        // A raid1 of two is also a raid5 of two: data and parity are the same then.
        (MdLayout::Raid1, Layout::Md(MdLayout::Raid5), 2, more) => {
            draft.steps.push(take_over(pool, &device, MdLayout::Raid5));
            if more == 0 {
                draft.warnings.push(
                    "a raid5 of two disks has no more room than a raid1; add a disk next"
                        .to_owned(),
                );
            } else {
                let five = ObservedMd { layout: Some(MdLayout::Raid5), ..pool.clone() };
                let grown = PoolOnHost { pool: &five, mount_at: place.mount_at, host: place.host };
                add::widen(&grown, MdLayout::Raid5, &device, &disks, &mut draft)?;
            }
        }
        (MdLayout::Raid5, Layout::Md(MdLayout::Raid1), 2, 0) => {
            draft.steps.push(take_over(pool, &device, MdLayout::Raid1));
        }
        // The second parity goes to the new disk; the capacity stays.
        (MdLayout::Raid5, Layout::Md(MdLayout::Raid6), 3.., 1) => {
            draft.steps.extend(disks.iter().map(|disk| join(pool, &device, disk)));
            draft.steps.push(second_parity(pool, &device));
            let complete = Condition::ArrayComplete { uuid: pool.uuid };
            draft.steps.push(settled(
                "parity",
                "wait until the second parity is written",
                pool,
                complete,
            ));
        }
        // Each member gets a copy beside it.
        (MdLayout::Raid0, Layout::Md(MdLayout::NEAR2), n, more) if n == more => {
            draft.steps.push(mirror(pool, &device, &disks));
            let complete = Condition::ArrayComplete { uuid: pool.uuid };
            draft.steps.push(settled("copies", "wait until the copies are made", pool, complete));
        }
        (MdLayout::Raid5, Layout::Md(MdLayout::Raid6), ..) => {
            return Err(with_disks(to, "3 disks at least, and 1 more named behind the layout"));
        }
        (MdLayout::Raid0, Layout::Md(MdLayout::NEAR2), n, _) => {
            return Err(with_disks(to, &format!("{n} more, named behind the layout")));
        }
        _ => return Err(impossible(pool, from, to)),
    }
    Ok(draft)
}

fn take_over(pool: &ObservedMd, device: &str, to: MdLayout) -> Step {
    let from = pool.layout.unwrap_or(to);
    let level = |level: MdLayout| {
        let word = format!("--level={}", level.level());
        let progress = Progress::MdSync { uuid: pool.uuid };
        Action::Run(Argv::new("mdadm", ["--grow", device, &word]).with_progress(progress))
    };
    Step {
        name: "level".to_owned(),
        says: format!("the array becomes {to}"),
        before: vec![idle(pool, SyncWanted::Anything)],
        action: level(to),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: to, disks: 2 }],
        undo: Undo::By(vec![level(from)]),
    }
}

/// No data moves: only the new disk is written to. In the usual layout each disk holds some parity;
/// for that md moves all data in place, and after a power cut meanwhile none of it could be read.
fn second_parity(pool: &ObservedMd, device: &str) -> Step {
    let wants = pool.wants_disks + 1;
    let devices = format!("--raid-devices={wants}");
    let argv =
        Argv::new("mdadm", ["--grow", device, "--level=raid6", &devices, "--layout=preserve"]);
    Step {
        name: "level".to_owned(),
        says: format!("the array becomes raid6 over {wants} disks"),
        before: vec![idle(pool, SyncWanted::Anything)],
        action: Action::Run(argv.with_progress(Progress::MdSync { uuid: pool.uuid })),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: MdLayout::Raid6, disks: wants }],
        undo: Undo::Never("it is a raid6 now, and Braid makes no raid5 of one".to_owned()),
    }
}

fn mirror(pool: &ObservedMd, device: &str, disks: &[NewMember]) -> Step {
    let wants = pool.wants_disks + disks.len();
    let devices = format!("--raid-devices={wants}");
    let mut args: Vec<String> =
        ["--grow", device, "--level=raid10", &devices, "--add"].map(str::to_owned).to_vec();
    args.extend(disks.iter().map(NewMember::device));
    Step {
        name: "level".to_owned(),
        says: format!("the array becomes raid10 over {wants} disks"),
        before: disks.iter().map(|disk| disk.ready()).collect(),
        action: Action::Run(
            Argv::new("mdadm", args).with_progress(Progress::MdSync { uuid: pool.uuid }),
        ),
        after: vec![Condition::ArrayIs { uuid: pool.uuid, layout: MdLayout::NEAR2, disks: wants }],
        undo: Undo::Never(
            "every member has a copy beside it now, and Braid takes none away".to_owned(),
        ),
    }
}

fn with_disks(to: Layout, needs: &str) -> Refused {
    Refused::Impossible {
        what: format!("for {to} in place md needs {needs}"),
        instead: "`braid pool convert NAME --layout LAYOUT DISK…`".to_owned(),
    }
}

fn impossible(pool: &ObservedMd, from: MdLayout, to: Layout) -> Refused {
    let why = match (from, to) {
        (MdLayout::Raid10 { spread, .. }, Layout::Md(MdLayout::Raid10 { .. }))
            if spread != crate::layout::Spread::Far =>
        {
            ": in a reshape to other copies md writes behind the members' ends, throws them out, and \
             the data is lost (tried on Linux 6.1)"
        }
        _ => "",
    };
    Refused::Impossible {
        what: format!("md-{from} of {} disks doesn't become {to} in place{why}", pool.wants_disks),
        instead: "create a new pool on other disks and copy; in place go raid1 of two disks to raid5 (with further disks) and back, raid5 to raid6 with a disk more, raid0 to raid10-n2 with as many more".to_owned(),
    }
}
