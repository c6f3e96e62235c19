use super::{
    Md, check_apart, check_idle, check_size, describe, device, join, layout, member, remove,
    settled,
};
use crate::layout::MdLayout;
use crate::observed::{MdMember, MdMemberState, ObservedMd};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{MemberName, Refused, erase};
use crate::step::{Action, Argv, Condition, Step, SyncWanted, Undo};

/// A working member is copied to the new disk while it stays a member; a dead one is rebuilt from
/// the others.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedMd>,
    name: &MemberName,
    by: NewMember,
    lent: Option<NewMember>,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    if let Some(lent) = lent {
        return Err(Refused::NotLent { disk: lent.path });
    }
    let level = layout(pool)?;
    let old = match member(pool, name) {
        Ok(member) => Some(member),
        // A lost one may not be listed.
        Err(_) if name.0 == "missing" && pool.degraded > 0 => None,
        Err(unknown) => return Err(unknown),
    };
    check_idle(pool)?;
    check_size(pool, &by)?;
    check_apart(pool, std::slice::from_ref(&by))?;
    let device = device(place)?;
    if level == MdLayout::Raid0 {
        return Err(Refused::Impossible {
            what: "raid0 has no second copy to fill a new disk from".to_owned(),
            instead: "copy the files away, make the pool anew".to_owned(),
        });
    }
    let what = old.map_or("the missing member".to_owned(), describe);
    let mut draft = Draft {
        title: format!("replace {what} in pool {} by {}", Md::name(pool), by.path),
        claims: vec![by.claim.clone()],
        ..Draft::default()
    };
    draft.steps.extend(erase::prepared([&by]));
    match old.and_then(|old| Some((old, old.path.as_deref()?))) {
        Some((old, path)) if old.state == MdMemberState::InSync => {
            let done = "wait until the copy is complete";
            draft.steps.push(join(pool, &device, &by));
            draft.steps.push(copy(pool, &device, old, path, &by));
            draft.steps.push(settled("copy done", done, pool, replaced(pool, old)));
            draft.steps.push(remove::let_go(pool, &device, old, path, false));
        }
        dead => {
            // A member that the array runs without isn't in it.
            if let Some((old, path)) = dead
                && old.state != MdMemberState::Missing
            {
                draft.steps.push(remove::let_go(pool, &device, old, path, false));
            }
            draft.steps.push(join(pool, &device, &by));
            let complete = Condition::ArrayComplete { uuid: pool.uuid };
            draft.steps.push(settled(
                "filled",
                "wait until the new disk is filled",
                pool,
                complete,
            ));
        }
    }
    Ok(draft)
}

/// `--replace`: the old member stays in use until the new one has everything, and then is marked
/// faulty.
fn copy(pool: &ObservedMd, device: &str, old: &MdMember, path: &str, by: &NewMember) -> Step {
    let gone = replaced(pool, old);
    Step {
        name: "copy".to_owned(),
        says: format!("copy {path} to disk {}", by.claim.id()),
        before: vec![
            Condition::ArrayMember { uuid: pool.uuid, disk: by.claim.id().clone() },
            super::idle(pool, SyncWanted::Anything),
        ],
        action: Action::Run(Argv::new(
            "mdadm",
            [device, "--replace", path, "--with", &by.device()],
        )),
        // Once begun, it runs in the background; the next step waits for it.
        after: vec![Condition::Any(vec![gone, super::idle(pool, SyncWanted::Anything).negated()])],
        undo: Undo::Never(
            "the old disk leaves the array as soon as the copy is complete".to_owned(),
        ),
    }
}

/// The old disk is no longer a member.
fn replaced(pool: &ObservedMd, old: &MdMember) -> Condition {
    match old.disk.clone() {
        Some(disk) => Condition::ArrayMember { uuid: pool.uuid, disk }.negated(),
        None => super::idle(pool, SyncWanted::Anything),
    }
}
