//! Whether an encrypted disk is a member of the pool that its label names. A disk whose keys
//! couldn't be erased when it left still has the label, and so does one of another pool with that
//! name: if opened, it would return to the pool with its old data.

use crate::luks::{self, LuksVolume};
use crate::observed::{ExclusiveOperation, MdMemberState, ObservedHost, ObservedPool};
use crate::planner::volumes_below;
use crate::uuid::Uuid;
use std::collections::BTreeSet;

/// A volume's relation to the pool that its label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A member, or about to become one.
    Member,
    /// It was a member: the pool is complete without it.
    Former,
    /// A member of another pool of the same name.
    OfAnother,
    /// Unknown until the pool is seen complete: this host remembers other disks of the pool, but
    /// not this one.
    Unknown,
}

/// What is known about one pool's members.
pub struct Membership<'a> {
    pool: Option<&'a ObservedPool>,
    host: &'a ObservedHost,
    recorded: &'a BTreeSet<Uuid>,
    of: Option<Uuid>,
    knows_any: bool,
}

impl<'a> Membership<'a> {
    /// Of the pool of this name; `recorded` are the volumes that this host remembers: by a line of
    /// crypttab, a backup of the header, or a plan that makes them.
    pub fn new(
        name: &str,
        pools: &'a [ObservedPool],
        host: &'a ObservedHost,
        recorded: &'a BTreeSet<Uuid>,
    ) -> Self {
        let is_its = |volume: &&LuksVolume| volume.pool.as_deref() == Some(name);
        let is_recorded = |volume: &&LuksVolume| recorded.contains(&volume.uuid);
        let below = |pool: &ObservedPool, recorded_only: bool| {
            let mut below = volumes_below(pool, host).filter(is_its);
            below.any(|volume| !recorded_only || is_recorded(&volume))
        };
        // If two are open, the one that this host remembers.
        let pool = pools.iter().find(|pool| below(pool, true));
        let pool = pool.or_else(|| pools.iter().find(|pool| below(pool, false)));
        let known = || host.luks.iter().filter(is_its).filter(is_recorded);
        let of_members = pool.and_then(|pool| {
            volumes_below(pool, host).filter(is_its).find_map(|volume| volume.pool_uuid)
        });
        let of = of_members.or_else(|| known().find_map(|volume| volume.pool_uuid));
        Membership { pool, host, recorded, of, knows_any: known().next().is_some() }
    }

    /// The pool, if any of its disks is open.
    pub fn pool(&self) -> Option<&'a ObservedPool> {
        self.pool
    }

    /// This volume's relation to the pool.
    pub fn of(&self, volume: &LuksVolume) -> Standing {
        let is_recorded = self.recorded.contains(&volume.uuid);
        let is_below = |pool| volumes_below(pool, self.host).any(|each| each.uuid == volume.uuid);
        if self.pool.is_some_and(is_below) {
            return Standing::Member;
        }
        if self.is_of_another(volume) {
            return Standing::OfAnother;
        }
        match (is_recorded, self.pool) {
            (true, _) => Standing::Member,
            (false, Some(pool)) if is_complete(pool) && self.is_remembered(pool) => {
                Standing::Former
            }
            (false, Some(_)) => Standing::Unknown,
            (false, None) if self.knows_any => Standing::Unknown,
            // All of them came from another host.
            (false, None) => Standing::Member,
        }
    }

    fn is_of_another(&self, volume: &LuksVolume) -> bool {
        volume.pool_uuid.zip(self.of).is_some_and(|(its, of)| its != of)
    }

    /// The pool that claims to be complete may itself be the disk that left, opened by hand.
    fn is_remembered(&self, pool: &ObservedPool) -> bool {
        volumes_below(pool, self.host).all(|volume| self.recorded.contains(&volume.uuid))
    }
}

/// The volumes of a host that a line of crypttab opens.
pub fn in_crypttab(host: &ObservedHost) -> BTreeSet<Uuid> {
    luks::crypttab(&host.crypttab).filter_map(|line| line.volume).collect()
}

/// Whether no member is missing, and none is being added: then another disk can't be a member.
pub fn is_complete(pool: &ObservedPool) -> bool {
    match pool {
        ObservedPool::Btrfs(btrfs) => btrfs.missing().next().is_none() && !is_taking_one(pool),
        ObservedPool::Md(md) => {
            let is_there =
                |state| matches!(state, MdMemberState::InSync | MdMemberState::Recovering);
            let there = md.members.iter().filter(|member| is_there(member.state)).count();
            md.wants_disks > 0 && there >= md.wants_disks
        }
    }
}

/// Whether a disk is being added to a btrfs, which doesn't list it yet.
pub fn is_taking_one(pool: &ObservedPool) -> bool {
    use ExclusiveOperation as Operation;
    match pool {
        ObservedPool::Btrfs(btrfs) => matches!(
            btrfs.exclusive_operation,
            Operation::DeviceAdd | Operation::DeviceReplace | Operation::Other(_)
        ),
        ObservedPool::Md(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{GB, btrfs, md};
    use crate::layout::{MdLayout, Profile};
    use crate::luks::{Header, Mapping};

    const POOL: Uuid = Uuid::from_bytes([2; 16]);

    fn uuid(letter: char) -> Uuid {
        Uuid::from_bytes([letter as u8; 16])
    }

    fn volume(letter: char, is_open: bool) -> LuksVolume {
        let path = format!("/dev/sd{letter}");
        let disk = crate::fixture::disk(letter, 500 * GB).id();
        let open = Mapping {
            name: luks::mapping_name("data", uuid(letter)),
            node: format!("/dev/dm-{letter}"),
            volume: uuid(letter),
            over: path.clone(),
            disk: disk.clone(),
            whole_disk: path.clone(),
        };
        LuksVolume {
            uuid: uuid(letter),
            path,
            disk,
            pool: Some("data".into()),
            pool_uuid: Some(POOL),
            open: is_open.then_some(open),
            header: Header::Whole,
            slots: Vec::new(),
            discards: false,
        }
    }

    fn host(open: &str, locked: &str) -> ObservedHost {
        let open = open.chars().map(|letter| volume(letter, true));
        let locked = locked.chars().map(|letter| volume(letter, false));
        ObservedHost { luks: open.chain(locked).collect(), ..ObservedHost::default() }
    }

    /// Both kinds of pools, of these mappings.
    fn pools(letters: &str) -> [ObservedPool; 2] {
        let mut raid1 = btrfs(Profile::Raid1, Profile::Raid1, letters, 500 * GB, 50 * GB);
        let mut array = md(MdLayout::Raid1, letters, 500 * GB);
        for (index, letter) in letters.chars().enumerate() {
            let path = Some(format!("/dev/dm-{letter}"));
            raid1.members[index].path = path.clone();
            array.members[index].path = path;
        }
        [ObservedPool::Btrfs(raid1), ObservedPool::Md(array)]
    }

    fn standing(host: &ObservedHost, pools: &[ObservedPool], recorded: &str, of: char) -> Standing {
        let recorded = recorded.chars().map(uuid).collect();
        let membership = Membership::new("data", pools, host, &recorded);
        let volume = host.luks.iter().find(|volume| volume.uuid == uuid(of)).unwrap();
        membership.of(volume)
    }

    #[test]
    fn a_disk_without_which_the_pool_is_complete_has_left_it() {
        let host = host("bc", "d");
        for pool in pools("bc") {
            let pools = [pool];
            assert_eq!(standing(&host, &pools, "bc", 'd'), Standing::Former);
            assert_eq!(standing(&host, &pools, "bc", 'b'), Standing::Member);
            // About to be added, or a spare of an array.
            assert_eq!(standing(&host, &pools, "bcd", 'd'), Standing::Member);
        }
    }

    #[test]
    fn while_a_member_is_missing_nobody_knows() {
        let host = host("bc", "d");
        let [ObservedPool::Btrfs(mut raid1), ObservedPool::Md(mut array)] = pools("bc") else {
            unreachable!()
        };
        raid1.members[1].missing = true;
        array.members[1].state = MdMemberState::Missing;
        let mut replacing = raid1.clone();
        replacing.members[1].missing = false;
        replacing.exclusive_operation = ExclusiveOperation::DeviceReplace;
        let btrfs = [raid1, replacing].map(ObservedPool::Btrfs);
        for pool in btrfs.into_iter().chain([ObservedPool::Md(array)]) {
            assert_eq!(standing(&host, &[pool], "bc", 'd'), Standing::Unknown);
        }
    }

    #[test]
    fn of_a_locked_pool_those_that_the_host_remembers_are_members() {
        let host = host("", "bcd");
        assert_eq!(standing(&host, &[], "bc", 'b'), Standing::Member);
        assert_eq!(standing(&host, &[], "bc", 'd'), Standing::Unknown);
        // It came from another host.
        assert_eq!(standing(&host, &[], "", 'd'), Standing::Member);
    }

    /// The one that left is opened by hand on a host that knows nothing: of itself it says that it
    /// is all of the pool.
    #[test]
    fn a_pool_that_the_host_does_not_remember_makes_no_disk_a_former_one() {
        let host = host("d", "bc");
        assert_eq!(standing(&host, &pools("d"), "", 'b'), Standing::Unknown);
    }

    #[test]
    fn a_disk_of_another_pool_of_that_name_is_told_from_one_that_left() {
        for open in ["bc", ""] {
            let mut host = host(open, "d");
            if open.is_empty() {
                host.luks.extend("bc".chars().map(|letter| volume(letter, false)));
            }
            let of_d = host.luks.iter_mut().find(|volume| volume.uuid == uuid('d')).unwrap();
            of_d.pool_uuid = Some(Uuid::from_bytes([9; 16]));
            let pools = if open.is_empty() { vec![] } else { pools("bc")[..1].to_vec() };
            assert_eq!(standing(&host, &pools, "bc", 'd'), Standing::OfAnother);
            assert_eq!(standing(&host, &pools, "bc", 'b'), Standing::Member);
        }
    }
}
