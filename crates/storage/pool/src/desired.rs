//! What a pool should be according to the config, and the next step toward that.

use crate::disk::{Disk, DiskId, ErasePermission};
use crate::layout::{Layout, MdFilesystem};
use crate::mount_options::MountOptions;
use crate::observed::{MdMemberState, ObservedHost, ObservedPool, Purpose};
use crate::planner::{self, Change, MemberName, NewPool, PoolName, Refused};
use crate::step::Plan;
use crate::upkeep::Upkeep;
use crate::uuid::Uuid;

/// `[[pool]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredPool {
    /// Its name.
    pub name: PoolName,
    /// Its layout.
    pub layout: Layout,
    /// What an md array carries.
    pub filesystem: MdFilesystem,
    /// Its disks, as the user names them: path, by-id link, serial number.
    pub disks: Vec<String>,
    /// Where it is mounted.
    pub mount_at: String,
    /// Additional mount options for a new pool.
    pub options: MountOptions,
    /// An unstable layout is accepted.
    pub accept_unstable: bool,
    /// Its disks are encrypted, and opened at boot by a key file.
    pub encrypt: bool,
    /// Its regular upkeep.
    pub upkeep: Upkeep,
}

/// A disk that the config names, if it is there.
pub type Named<'a> = (&'a str, Option<&'a Disk>);

/// The host as the diff needs it.
pub struct Reality<'a> {
    /// All pools.
    pub pools: &'a [ObservedPool],
    /// The desired pool's disks, in the config's order.
    pub disks: &'a [Named<'a>],
    /// The host around.
    pub host: &'a ObservedHost,
    /// Which disks may lose what they carry.
    pub erase: &'a ErasePermission,
    /// For a new array and a new filesystem.
    pub new_uuids: (Uuid, Uuid),
    /// The absolute path of the file that says what is desired.
    pub config: &'a str,
}

/// The next plan on the way from `reality` to `desired`; `None` when there is nothing to do. After
/// executing it, observe and ask again: each step is decided from the state at that time.
///
/// # Errors
/// [`Refused::Impossible`] when several pools have the name, a disk to be added isn't there, a
/// lost member has no successor in the config, or the pool is of the other engine; else what the
/// planner refuses.
pub fn next(desired: &DesiredPool, reality: &Reality<'_>) -> Result<Option<Plan>, Refused> {
    let name = desired.name.as_str();
    let mut pools = reality.pools.iter().filter(|pool| pool.name() == name);
    let plan = match (pools.next(), pools.next()) {
        (None, _) => create(desired, reality)?,
        (Some(pool), None) => match change(desired, pool, reality)? {
            Some(change) => planner::change(pool, &change, Some(&desired.mount_at), reality.host)?,
            None => match planner::bring_up(pool, &desired.mount_at, reality.host)? {
                plan if plan.is_empty() => {
                    let (upkeep, at) = (&desired.upkeep, &desired.mount_at);
                    planner::upkeep(pool, upkeep, at, reality.config, reality.host)?
                }
                plan => plan,
            },
        },
        (Some(_), Some(_)) => {
            return Err(Refused::Impossible {
                what: format!("several pools are called {name}"),
                instead: "rename one: `btrfs filesystem label`, `mdadm --update=name`".to_owned(),
            });
        }
    };
    Ok(Some(plan).filter(|plan| !plan.is_empty()))
}

fn create(desired: &DesiredPool, reality: &Reality<'_>) -> Result<Plan, Refused> {
    let disks =
        reality.disks.iter().map(|named| present(desired, named)).collect::<Result<_, _>>()?;
    let (array, filesystem_uuid) = reality.new_uuids;
    let new = NewPool {
        name: desired.name.clone(),
        layout: desired.layout,
        filesystem: desired.filesystem,
        disks,
        erase: reality.erase.clone(),
        mount_at: desired.mount_at.clone(),
        options: desired.options.clone(),
        array,
        filesystem_uuid,
        accept_unstable: desired.accept_unstable,
    };
    planner::create(&new, reality.host)
}

/// The first difference, safest first: dead members are replaced, then the pool grows, then its
/// layout changes, and surplus disks leave last.
fn change(
    desired: &DesiredPool,
    pool: &ObservedPool,
    reality: &Reality<'_>,
) -> Result<Option<Change>, Refused> {
    check_engine(desired, pool)?;
    check_encryption(desired, pool, reality.host)?;
    let members = members(pool);
    let is_member = |disk: &Disk| {
        members.iter().any(|member| member.alive && member.disk.as_ref() == Some(&disk.id()))
    };
    let wanted: Vec<DiskId> =
        reality.disks.iter().filter_map(|(_, disk)| Some((*disk)?.id())).collect();
    let mut fresh: Vec<Disk> = Vec::new();
    for named in reality.disks {
        match named {
            (_, Some(disk)) if is_member(disk) => {}
            // A disk that is gone, but still in the config, is the missing member.
            (_, None) if members.iter().any(|member| !member.alive) => {}
            _ => fresh.push(present(desired, named)?),
        }
    }
    let erase = reality.erase.clone();
    if let Some(dead) = members.iter().find(|member| !member.alive) {
        let Some(by) = fresh.into_iter().next() else {
            return Err(Refused::Impossible {
                what: format!(
                    "pool {} lacks member {}, and the config names no other disk",
                    desired.name, dead.name
                ),
                instead: "put a new disk's name in its place in the config".to_owned(),
            });
        };
        return Ok(Some(Change::Replace {
            member: MemberName(dead.name.clone()),
            by: Box::new(by),
            lent: None,
            erase,
        }));
    }
    let surplus = members
        .iter()
        .find(|member| !member.disk.as_ref().is_some_and(|disk| wanted.contains(disk)));
    match (fresh.is_empty(), surplus) {
        (false, Some(old)) => {
            let by = Box::new(fresh.swap_remove(0));
            let member = MemberName(old.name.clone());
            return Ok(Some(Change::Replace { member, by, lent: None, erase }));
        }
        // The layout that md gets depends on the disks added.
        (false, None) if has_layout(desired.layout, pool) || is_btrfs(pool) => {
            return Ok(Some(Change::Add { disks: fresh, erase }));
        }
        _ => {}
    }
    if !has_layout(desired.layout, pool) {
        let accept_unstable = desired.accept_unstable;
        let to = desired.layout;
        return Ok(Some(Change::Convert { to, accept_unstable, disks: fresh, erase }));
    }
    Ok(surplus.map(|member| Change::Remove { member: MemberName(member.name.clone()) }))
}

fn is_btrfs(pool: &ObservedPool) -> bool {
    matches!(pool, ObservedPool::Btrfs(_))
}

fn present(desired: &DesiredPool, (name, disk): &Named<'_>) -> Result<Disk, Refused> {
    disk.cloned().ok_or_else(|| Refused::Impossible {
        what: format!("pool {}: disk {name} is not there", desired.name),
        instead: "`braid pool disks` lists those that are".to_owned(),
    })
}

fn check_engine(desired: &DesiredPool, pool: &ObservedPool) -> Result<(), Refused> {
    let same = matches!(
        (desired.layout, pool),
        (Layout::Btrfs(_), ObservedPool::Btrfs(_)) | (Layout::Md(_), ObservedPool::Md(_))
    );
    if same {
        return Ok(());
    }
    Err(Refused::Impossible {
        what: format!("pool {} can't become {} in place", desired.name, desired.layout),
        instead: "give the new pool another name, and copy".to_owned(),
    })
}

/// A change of the config doesn't encrypt stored data.
fn check_encryption(
    desired: &DesiredPool,
    pool: &ObservedPool,
    host: &ObservedHost,
) -> Result<(), Refused> {
    if !desired.encrypt || planner::volumes_below(pool, host).next().is_some() {
        return Ok(());
    }
    let name = &desired.name;
    Err(Refused::Impossible {
        what: format!("the config wants pool {name} encrypted, and none of its disks is"),
        instead: format!(
            "replace one disk after the other, `braid pool replace {name} OLD NEW --encrypt`, or leave out `encrypt`"
        ),
    })
}

struct Member {
    /// The name by which a change refers to it.
    name: String,
    disk: Option<DiskId>,
    alive: bool,
}

fn members(pool: &ObservedPool) -> Vec<Member> {
    match pool {
        ObservedPool::Btrfs(pool) => pool
            .members
            .iter()
            .map(|member| Member {
                name: member.devid.to_string(),
                disk: member.disk.clone(),
                alive: !member.missing,
            })
            .collect(),
        ObservedPool::Md(pool) => {
            let mut members: Vec<Member> = pool
                .members
                .iter()
                .filter(|member| member.state != MdMemberState::Missing)
                .map(|member| Member {
                    name: member.path.clone().unwrap_or_else(|| "missing".to_owned()),
                    disk: member.disk.clone(),
                    alive: member.state != MdMemberState::Faulty,
                })
                .collect();
            let listed = members.len();
            let absent = pool.wants_disks.saturating_sub(listed);
            members.extend((0..absent).map(|_| Member {
                name: "missing".to_owned(),
                disk: None,
                alive: false,
            }));
            members
        }
    }
}

fn has_layout(layout: Layout, pool: &ObservedPool) -> bool {
    match (layout, pool) {
        (Layout::Btrfs(profile), ObservedPool::Btrfs(pool)) => {
            let found = pool.profiles(Purpose::Data);
            // It isn't known while unmounted; nothing is converted on a guess.
            found.is_empty() || found == [profile]
        }
        (Layout::Md(md), ObservedPool::Md(pool)) => pool.layout == Some(md),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{GB, btrfs, disk, md};
    use crate::layout::{MdLayout, Profile};

    fn desired(layout: &str, letters: &str) -> DesiredPool {
        DesiredPool {
            name: "data".parse().unwrap(),
            layout: layout.parse().unwrap(),
            filesystem: MdFilesystem::Ext4,
            disks: letters.chars().map(|letter| format!("S{letter}")).collect(),
            mount_at: "/srv/data".into(),
            options: MountOptions::default(),
            accept_unstable: false,
            encrypt: false,
            upkeep: Upkeep::default(),
        }
    }

    /// The next step when those of the config's disks that are in `there` can be found.
    fn ask(
        desired: &DesiredPool,
        pools: &[ObservedPool],
        there: &str,
        fstab: &str,
    ) -> Result<Option<Plan>, String> {
        let found: Vec<Disk> = there.chars().map(|letter| disk(letter, 500 * GB)).collect();
        let disks: Vec<Named<'_>> = desired
            .disks
            .iter()
            .map(|name| (name.as_str(), found.iter().find(|disk| disk.id().as_str() == name)))
            .collect();
        let host = ObservedHost { fstab: fstab.into(), ..ObservedHost::default() };
        let reality = Reality {
            pools,
            disks: &disks,
            host: &host,
            erase: &ErasePermission::default(),
            new_uuids: (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16])),
            config: "/etc/braid/braid.toml",
        };
        next(desired, &reality).map_err(|refused| refused.to_string())
    }

    const FSTAB: &str = "UUID=02020202-0202-0202-0202-020202020202 /srv/data btrfs noatime 0 0";

    fn title(answer: Result<Option<Plan>, String>) -> String {
        answer.unwrap().unwrap().title
    }

    fn raid1(letters: &str) -> ObservedPool {
        ObservedPool::Btrfs(btrfs(Profile::Raid1, Profile::Raid1, letters, 500 * GB, 50 * GB))
    }

    #[test]
    fn what_is_so_is_left_alone() {
        assert_eq!(ask(&desired("btrfs-raid1", "bc"), &[raid1("bc")], "bc", FSTAB), Ok(None));
    }

    #[test]
    fn what_differs_is_changed_one_after_the_other() {
        let want = desired("btrfs-raid1", "bcd");
        assert_eq!(
            title(ask(&want, &[], "bcd", "")),
            "create pool data: btrfs-raid1 of 3 disks, metadata raid1, at /srv/data"
        );
        assert_eq!(title(ask(&want, &[raid1("bc")], "bcd", FSTAB)), "add /dev/sdd to pool data");
        assert_eq!(
            title(ask(&want, &[raid1("bce")], "bcd", FSTAB)),
            "replace 3 (/dev/sde) in pool data by /dev/sdd"
        );
        assert_eq!(
            title(ask(&want, &[raid1("bcde")], "bcd", FSTAB)),
            "remove 4 (/dev/sde) from pool data"
        );
        let other = desired("btrfs-raid1c3", "bcd");
        assert_eq!(
            title(ask(&other, &[raid1("bcd")], "bcd", FSTAB)),
            "convert pool data to btrfs-raid1c3, metadata raid1c3"
        );
        assert_eq!(
            title(ask(&want, &[raid1("bcd")], "bcd", "")),
            "mount pool data at /srv/data, now and at boot"
        );
    }

    #[test]
    fn a_dead_member_is_replaced_by_the_disk_that_the_config_names_instead() {
        let mut pool = btrfs(Profile::Raid1, Profile::Raid1, "bc", 500 * GB, 50 * GB);
        pool.members[1].missing = true;
        pool.members[1].path = None;
        pool.members[1].disk = None;
        let pools = [ObservedPool::Btrfs(pool)];
        let replaced = ask(&desired("btrfs-raid1", "bd"), &pools, "bd", FSTAB);
        assert_eq!(title(replaced), "replace 2 (missing) in pool data by /dev/sdd");
        let why = ask(&desired("btrfs-raid1", "bc"), &pools, "b", FSTAB).unwrap_err();
        assert!(why.contains("put a new disk's name"), "{why}");
    }

    #[test]
    fn what_cannot_be_says_why() {
        let why = ask(&desired("md-raid1", "bc"), &[raid1("bc")], "bc", FSTAB).unwrap_err();
        assert!(why.contains("can't become md-raid1 in place"), "{why}");
        let why = ask(&desired("btrfs-raid1", "bc"), &[], "b", "").unwrap_err();
        assert!(why.contains("Sc is not there"), "{why}");
        let elsewhere = FSTAB.replace("/srv/data", "/mnt");
        let why = ask(&desired("btrfs-raid1", "bc"), &[raid1("bc")], "bc", &elsewhere).unwrap_err();
        assert!(why.contains("at /mnt, not at /srv/data"), "{why}");
        let why = ask(&desired("btrfs-raid1", "bc"), &[raid1("bc"), raid1("de")], "bc", FSTAB);
        assert!(why.unwrap_err().contains("several pools"));
    }

    #[test]
    fn a_pool_that_is_not_encrypted_does_not_become_so_by_itself() {
        let want = DesiredPool { encrypt: true, ..desired("btrfs-raid1", "bc") };
        let why = ask(&want, &[raid1("bc")], "bc", FSTAB).unwrap_err();
        assert!(why.contains("OLD NEW --encrypt"), "{why}");
    }

    #[test]
    fn an_array_gets_its_line_in_mdadm_conf() {
        let array = ObservedPool::Md(md(MdLayout::Raid1, "bc", 500 * GB));
        let plan = ask(&desired("md-raid1", "bc"), &[array], "bc", FSTAB).unwrap().unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert!(plan.steps[0].action.to_string().contains("ARRAY /dev/md/data"), "{plan}");
    }
}
