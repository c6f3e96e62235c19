//! The md engine.

mod add;
mod convert;
mod create;
mod filesystem;
mod remove;
mod replace;

use super::engine::{Draft, Engine, PoolOnHost};
use super::member::NewMember;
use super::{MemberName, NewPool, Refused};
use crate::layout::{Layout, MdLayout};
use crate::observed::{MdMember, MdMemberState, ObservedHost, ObservedMd};
use crate::step::{Action, Argv, Condition, Plan, Progress, Step, SyncWanted, Undo};

/// Pools that are an md array with a filesystem.
pub(super) struct Md;

impl Engine for Md {
    type Pool = ObservedMd;

    fn name(pool: &ObservedMd) -> String {
        crate::untrusted::Untrusted(pool.short_name()).to_string()
    }
    fn create(new: &NewPool, host: &ObservedHost) -> Result<Plan, Refused> {
        create::plan(new, host)
    }
    fn check_member(pool: &ObservedMd, name: &MemberName) -> Result<(), Refused> {
        match member(pool, name) {
            // A lost one may not be listed.
            Err(_) if name.0 == "missing" && pool.degraded > 0 => Ok(()),
            found => found.map(|_| ()),
        }
    }
    fn add(at: &PoolOnHost<'_, ObservedMd>, disks: Vec<NewMember>) -> Result<Draft, Refused> {
        add::draft(at, disks)
    }
    fn remove(at: &PoolOnHost<'_, ObservedMd>, member: &MemberName) -> Result<Draft, Refused> {
        remove::draft(at, member)
    }
    fn replace(
        at: &PoolOnHost<'_, ObservedMd>,
        member: &MemberName,
        by: NewMember,
        lent: Option<NewMember>,
    ) -> Result<Draft, Refused> {
        replace::draft(at, member, by, lent)
    }
    fn convert(
        at: &PoolOnHost<'_, ObservedMd>,
        to: Layout,
        _accept_unstable: bool,
        disks: Vec<NewMember>,
    ) -> Result<Draft, Refused> {
        convert::draft(at, to, disks)
    }
    fn rebalance(at: &PoolOnHost<'_, ObservedMd>) -> Result<Draft, Refused> {
        Err(Refused::Impossible {
            what: format!("array {} needs no rebalancing", at.pool.short_name()),
            instead: "md always spreads over all its members".to_owned(),
        })
    }
}

/// Where programs find the array: by the name in mdadm.conf, which stays the same over reboots,
/// else the kernel's.
fn device(place: &PoolOnHost<'_, ObservedMd>) -> Result<String, Refused> {
    let pool = place.pool;
    let kernels = pool.path().ok_or_else(|| Refused::NotAssembled { pool: Md::name(pool) })?;
    let line = place.host.array_line(pool.uuid).unwrap_or_default();
    let named = line.split_whitespace().nth(1).filter(|path| path.starts_with("/dev/"));
    Ok(named.map_or(kernels, str::to_owned))
}

/// The layout, which has to be one that Braid knows.
fn layout(pool: &ObservedMd) -> Result<MdLayout, Refused> {
    pool.layout.ok_or_else(|| Refused::Impossible {
        what: format!("array {} has a level that Braid doesn't know", Md::name(pool)),
        instead: "use mdadm itself".to_owned(),
    })
}

fn check_idle(pool: &ObservedMd) -> Result<(), Refused> {
    match pool.sync {
        None => Ok(()),
        Some(sync) => Err(Refused::Busy {
            pool: Md::name(pool),
            what: format!("{:?}, {:.0} % done", sync.action, sync.done * 100.0).to_lowercase(),
        }),
    }
}

fn check_complete(pool: &ObservedMd) -> Result<(), Refused> {
    if pool.degraded == 0 {
        return Ok(());
    }
    let what =
        format!("{} of {} members are not there or not in sync", pool.degraded, pool.wants_disks);
    Err(Refused::Degraded { pool: Md::name(pool), what })
}

/// A new member must have as much room as the others hold, after its own superblock and headroom.
fn check_size(pool: &ObservedMd, new: &NewMember) -> Result<(), Refused> {
    let layout = layout(pool)?;
    let has = new.size_bytes();
    // What counts is the array's data offset, which may be smaller than in a new array of that
    // size: at least a mebibyte.
    let needs = pool.member_bytes + (1 << 20);
    if layout == MdLayout::Raid0 || has >= needs {
        return Ok(());
    }
    Err(Refused::DiskTooSmall { disk: new.path.clone(), has, needs })
}

/// Checks that no other member is on the new one's disk.
fn check_apart(pool: &ObservedMd, new: &[NewMember]) -> Result<(), Refused> {
    for disk in new {
        let on = |member: &&MdMember| {
            member.state != MdMemberState::Missing
                && member
                    .path
                    .as_deref()
                    .is_some_and(|path| path == disk.physical_disk || path == disk.path)
        };
        if let Some(member) = pool.members.iter().find(on) {
            let first = member.path.clone().unwrap_or_default();
            return Err(Refused::SameDisk { first, second: disk.path.clone() });
        }
    }
    Ok(())
}

/// The member that the user means.
fn member<'a>(pool: &'a ObservedMd, name: &MemberName) -> Result<&'a MdMember, Refused> {
    let word = name.0.as_str();
    let gone =
        |member: &&MdMember| matches!(member.state, MdMemberState::Missing | MdMemberState::Faulty);
    let mut missing = pool.members.iter().filter(gone);
    let by_word = |member: &&MdMember| {
        member.path.as_deref() == Some(word)
            || member.disk.as_ref().is_some_and(|disk| disk.as_str() == word)
            || (member.slot.is_some() && word.parse().ok() == member.slot)
    };
    let found = match word {
        "missing" => match (missing.next(), missing.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        },
        _ => pool.members.iter().find(by_word),
    };
    found.ok_or_else(|| Refused::NoSuchMember {
        member: word.to_owned(),
        pool: Md::name(pool),
        members: pool.members.iter().map(describe).collect::<Vec<_>>().join(", "),
    })
}

fn describe(member: &MdMember) -> String {
    let slot = member.slot.map_or("-".to_owned(), |slot| slot.to_string());
    match (&member.path, member.state) {
        (Some(path), MdMemberState::InSync) => format!("{slot} ({path})"),
        (Some(path), state) => format!("{slot} ({path}, {state:?})").to_lowercase(),
        (None, _) => format!("{slot} (missing)"),
    }
}

/// The disk joins as a spare; md starts to rebuild on it at once if a slot is free.
fn join(pool: &ObservedMd, device: &str, new: &NewMember) -> Step {
    let (uuid, disk) = (pool.uuid, new.claim.id().clone());
    let path = new.device();
    let path = path.as_str();
    Step {
        name: format!("add {disk}"),
        says: format!("take in disk {disk}"),
        before: vec![new.ready()],
        action: Action::Run(Argv::new("mdadm", [device, "--add", path])),
        after: vec![Condition::ArrayMember { uuid, disk }],
        undo: Undo::By(vec![
            Action::Run(Argv::new("mdadm", [device, "--fail", path, "--remove", path])),
            zero_superblock(path),
        ]),
    }
}

fn zero_superblock(path: &str) -> Action {
    Action::Run(Argv::new("mdadm", ["--zero-superblock", path]))
}

/// Waits for what md does in the background.
fn settled(name: &str, says: &str, pool: &ObservedMd, until: Condition) -> Step {
    Step {
        name: name.to_owned(),
        says: says.to_owned(),
        before: vec![],
        action: Action::WaitFor {
            until: until.clone(),
            progress: Progress::MdSync { uuid: pool.uuid },
        },
        after: vec![until],
        undo: Undo::Nothing,
    }
}

fn idle(pool: &ObservedMd, of: SyncWanted) -> Condition {
    Condition::ArrayIdle { uuid: pool.uuid, of }
}
