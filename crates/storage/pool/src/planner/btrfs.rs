//! The btrfs engine.

mod add;
mod balance;
mod convert;
mod create;
mod place;
mod remove;
mod replace;
mod space;

use super::engine::{Draft, Engine, PoolOnHost};
use super::member::NewMember;
use super::{MemberName, NewPool, Refused};
use crate::disk::Claim;
use crate::layout::Layout;
use crate::observed::{BtrfsMember, ExclusiveOperation, ObservedBtrfs, ObservedHost, ObservedPool};
use crate::step::{Condition, Plan};
use crate::uuid::Uuid;

/// Pools that are a btrfs.
pub(super) struct Btrfs;

impl Engine for Btrfs {
    type Pool = ObservedBtrfs;

    fn name(pool: &ObservedBtrfs) -> String {
        ObservedPool::Btrfs(pool.clone()).name()
    }
    fn create(new: &NewPool, _host: &ObservedHost) -> Result<Plan, Refused> {
        create::plan(new)
    }
    fn check_member(pool: &ObservedBtrfs, name: &MemberName) -> Result<(), Refused> {
        member(pool, name).map(|_| ())
    }
    fn add(at: &PoolOnHost<'_, ObservedBtrfs>, disks: Vec<NewMember>) -> Result<Draft, Refused> {
        add::draft(at, disks).map(|draft| accounted(at.pool, draft))
    }
    fn remove(at: &PoolOnHost<'_, ObservedBtrfs>, member: &MemberName) -> Result<Draft, Refused> {
        remove::draft(at, member).map(|draft| accounted(at.pool, draft))
    }
    fn replace(
        at: &PoolOnHost<'_, ObservedBtrfs>,
        member: &MemberName,
        by: NewMember,
        lent: Option<NewMember>,
    ) -> Result<Draft, Refused> {
        replace::draft(at, member, by, lent).map(|draft| accounted(at.pool, draft))
    }
    fn convert(
        at: &PoolOnHost<'_, ObservedBtrfs>,
        to: Layout,
        accept_unstable: bool,
        disks: Vec<NewMember>,
    ) -> Result<Draft, Refused> {
        convert::draft(at, to, accept_unstable, disks).map(|draft| accounted(at.pool, draft))
    }
    fn rebalance(at: &PoolOnHost<'_, ObservedBtrfs>) -> Result<Draft, Refused> {
        balance::rebalance(at).map(|draft| accounted(at.pool, draft))
    }
}

/// How large a disk, in bytes, has to be lent to the pool before this missing member is replaced;
/// `None` if none is needed.
pub(super) fn to_be_lent(pool: &ObservedBtrfs, old: &BtrfsMember) -> Option<u64> {
    replace::to_be_lent(pool, old)
}

/// The draft has succeeded only if every disk accepted its writes: btrfs reports success for a
/// replace or a balance even if all writes to one member failed, and only counts them.
fn accounted(pool: &ObservedBtrfs, mut draft: Draft) -> Draft {
    draft.after.push(took_all(pool.uuid, &pool.members, &draft.claims));
    draft
}

/// Members count from their current counters, new disks from zero.
fn took_all<'a>(
    uuid: Uuid,
    members: &[BtrfsMember],
    new: impl IntoIterator<Item = &'a Claim>,
) -> Condition {
    let before = members.iter().filter(|member| !member.missing);
    let before = before.filter_map(|member| Some((member.disk.clone()?, member.errors.refused())));
    let new = new.into_iter().map(|claim| (claim.id().clone(), 0));
    Condition::BtrfsTookAll { uuid, refused_before: before.chain(new).collect() }
}

/// Nothing runs that would exclude this.
fn check_idle(pool: &ObservedBtrfs) -> Result<(), Refused> {
    let what = match &pool.exclusive_operation {
        ExclusiveOperation::None => return Ok(()),
        ExclusiveOperation::Balance => "a balance",
        ExclusiveOperation::BalancePaused => "a paused balance",
        ExclusiveOperation::DeviceAdd => "adding a device",
        ExclusiveOperation::DeviceRemove => "removing a device",
        ExclusiveOperation::DeviceReplace => "replacing a device",
        ExclusiveOperation::Resize => "a resize",
        ExclusiveOperation::Other(word) => word,
    };
    Err(Refused::Busy { pool: Btrfs::name(pool), what: what.to_owned() })
}

fn check_complete(pool: &ObservedBtrfs) -> Result<(), Refused> {
    let missing: Vec<String> =
        pool.missing().map(|member| format!("devid {} is missing", member.devid)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refused::Degraded { pool: Btrfs::name(pool), what: missing.join(", ") })
}

/// The member that the user means.
fn member<'a>(pool: &'a ObservedBtrfs, name: &MemberName) -> Result<&'a BtrfsMember, Refused> {
    let word = name.0.as_str();
    let by_word = |member: &&BtrfsMember| {
        word.parse() == Ok(member.devid)
            || member.path.as_deref() == Some(word)
            || member.disk.as_ref().is_some_and(|disk| disk.as_str() == word)
    };
    let mut missing = pool.missing();
    let found = match (word, missing.next(), missing.next()) {
        ("missing", Some(only), None) => Some(only),
        ("missing", ..) => None,
        _ => pool.members.iter().find(by_word),
    };
    found.ok_or_else(|| Refused::NoSuchMember {
        member: word.to_owned(),
        pool: Btrfs::name(pool),
        members: pool.members.iter().map(describe).collect::<Vec<_>>().join(", "),
    })
}

fn describe(member: &BtrfsMember) -> String {
    match &member.path {
        Some(path) if !member.missing => format!("{} ({path})", member.devid),
        Some(path) if member.fault.is_some() => format!("{} ({path}, dead)", member.devid),
        _ => format!("{} (missing)", member.devid),
    }
}
