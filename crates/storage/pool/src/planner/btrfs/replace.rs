use super::place::{mounted, ready};
use super::{Btrfs, balance, check_idle, describe, member, remove, space};
use crate::layout::Profile;
use crate::observed::{BtrfsMember, ObservedBtrfs, Purpose};
use crate::planner::engine::{Draft, Engine, PoolOnHost};
use crate::planner::member::NewMember;
use crate::planner::{MemberName, Refused, erase};
use crate::step::{Action, Argv, Condition, Progress, Step, Undo};
use braid_units::ByteSize;

/// Replace, resize to the new disk, and convert what a degraded mount wrote with only one copy.
pub(super) fn draft(
    place: &PoolOnHost<'_, ObservedBtrfs>,
    name: &MemberName,
    by: NewMember,
    lent: Option<NewMember>,
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
    let profiles = pool.intended_profiles();
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
        claims: std::iter::once(&by).chain(&lent).map(|disk| disk.claim.clone()).collect(),
        ..Draft::default()
    };
    let is_smaller = by.size_bytes() < old.size_bytes;
    let room = room(pool, old, by.size_bytes());
    check_lent(&room, old, &by, lent.as_ref())?;
    draft.steps.extend(mounted.steps);
    draft.steps.extend(erase::prepared(std::iter::once(&by).chain(&lent)));
    if !is_smaller {
        let mut copy = replace(pool, at, old, &by);
        if let Room::InDataChunks { needs } = room {
            draft.steps.extend(balance::make_room(pool, at));
            let uuid = pool.uuid;
            copy.before.push(Condition::BtrfsUnallocated { uuid, at_least_bytes: needs });
        }
        draft.steps.extend(lent.iter().map(|lent| super::add::add(pool, at, lent)));
        draft.steps.push(copy);
        draft.steps.push(resize(pool, at, old.devid, &by));
    } else {
        // `replace` accepts no smaller disk; adding one and removing the old has the same result.
        add_and_remove(pool, at, old, &by, &mut draft)?;
    }
    if let Some((data, metadata)) = profiles
        && (old.missing
            || pool.profiles(Purpose::Data).len() > 1
            || pool.profiles(Purpose::Metadata).len() > 1)
    {
        draft.steps.push(balance::convert("convert", pool, at, data, metadata, Undo::Nothing));
    }
    if profiles.is_none() && old.missing {
        // Mounted degraded it writes chunks with one copy, and it isn't known yet what they should
        // become.
        draft.after.push(Condition::BtrfsUnmixed { uuid: pool.uuid });
    }
    if let Some(lent) = lent {
        give_back(pool, at, &lent, &mut draft);
    }
    if old.missing && pool.mounts.is_empty() {
        draft.steps.extend(mount_whole(pool, at, old, &by));
    }
    Ok(draft)
}

/// Checks that there is room, and that a disk is lent if and only if one is needed.
fn check_lent(
    room: &Room,
    old: &BtrfsMember,
    by: &NewMember,
    lent: Option<&NewMember>,
) -> Result<(), Refused> {
    let is_smaller = by.size_bytes() < old.size_bytes;
    match (room, lent) {
        (Room::Lacking(full), None) => Err(full.refused(is_smaller)),
        // The missing one's data would go to the lent disk, and stay there.
        (Room::Lacking(full), Some(lent)) if is_smaller => Err(Refused::Impossible {
            what: format!(
                "with {} lent, the new disk has to be as large as the missing one: {} has {}, it had {}",
                lent.path,
                by.path,
                ByteSize::from_bytes(by.size_bytes()),
                ByteSize::from_bytes(old.size_bytes)
            ),
            instead: format!(
                "take a larger one, or leave out `--lend` and free {}",
                ByteSize::from_bytes(full.needs.saturating_sub(full.has))
            ),
        }),
        (Room::Lacking(full), Some(lent)) if lent.size_bytes() < full.lend => {
            let (disk, has) = (lent.path.clone(), lent.size_bytes());
            Err(Refused::DiskTooSmall { disk, has, needs: full.lend })
        }
        (Room::Lacking(_), Some(_)) | (_, None) => Ok(()),
        (_, Some(lent)) => Err(Refused::NotLent { disk: lent.path.clone() }),
    }
}

/// What a replace by a smaller disk amounts to.
fn add_and_remove(
    pool: &ObservedBtrfs,
    at: &str,
    old: &BtrfsMember,
    by: &NewMember,
    draft: &mut Draft,
) -> Result<(), Refused> {
    let (data, metadata) = pool.intended_profiles().unwrap_or((Profile::Single, Profile::Dup));
    let others = pool.present().filter(|other| other.devid != old.devid);
    let mut sizes: Vec<u64> = others.map(|other| other.size_bytes).collect();
    sizes.push(by.size_bytes());
    space::check_fits(pool, data, metadata, &sizes)?;
    draft.warnings.push(
        "the new disk is smaller than the old one, so it is added and the old one removed"
            .to_owned(),
    );
    draft.steps.extend(remove::make_room(pool, at, old, Some(by.size_bytes()))?);
    draft.steps.push(super::add::add(pool, at, by));
    draft.steps.push(remove::remove(pool, at, old.devid));
    Ok(())
}

/// With `degraded` it would keep writing chunks with one copy whenever a disk is gone.
fn mount_whole(pool: &ObservedBtrfs, at: &str, old: &BtrfsMember, by: &NewMember) -> [Step; 2] {
    let uuid = pool.uuid;
    let others = pool.present().filter(|other| other.devid != old.devid);
    let others = others.filter_map(|other| other.path.as_deref());
    let options: Vec<String> = others.map(|path| format!("device={path}")).collect();
    let mut mount = super::super::host_files::mount(&by.device(), "btrfs", &options, uuid, at);
    mount.name = "mount whole".to_owned();
    mount.says = format!("mount it at {at} as usual");
    let as_usual = Condition::MountedWithout { uuid, at: at.to_owned(), option: "degraded".into() };
    mount.after = vec![as_usual.clone()];
    mount.undo = Undo::Nothing;
    let unmount = Step {
        name: "unmount degraded".to_owned(),
        says: "unmount it, since it is complete now".to_owned(),
        before: vec![],
        action: Action::Run(Argv::new("umount", [at])),
        after: vec![Condition::Any(vec![Condition::NotMounted { at: at.to_owned() }, as_usual])],
        undo: Undo::Nothing,
    };
    [unmount, mount]
}

/// Data held by only one disk gets its copy with the help of the lent one, and then there is no
/// room to do without it.
fn give_back(pool: &ObservedBtrfs, at: &str, lent: &NewMember, draft: &mut Draft) {
    if pool.profiles(Purpose::Data).contains(&Profile::Single) {
        let (name, path) = (Btrfs::name(pool), &lent.path);
        draft.warnings.push(format!(
            "{path} stays in the pool, which is too full to be without it; once files are deleted: \
             `braid pool remove {name} {path}`"
        ));
        return;
    }
    let (uuid, disk) = (pool.uuid, lent.claim.id().clone());
    // A new device has the next number; only the progress report depends on it.
    let devid = pool.members.iter().map(|member| member.devid).max().unwrap_or(0) + 1;
    let remove = remove::remove(pool, at, devid);
    draft.steps.push(Step {
        name: "give back".to_owned(),
        says: format!("give the lent disk {disk} back"),
        action: Action::Run(
            Argv::new("btrfs", ["device", "remove", &lent.device(), at])
                .with_progress(Progress::BtrfsRemove { uuid, devid }),
        ),
        after: vec![Condition::BtrfsMember { uuid, disk }.negated()],
        ..remove
    });
}

/// How large a disk has to be lent to this pool before this missing member is replaced, if the
/// others are full.
pub(in crate::planner) fn to_be_lent(pool: &ObservedBtrfs, old: &BtrfsMember) -> Option<u64> {
    match room(pool, old, old.size_bytes) {
        Room::Lacking(full) => Some(full.lend),
        Room::Enough | Room::InDataChunks { .. } => None,
    }
}

/// Whether a replace can start.
enum Room {
    /// Yes.
    Enough,
    /// Once half-empty data chunks have given back this much.
    InDataChunks { needs: u64 },
    /// Only after files are deleted, or with a lent disk.
    Lacking(Full),
}

/// What a full pool lacks, in bytes.
struct Full {
    needs: u64,
    has: u64,
    lend: u64,
}

impl Full {
    /// A disk is lent only if the new one isn't smaller than the missing one.
    fn refused(&self, is_smaller: bool) -> Refused {
        let lend = (!is_smaller).then_some(self.lend);
        Refused::SurvivorsFull { needs: self.needs, has: self.has, lend }
    }
}

/// A replace makes each chunk read-only while it copies it, so there has to be another one of its
/// kind, or room for it: on a survivor filled up by a degraded mount there is none for metadata,
/// and the replace fails with ENOSPC.
fn room(pool: &ObservedBtrfs, old: &BtrfsMember, new_bytes: u64) -> Room {
    // A dead one whose name is still there is still given new chunks.
    if !old.missing || old.fault.is_some() || pool.space.is_empty() {
        return Room::Enough;
    }
    let (free, sizes) = space::free_and_sizes(pool);
    let needs = space::metadata_chunk_bytes(&sizes);
    let unallocated: u64 = free.iter().sum();
    let (total, used) = pool.space_of(Purpose::Metadata);
    // Free space in a chunk doesn't help while that very chunk is copied.
    let has = unallocated + total.saturating_sub(used).saturating_sub(needs);
    let (total, used) = pool.space_of(Purpose::Data);
    let slack = total.saturating_sub(used);
    if has >= needs {
        Room::Enough
    } else if slack >= needs + space::chunk_bytes(&sizes) {
        Room::InDataChunks { needs }
    } else {
        let mut sizes = sizes;
        let needs = needs + space::chunk_bytes(&sizes);
        sizes.push(new_bytes);
        // Half of the unallocated space counts for chunks with two copies.
        let lend = 2 * (space::chunk_bytes(&sizes) + space::metadata_chunk_bytes(&sizes));
        Room::Lacking(Full { needs, has: has + slack, lend })
    }
}

fn replace(pool: &ObservedBtrfs, at: &str, old: &BtrfsMember, by: &NewMember) -> Step {
    let (uuid, devid) = (pool.uuid, old.devid);
    let mut before = ready(pool, at);
    // After a reboot the pool is mounted without it if necessary.
    before.push(Condition::BtrfsDevid { uuid, devid });
    before.push(by.ready());
    let mut args: Vec<String> = ["replace", "start", "-B"].map(str::to_owned).to_vec();
    if old.fault.is_some() || old.errors.sum() > 0 && !old.missing {
        // Read from it only what no other device has.
        args.push("-r".to_owned());
    }
    args.extend([devid.to_string(), by.device(), at.to_owned()]);
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

/// A larger disk is used completely.
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
