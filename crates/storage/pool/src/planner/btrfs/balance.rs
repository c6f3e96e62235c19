//! Balances: the purpose of each filter, and the order that needs the least room.

use super::place::{mounted, ready};
use super::{Btrfs, check_complete, check_idle, space};
use crate::layout::Profile;
use crate::observed::{ObservedBtrfs, Purpose};
use crate::planner::Refused;
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::step::{Action, Argv, Condition, Progress, Step, Undo};

/// A balance with these filters.
pub(super) fn step(
    name: &str,
    says: String,
    pool: &ObservedBtrfs,
    at: &str,
    filters: &[String],
    after: Vec<Condition>,
) -> Step {
    let mut args = vec!["balance".to_owned(), "start".to_owned()];
    args.extend(filters.iter().cloned());
    args.push(at.to_owned());
    let progress = Progress::BtrfsBalance { uuid: pool.uuid };
    Step {
        name: name.to_owned(),
        says,
        before: ready(pool, at),
        action: Action::Run(Argv::new("btrfs", args).with_progress(progress)),
        after,
        undo: Undo::Nothing,
    }
}

/// Everything gets these profiles. `soft` skips what has them already.
pub(super) fn convert(
    name: &str,
    pool: &ObservedBtrfs,
    at: &str,
    data: Profile,
    metadata: Profile,
    undo: Undo,
) -> Step {
    let says = format!(
        "give data {} and metadata {}, where they have another profile",
        data.as_str(),
        metadata.as_str()
    );
    let after = vec![Condition::BtrfsProfiles { uuid: pool.uuid, data, metadata }];
    let filters = convert_filters(pool, data, metadata);
    Step { undo, ..step(name, says, pool, at, &filters, after) }
}

fn convert_filters(pool: &ObservedBtrfs, data: Profile, metadata: Profile) -> Vec<String> {
    let weaker = pool.profiles(Purpose::Metadata).into_iter().any(|now| {
        now.losses_survived() > metadata.losses_survived() || now.copies() > metadata.copies()
    });
    let mut filters = Vec::new();
    if weaker {
        // The tool requires confirmation that metadata gets fewer copies.
        filters.push("--force".to_owned());
    }
    filters.push(format!("-dconvert={},soft", data.as_str()));
    filters.push(format!("-mconvert={},soft", metadata.as_str()));
    filters
}

/// The command that turns everything back into what it was.
pub(super) fn convert_back(pool: &ObservedBtrfs, at: &str) -> Undo {
    let Some((data, metadata)) = pool.meant_profiles() else { return Undo::Nothing };
    let mut args = vec!["balance".to_owned(), "start".to_owned(), "--force".to_owned()];
    args.push(format!("-dconvert={},soft", data.as_str()));
    args.push(format!("-mconvert={},soft", metadata.as_str()));
    args.push(at.to_owned());
    let progress = Progress::BtrfsBalance { uuid: pool.uuid };
    Undo::By(vec![Action::Run(Argv::new("btrfs", args).with_progress(progress))])
}

/// Nearly empty chunks first, which makes room for the next ones; then, if the disks are unevenly
/// filled, all data.
pub(super) fn rebalance(place: &PoolOnHost<'_, ObservedBtrfs>) -> Result<Draft, Refused> {
    let pool = place.pool;
    check_idle(pool)?;
    check_complete(pool)?;
    let mounted = mounted(place)?;
    let mut draft = Draft {
        title: format!("rebalance pool {}", Btrfs::name(pool)),
        steps: mounted.steps,
        ..Draft::default()
    };
    let at = mounted.at.as_str();
    draft.steps.extend(compact(pool, at, &[0, 25, 50, 75]));
    let Some((data, metadata)) = pool.meant_profiles() else { return Ok(draft) };
    let (free, sizes) = space::free_and_sizes(pool);
    let (total, used) = pool.space_of(Purpose::Data);
    // Moving anything needs one free chunk, unless whole chunks' worth of slack can be freed first.
    if total.saturating_sub(used) < space::GIVES_BACK_CHUNKS * space::chunk_bytes(&sizes) {
        space::check_chunk(data, &free, &sizes)?;
    }
    let mixed =
        pool.profiles(Purpose::Data).len() > 1 || pool.profiles(Purpose::Metadata).len() > 1;
    if mixed {
        draft.steps.push(convert("convert", pool, at, data, metadata, Undo::Nothing));
    }
    if uneven(pool, data) {
        draft.steps.push(spread(pool, at, data));
    }
    Ok(draft)
}

/// As much as a full pool can give back, before a change that needs new chunks.
pub(super) fn make_room(pool: &ObservedBtrfs, at: &str) -> Vec<Step> {
    compact(pool, at, &[0, 25, 50, 75, 90])
}

/// Frees the space of half-empty data chunks: those less full than each of these percentages, one
/// after the other.
fn compact(pool: &ObservedBtrfs, at: &str, percentages: &[u8]) -> Vec<Step> {
    let below = |usage: &u8| {
        let says = match usage {
            0 => "give back chunks that hold nothing".to_owned(),
            _ => format!("empty data chunks that are less than {usage} % full into others"),
        };
        // Metadata chunks stay: their slack is what a full pool lives on.
        let filters = [format!("-dusage={usage}")];
        step(&format!("usage {usage}"), says, pool, at, &filters, vec![])
    };
    percentages.iter().map(below).collect()
}

/// All data is rewritten, so that it spreads over all devices.
pub(super) fn spread(pool: &ObservedBtrfs, at: &str, data: Profile) -> Step {
    let devices = pool.members.len();
    let filter = match data {
        // Only chunks that aren't striped over all devices yet.
        Profile::Raid0 | Profile::Raid10 | Profile::Raid5 | Profile::Raid6 if devices > 1 => {
            format!("-dstripes=1..{}", devices - 1)
        }
        _ => "-d".to_owned(),
    };
    step("spread", "spread data over all disks".to_owned(), pool, at, &[filter], vec![])
}

/// Whether the unallocated space differs by more than a tenth of the largest device between devices
/// that can use it: new chunks go where most is unallocated, so by itself it evens out, but slowly.
fn uneven(pool: &ObservedBtrfs, data: Profile) -> bool {
    if data == Profile::Single || pool.members.len() < 2 {
        return false;
    }
    let free = || pool.present().map(|member| member.unallocated_bytes());
    let largest = pool.present().map(|member| member.size_bytes).max().unwrap_or(0);
    let (most, least) = (free().max().unwrap_or(0), free().min().unwrap_or(0));
    let equal = pool.present().all(|member| member.size_bytes.abs_diff(largest) < largest / 20);
    equal && most - least > largest / 10
}
