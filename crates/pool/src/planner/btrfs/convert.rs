use super::place::mounted;
use super::{Btrfs, balance, check_complete, check_idle, space};
use crate::layout::Layout;
use crate::observed::{ObservedBtrfs, Purpose};
use crate::planner::Refused;
use crate::planner::engine::{Draft, Engine, Place};

/// One balance with `convert`, after a look whether the result would fit.
pub(super) fn draft(
    place: &Place<'_, ObservedBtrfs>,
    to: Layout,
    accept_unstable: bool,
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
    let given = pool.members.len();
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
        ..Draft::default()
    };
    if pool.profiles(Purpose::Data) == [data] && pool.profiles(Purpose::Metadata) == [metadata] {
        return Ok(draft);
    }
    let (free, sizes) = space::free_and_sizes(pool);
    space::check_fits(pool, data, metadata, &sizes)?;
    space::check_chunk(data, &free, &sizes)?;
    if data.losses_survived() == 0 {
        draft.warnings.push(format!("{to} survives the loss of no disk"));
    }
    draft.steps.extend(mounted.steps);
    let undo = balance::convert_back(pool, at);
    draft.steps.push(balance::convert("convert", pool, at, data, metadata, undo));
    Ok(draft)
}
