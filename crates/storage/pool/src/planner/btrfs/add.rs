use super::place::{mounted, ready};
use super::{Btrfs, balance, check_complete, check_idle, space};
use crate::layout::Profile;
use crate::observed::{ObservedBtrfs, Purpose};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{Refused, erase};
use crate::step::{Action, Argv, Condition, Progress, Step, Undo};

/// Device add, and the balance without which the old disks stay as full as they are.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedBtrfs>,
    disks: Vec<NewMember>,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    check_idle(pool)?;
    check_complete(pool)?;
    let (data, metadata) = profiles_after(pool, disks.len());
    let room = if data == Profile::Single { Room::Enough } else { room(pool, data, &disks)? };
    let mounted = mounted(place)?;
    let at = mounted.at.as_str();
    let paths: Vec<&str> = disks.iter().map(|disk| disk.path.as_str()).collect();
    let mut draft = Draft {
        title: format!("add {} to pool {}", paths.join(", "), Btrfs::name(pool)),
        claims: disks.iter().map(|disk| disk.claim.clone()).collect(),
        ..Draft::default()
    };
    draft.steps.extend(mounted.steps);
    draft.steps.extend(erase::prepared(&disks));
    if let Room::InDataChunks = room {
        draft.steps.extend(balance::make_room(pool, at));
    }
    draft.steps.extend(disks.iter().map(|disk| add(pool, at, disk)));
    if pool.meant_profiles().is_some_and(|now| now != (data, metadata)) {
        let undo = balance::convert_back(pool, at);
        draft.steps.push(balance::convert("convert", pool, at, data, metadata, undo));
    }
    match data {
        // New chunks go to the emptiest disk anyway, and no chunk spans several.
        Profile::Single => {}
        _ => draft.steps.push(balance::spread(&with_more(pool, disks.len()), at, data)),
    }
    Ok(draft)
}

/// Whether the balance can start.
enum Room {
    /// Yes.
    Enough,
    /// Once half-empty data chunks have given back their space.
    InDataChunks,
}

/// A balance empties one chunk after the other, so the old disks, or enough new ones, must have
/// room for one to start with.
fn room(pool: &ObservedBtrfs, data: Profile, disks: &[NewMember]) -> Result<Room, Refused> {
    let (mut free, sizes) = space::free_and_sizes(pool);
    // The existing chunks were made before the disks were added.
    let chunk = space::chunk_bytes(&sizes);
    let lacking = space::lacking(data, &free, chunk);
    free.extend(disks.iter().map(|disk| disk.size_bytes()));
    if space::lacking(data, &free, chunk) == 0 {
        return Ok(Room::Enough);
    }
    let (total, used) = pool.space_of(Purpose::Data);
    let slack = total.saturating_sub(used);
    if slack >= space::GIVES_BACK_CHUNKS * chunk {
        return Ok(Room::InDataChunks);
    }
    let bytes = braid_units::ByteSize::from_bytes;
    Err(Refused::Impossible {
        what: format!(
            "the pool is too full to be spread over one more disk: a {} chunk needs {} unallocated on {} disks",
            data.as_str(),
            bytes(chunk),
            data.min_disks()
        ),
        instead: format!(
            "delete {} of files or snapshots and do the same again, or add {lacking} disks of at least {} at a time",
            bytes(space::GIVES_BACK_CHUNKS * chunk - slack),
            bytes(2 * chunk)
        ),
    })
}

/// Adds one device; a smaller or larger one is as good.
pub(super) fn add(pool: &ObservedBtrfs, at: &str, disk: &NewMember) -> Step {
    let (uuid, id) = (pool.uuid, disk.claim.id());
    let mut before = ready(pool, at);
    before.push(disk.ready());
    let path = disk.device();
    let path = path.as_str();
    Step {
        name: format!("add {id}"),
        says: format!("take in disk {id}"),
        before,
        action: Action::Run(Argv::new("btrfs", ["device", "add", path, at])),
        after: vec![Condition::BtrfsMember { uuid, disk: id.clone() }],
        undo: Undo::By(vec![Action::Run(
            Argv::new("btrfs", ["device", "remove", path, at]).with_progress(Progress::Unknown),
        )]),
    }
}

/// A pool of one device has its metadata twice on it; with a second device the copies are
/// separated.
fn profiles_after(pool: &ObservedBtrfs, more: usize) -> (Profile, Profile) {
    let (data, metadata) = pool.meant_profiles().unwrap_or((Profile::Single, Profile::Dup));
    let devices = pool.members.len() + more;
    let metadata = match metadata {
        Profile::Dup | Profile::Single if devices > 1 => data.metadata_beside(devices),
        other => other,
    };
    (data, metadata)
}

/// The pool with more devices, as far as the spread's filter counts them.
fn with_more(pool: &ObservedBtrfs, more: usize) -> ObservedBtrfs {
    let mut wider = pool.clone();
    if let Some(last) = pool.members.last() {
        wider.members.extend(std::iter::repeat_n(last.clone(), more));
    }
    wider
}
