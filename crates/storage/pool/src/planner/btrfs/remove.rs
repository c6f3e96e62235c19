use super::place::{mounted, ready};
use super::{Btrfs, balance, check_complete, check_idle, describe, member, space};
use crate::layout::{Layout, Profile};
use crate::observed::{BtrfsMember, ObservedBtrfs, Purpose};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::{MemberName, Refused};
use crate::step::{Action, Argv, Condition, Progress, Step, Undo};

/// Device remove: its data moves to the others first, where it has to fit.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedBtrfs>,
    name: &MemberName,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    check_idle(pool)?;
    let leaving = member(pool, name)?;
    if !leaving.missing {
        check_complete(pool)?;
    }
    let left = pool.members.len().saturating_sub(1);
    if left == 0 {
        return Err(Refused::Impossible {
            what: format!("{} is the pool's only disk", describe(leaving)),
            instead: format!(
                "add another first (`braid pool add {0} NEW`), or replace it (`braid pool replace {0} \
                 {1} NEW`)",
                Btrfs::name(pool),
                leaving.devid
            ),
        });
    }
    let (data, metadata) = pool.meant_profiles().unwrap_or((Profile::Single, Profile::Dup));
    if let Some(profile) = [data, metadata].into_iter().find(|profile| left < profile.min_disks()) {
        return Err(Refused::Impossible {
            what: format!(
                "{} needs {} disks and {left} would be left",
                Layout::Btrfs(profile),
                profile.min_disks()
            ),
            instead: format!(
                "replace the disk (`braid pool replace {0} {1} NEW`), or first `braid pool convert {0} --layout btrfs-single`",
                Btrfs::name(pool),
                leaving.devid
            ),
        });
    }
    let sizes: Vec<u64> = pool
        .present()
        .filter(|other| other.devid != leaving.devid)
        .map(|other| other.size_bytes)
        .collect();
    space::check_fits(pool, data, metadata, &sizes)?;
    let mounted = mounted(place)?;
    let mut steps = mounted.steps;
    steps.extend(make_room(pool, &mounted.at, leaving, None)?);
    steps.push(remove(pool, &mounted.at, leaving.devid));
    Ok(Draft {
        title: format!("remove {} from pool {}", describe(leaving), Btrfs::name(pool)),
        steps,
        ..Draft::default()
    })
}

/// Data that leaves a device goes to chunks on the others, and a new one may have to be allocated
/// before any is freed: if there is no room for it, half-empty data chunks are emptied first.
/// `joining` is the size of a disk that was added before.
pub(super) fn make_room(
    pool: &ObservedBtrfs,
    at: &str,
    leaving: &BtrfsMember,
    joining: Option<u64>,
) -> Result<Vec<Step>, Refused> {
    let (data, _) = pool.meant_profiles().unwrap_or((Profile::Single, Profile::Dup));
    let others = || pool.present().filter(|other| other.devid != leaving.devid);
    let free: Vec<u64> = others().map(BtrfsMember::unallocated_bytes).chain(joining).collect();
    let sizes: Vec<u64> = others().map(|other| other.size_bytes).chain(joining).collect();
    let is_empty = !leaving.missing && leaving.unallocated_bytes() == leaving.size_bytes;
    if is_empty || pool.space.is_empty() {
        return Ok(vec![]);
    }
    let Err(refused) = space::check_chunk(data, &free, &sizes) else { return Ok(vec![]) };
    let (total, used) = pool.space_of(Purpose::Data);
    match total.saturating_sub(used) < space::GIVES_BACK_CHUNKS * space::chunk_bytes(&sizes) {
        true => Err(refused),
        false => Ok(balance::make_room(pool, at)),
    }
}

/// By number, which a missing device has too.
pub(super) fn remove(pool: &ObservedBtrfs, at: &str, devid: u64) -> Step {
    let uuid = pool.uuid;
    let progress = Progress::BtrfsRemove { uuid, devid };
    Step {
        name: format!("remove {devid}"),
        says: format!("move what is on device {devid} to the others and let it go"),
        before: ready(pool, at),
        action: Action::Run(
            Argv::new("btrfs", ["device", "remove", &devid.to_string(), at])
                .with_progress(progress),
        ),
        after: vec![Condition::BtrfsDevid { uuid, devid }.negated()],
        undo: Undo::Never(format!(
            "what was moved is on the other disks, and device {devid} is a member until all of \
                 it is: `braid pool remove` goes on, or, once it is out, `braid pool add` brings it \
                 back"
        )),
    }
}
