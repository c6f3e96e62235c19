use super::place::{mounted, ready};
use super::{Btrfs, add, balance, check_complete, check_idle, space};
use crate::layout::{Layout, Profile};
use crate::observed::{ObservedBtrfs, Purpose};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{Refused, erase};
use crate::step::{Action, Argv, Step, Undo};

/// One balance with `convert`, after checking that the result fits; on more disks, if some are
/// added.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedBtrfs>,
    to: Layout,
    accept_unstable: bool,
    disks: Vec<NewMember>,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    check_idle(pool)?;
    check_complete(pool)?;
    let Layout::Btrfs(data) = to else {
        return Err(Refused::Impossible {
            what: format!("a btrfs can't become {to}"),
            instead: "create a new pool on other disks and copy".to_owned(),
        });
    };
    if to.is_unstable() && !accept_unstable {
        return Err(Refused::Unstable { layout: to });
    }
    let given = pool.members.len() + disks.len();
    if given < data.min_disks() {
        return Err(Refused::TooFewDisks { layout: to, wanted: data.min_disks(), given });
    }
    let metadata = data.metadata_beside(given);
    let mounted = mounted(place)?;
    let at = mounted.at.as_str();
    let mut draft = Draft {
        title: format!(
            "convert pool {} to {to}, metadata {}",
            Btrfs::name(pool),
            metadata.as_str()
        ),
        claims: disks.iter().map(|disk| disk.claim.clone()).collect(),
        ..Draft::default()
    };
    let is_so =
        pool.profiles(Purpose::Data) == [data] && pool.profiles(Purpose::Metadata) == [metadata];
    if is_so && disks.is_empty() {
        return Ok(draft);
    }
    let (mut free, mut sizes) = space::free_and_sizes(pool);
    free.extend(disks.iter().map(|disk| disk.size_bytes()));
    sizes.extend(disks.iter().map(|disk| disk.size_bytes()));
    space::check_fits(pool, data, metadata, &sizes)?;
    space::check_chunk(data, &free, &sizes)?;
    if data.losses_survived() == 0 {
        draft.warnings.push(format!("{to} survives the loss of no disk"));
    }
    draft.steps.extend(mounted.steps);
    draft.steps.extend(erase::prepared(&disks));
    draft.steps.extend(disks.iter().map(|disk| add::add(pool, at, disk)));
    let undo = balance::convert_back(pool, at);
    draft.steps.push(balance::convert("convert", pool, at, data, metadata, undo));
    if was_degraded(pool) {
        draft.steps.push(scrub(pool, at));
    }
    Ok(draft)
}

/// A redundant filesystem has some chunks with one copy only: it was written to while a member was
/// away.
fn was_degraded(pool: &ObservedBtrfs) -> bool {
    let redundant = pool.meant_profiles().is_some_and(|(data, _)| data.losses_survived() > 0);
    let one_copy = |purpose| pool.profiles(purpose).contains(&Profile::Single);
    redundant && [Purpose::Data, Purpose::Metadata, Purpose::System].into_iter().any(one_copy)
}

/// The balance skips chunks that already have their profile, and in these the member that was away
/// is out of date.
fn scrub(pool: &ObservedBtrfs, at: &str) -> Step {
    Step {
        name: "scrub".to_owned(),
        says: "read all, and mend what a member that was away has missed".to_owned(),
        before: ready(pool, at),
        action: Action::Run(Argv::new("btrfs", ["scrub", "start", "-B", at])),
        after: vec![],
        undo: Undo::Nothing,
    }
}
