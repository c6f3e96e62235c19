use super::place::{mounted, ready};
use super::{Btrfs, balance, check_idle, describe, member, remove, space};
use crate::layout::Profile;
use crate::observed::{BtrfsMember, ObservedBtrfs, Purpose};
use crate::planner::engine::{Draft, Engine, NewMember, Place};
use crate::planner::{MemberName, Refused, erase};
use crate::step::{Action, Argv, Condition, Progress, Step, Undo};

/// Replace, resize to the new disk, and the convert of what a degraded mount wrote with one copy only.
pub(super) fn draft(
    place: &Place<'_, ObservedBtrfs>,
    name: &MemberName,
    by: NewMember,
) -> Result<Draft, Refused> {
    let pool = place.pool;
    check_idle(pool)?;
    let old = member(pool, name)?;
    if let Some(other) = pool.missing().find(|other| other.devid != old.devid && !old.missing) {
        return Err(Refused::Degraded {
            pool: Btrfs::name(pool),
            what: format!("devid {} is missing", other.devid),
        });
    }
    let profiles = pool.meant_profiles();
    if old.missing && profiles.is_some_and(|(data, _)| data.losses_survived() == 0) {
        return Err(Refused::Impossible {
            what: format!("devid {} is lost and no copy of its data is left", old.devid),
            instead:
                "mount read-only (-o ro,degraded), copy away what can be read, make the pool anew"
                    .to_owned(),
        });
    }
    let mounted = mounted(place)?;
    let at = mounted.at.as_str();
    let mut draft = Draft {
        title: format!("replace {} in pool {} by {}", describe(old), Btrfs::name(pool), by.path),
        claims: vec![by.claim.clone()],
        ..Draft::default()
    };
    draft.steps.extend(mounted.steps);
    draft.steps.extend(erase::steps(&draft.claims));
    if by.claim.size_bytes() >= old.size_bytes {
        let mut copy = replace(pool, at, old, &by);
        match metadata_room(pool, old) {
            Room::Enough => {}
            Room::InDataChunks { needs } => {
                draft.steps.extend(balance::compact(pool, at, &[0, 25, 50, 75, 90]));
                let uuid = pool.uuid;
                copy.before.push(Condition::BtrfsUnallocated { uuid, at_least_bytes: needs });
            }
            Room::Lacking { needs, has } => {
                let what = "the survivors are full: what a replace needs to begin, in new chunks,"
                    .to_owned();
                return Err(Refused::NoSpace { what, needs, has });
            }
        }
        draft.steps.push(copy);
        draft.steps.push(resize(pool, at, old.devid, &by));
    } else {
        // `replace` takes no smaller disk; adding one and removing the old comes to the same.
        let (data, metadata) = profiles.unwrap_or((Profile::Single, Profile::Dup));
        let mut sizes: Vec<u64> = pool
            .present()
            .filter(|other| other.devid != old.devid)
            .map(|other| other.size_bytes)
            .collect();
        sizes.push(by.claim.size_bytes());
        space::check_fits(pool, data, metadata, &sizes)?;
        draft.warnings.push(
            "the new disk is smaller than the old one, so it is added and the old one removed"
                .to_owned(),
        );
        draft.steps.push(super::add::add(pool, at, &by));
        draft.steps.push(remove::remove(pool, at, old.devid));
    }
    if let Some((data, metadata)) = profiles
        && (old.missing
            || pool.profiles(Purpose::Data).len() > 1
            || pool.profiles(Purpose::Metadata).len() > 1)
    {
        draft.steps.push(balance::convert("convert", pool, at, data, metadata, Undo::Nothing));
    }
    Ok(draft)
}

/// Whether a replace can begin.
enum Room {
    /// Yes.
    Enough,
    /// Once half empty data chunks have given back so much.
    InDataChunks { needs: u64 },
    /// Not before files are deleted.
    Lacking { needs: u64, has: u64 },
}

/// A replace makes each chunk read-only while it copies it, so there has to be another one of its kind, or room for it:
/// on a survivor that a degraded mount filled up there is none for metadata, and it fails with ENOSPC.
fn metadata_room(pool: &ObservedBtrfs, old: &BtrfsMember) -> Room {
    if !old.missing || pool.space.is_empty() {
        return Room::Enough;
    }
    let (free, sizes) = space::free_and_sizes(pool);
    let needs = space::metadata_chunk_bytes(&sizes);
    let unallocated: u64 = free.iter().sum();
    let (total, used) = pool.space_of(Purpose::Metadata);
    // What one chunk has to spare is no help while that very chunk is copied.
    let has = unallocated + total.saturating_sub(used).saturating_sub(needs);
    let (total, used) = pool.space_of(Purpose::Data);
    let slack = total.saturating_sub(used);
    if has >= needs {
        Room::Enough
    } else if slack >= needs + space::chunk_bytes(&sizes) {
        Room::InDataChunks { needs }
    } else {
        Room::Lacking { needs: needs + space::chunk_bytes(&sizes), has: has + slack }
    }
}

fn replace(pool: &ObservedBtrfs, at: &str, old: &BtrfsMember, by: &NewMember) -> Step {
    let (uuid, devid) = (pool.uuid, old.devid);
    let mut before = ready(pool, at);
    // After a reboot the pool is mounted without it, if it must be.
    before.push(Condition::BtrfsDevid { uuid, devid });
    before.push(erase::ready(&by.claim));
    let mut args: Vec<String> = ["replace", "start", "-B"].map(str::to_owned).to_vec();
    if old.errors.sum() > 0 && !old.missing {
        // Read from it only what no other has.
        args.push("-r".to_owned());
    }
    args.extend([devid.to_string(), by.claim.path().to_owned(), at.to_owned()]);
    Step {
        name: "replace".to_owned(),
        says: format!("copy what belongs on device {devid} to disk {}", by.claim.id()),
        before,
        action: Action::Run(
            Argv::new("btrfs", args).with_progress(Progress::BtrfsReplace { uuid }),
        ),
        after: vec![
            Condition::BtrfsMember { uuid, disk: by.claim.id().clone() },
            Condition::BtrfsIdle { uuid },
        ],
        undo: Undo::Never(
            "the old disk is out of the pool; replace the new one by it if it should come back"
                .to_owned(),
        ),
    }
}

/// A larger disk is used whole.
fn resize(pool: &ObservedBtrfs, at: &str, devid: u64, by: &NewMember) -> Step {
    let (uuid, disk) = (pool.uuid, by.claim.id().clone());
    let size = format!("{devid}:max");
    Step {
        name: "resize".to_owned(),
        says: "use all of the new disk".to_owned(),
        before: ready(pool, at),
        action: Action::Run(Argv::new("btrfs", ["filesystem", "resize", &size, at])),
        after: vec![Condition::BtrfsFillsDisk { uuid, disk }],
        undo: Undo::Nothing,
    }
}
