//! What an engine has to provide. Engines make drafts: steps and what belongs to them; the rest is
//! the same for all.

use super::member::{self, NewMember};
use super::{Change, MemberName, NewPool, Refused};
use crate::disk::{Claim, Disk};
use crate::layout::Layout;
use crate::observed::ObservedHost;
use crate::step::{Condition, Plan, Step};

/// btrfs or md. `Pool` is what was observed of one of its pools.
pub(super) trait Engine {
    type Pool;

    /// A pool's name, for titles.
    fn name(pool: &Self::Pool) -> String;
    fn create(new: &NewPool, host: &ObservedHost) -> Result<Plan, Refused>;
    /// Whether a change can name this member.
    fn check_member(pool: &Self::Pool, member: &MemberName) -> Result<(), Refused>;
    fn add(at: &PoolOnHost<'_, Self::Pool>, disks: Vec<NewMember>) -> Result<Draft, Refused>;
    fn remove(at: &PoolOnHost<'_, Self::Pool>, member: &MemberName) -> Result<Draft, Refused>;
    fn replace(
        at: &PoolOnHost<'_, Self::Pool>,
        member: &MemberName,
        by: NewMember,
        lent: Option<NewMember>,
    ) -> Result<Draft, Refused>;
    fn convert(
        at: &PoolOnHost<'_, Self::Pool>,
        to: Layout,
        accept_unstable: bool,
        disks: Vec<NewMember>,
    ) -> Result<Draft, Refused>;
    fn rebalance(at: &PoolOnHost<'_, Self::Pool>) -> Result<Draft, Refused>;
}

/// A pool, where it should be mounted if it isn't, and its host.
pub(super) struct PoolOnHost<'a, P> {
    pub(super) pool: &'a P,
    pub(super) mount_at: Option<&'a str>,
    pub(super) host: &'a ObservedHost,
}

/// Steps and warnings of a change.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) title: String,
    pub(super) warnings: Vec<String>,
    pub(super) claims: Vec<Claim>,
    pub(super) steps: Vec<Step>,
    pub(super) after: Vec<Condition>,
}

pub(super) fn change<E: Engine>(
    pool: &E::Pool,
    change: &Change,
    mount_at: Option<&str>,
    host: &ObservedHost,
) -> Result<Plan, Refused> {
    if let Some(path) = mount_at {
        super::refused::absolute(path)?;
        super::host_files::check_not_systems(path)?;
    }
    let at = PoolOnHost { pool, mount_at, host };
    let draft = match change {
        Change::Add { disks, erase } => E::add(&at, member::stake(disks, erase)?)?,
        Change::Remove { member } => E::remove(&at, member)?,
        Change::Replace { member, by, lent, erase } => {
            let both: Vec<Disk> = [Some(by), lent.as_ref()]
                .into_iter()
                .flatten()
                .map(|disk| (**disk).clone())
                .collect();
            member::check_distinct(&both)?;
            let lent = lent.as_ref().map(|lent| member::stake_one(lent, erase));
            let new = member::stake_one(by, erase)?;
            E::replace(&at, member, new, lent.transpose()?)?
        }
        Change::Convert { to, accept_unstable, disks, erase } => {
            let disks = member::stake(disks, erase)?;
            E::convert(&at, *to, *accept_unstable, disks)?
        }
        Change::Rebalance => E::rebalance(&at)?,
    };
    let Draft { title, warnings, claims, steps, after } = draft;
    Ok(Plan { title, pool: E::name(pool), claims, warnings, steps, after, dispensable: vec![] })
}
