//! From a wish or a change to ordered steps. Whatever can't be done safely is refused here, with
//! what to do instead.

mod bring_up;
mod btrfs;
mod destroy;
mod encrypt;
mod engine;
mod erase;
mod host_files;
mod md;
mod member;
mod refused;
mod system_disk;
mod upkeep;

pub use crate::pool_name::{PoolName, PoolNameError};
pub(crate) use host_files::array_line;
pub use host_files::{BootMount, boot_mount, fstab_mount, fstab_place};
pub use refused::Refused;
pub use system_disk::{CopyArg, NewPartition, NewSystemDisk, PartitionKind, system_disk};

use crate::disk::{Disk, ErasePermission};
use crate::layout::{Layout, MdFilesystem};
use crate::luks::LuksVolume;
use crate::mount_options::MountOptions;
use crate::observed::{BtrfsMember, ObservedBtrfs, ObservedHost, ObservedPool};
use crate::step::Plan;
use crate::upkeep::Upkeep;
use crate::uuid::Uuid;
use engine::Engine;

/// A pool to be made.
#[derive(Clone, Debug)]
pub struct NewPool {
    /// Its name: label of the filesystem and name of the array.
    pub name: PoolName,
    /// Its layout.
    pub layout: Layout,
    /// What an md array carries.
    pub filesystem: MdFilesystem,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Which of them may lose what they carry.
    pub erase: ErasePermission,
    /// Where it is mounted; absolute.
    pub mount_at: String,
    /// Additional mount options.
    pub options: MountOptions,
    /// UUID that the array will have; random, chosen by the caller.
    pub array: Uuid,
    /// UUID that the filesystem will have; random, chosen by the caller.
    pub filesystem_uuid: Uuid,
    /// The user asked for an unstable layout a second time.
    pub accept_unstable: bool,
}

/// A change to an existing pool.
#[derive(Clone, Debug)]
pub enum Change {
    /// Add disks, and spread the data over them.
    Add {
        /// The disks.
        disks: Vec<Disk>,
        /// Which of them may lose what they carry.
        erase: ErasePermission,
    },
    /// Take a member out.
    Remove {
        /// The member.
        member: MemberName,
    },
    /// Put a new disk in a member's place; the member may be dead.
    Replace {
        /// The member.
        member: MemberName,
        /// The new disk.
        by: Box<Disk>,
        /// Another disk that takes part temporarily, if the survivors are full.
        lent: Option<Box<Disk>>,
        /// Which of them may lose what they carry.
        erase: ErasePermission,
    },
    /// Give it another layout.
    Convert {
        /// Which.
        to: Layout,
        /// The user asked for an unstable layout a second time.
        accept_unstable: bool,
        /// Disks that are added for that.
        disks: Vec<Disk>,
        /// Which of them may lose what they carry.
        erase: ErasePermission,
    },
    /// Free the space of half-empty chunks, and spread data evenly.
    Rebalance,
}

impl Change {
    /// The disks that the pool gains.
    pub fn new_disks(&mut self) -> Vec<&mut Disk> {
        match self {
            Change::Add { disks, .. } | Change::Convert { disks, .. } => disks.iter_mut().collect(),
            Change::Replace { by, lent, .. } => {
                std::iter::once(by).chain(lent).map(AsMut::as_mut).collect()
            }
            Change::Remove { .. } | Change::Rebalance => Vec::new(),
        }
    }
}

/// The opened LUKS volumes that are a pool's members.
pub fn volumes_below<'a>(
    pool: &ObservedPool,
    host: &'a ObservedHost,
) -> impl Iterator<Item = &'a LuksVolume> {
    encrypt::volumes_of(pool, host)
}

/// How the user names a member: its path, its disk's id, its number (btrfs: devid, md: slot), or
/// `missing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberName(pub String);

/// Plans a new pool.
///
/// # Errors
/// Too few or too small disks, two that are the same, one that may not be taken, a layout that
/// loses data and wasn't accepted, or a mount point that is taken or can't be one.
pub fn create(new: &NewPool, host: &ObservedHost) -> Result<Plan, Refused> {
    check_new(new, host)?;
    match new.layout {
        Layout::Btrfs(_) => btrfs::Btrfs::create(new, host),
        Layout::Md(_) => md::Md::create(new, host),
    }
}

/// Plans a change of `pool`. `mount_at` is where to mount it if it isn't mounted and fstab doesn't
/// say.
///
/// # Errors
/// Why it can't be done to the pool as it is, or would risk what is on it: [`Refused`] lists the
/// reasons and says what to do.
pub fn change(
    pool: &ObservedPool,
    change: &Change,
    mount_at: Option<&str>,
    host: &ObservedHost,
) -> Result<Plan, Refused> {
    encrypt::check_as_the_others(pool, change, host)?;
    let mut plan = match pool {
        ObservedPool::Btrfs(pool) => engine::change::<btrfs::Btrfs>(pool, change, mount_at, host),
        ObservedPool::Md(pool) => engine::change::<md::Md>(pool, change, mount_at, host),
    }?;
    encrypt::release(pool, change, host, &mut plan);
    Ok(Plan { pool: journal_name(pool), ..plan })
}

/// Checks that a pool has the member that the user names, before new disks are judged, which may be
/// right for the member that was meant.
///
/// # Errors
/// [`Refused::NoSuchMember`], with the existing ones.
pub fn check_member(pool: &ObservedPool, member: &MemberName) -> Result<(), Refused> {
    use engine::Engine;
    match pool {
        ObservedPool::Btrfs(pool) => btrfs::Btrfs::check_member(pool, member),
        ObservedPool::Md(pool) => md::Md::check_member(pool, member),
    }
}

/// A journal's name is used as a file name and in commands; a label from somebody else may be unfit
/// for both.
pub fn journal_name(pool: &ObservedPool) -> String {
    pool.name().parse::<PoolName>().map_or(pool.uuid().to_string(), |name| name.to_string())
}

/// How large a disk, in bytes, has to be lent to the pool before this missing member is replaced;
/// `None` if none is needed.
pub(crate) fn to_be_lent(pool: &ObservedBtrfs, old: &BtrfsMember) -> Option<u64> {
    btrfs::to_be_lent(pool, old)
}

/// Plans giving up `pool`: it is unmounted, nothing starts or mounts it any more, and its disks
/// that are here end up empty. Anything else on those disks stays.
///
/// # Errors
/// When the system is on it, or it carries something that Braid doesn't know.
pub fn destroy(pool: &ObservedPool, host: &ObservedHost) -> Result<Plan, Refused> {
    destroy::plan(pool, host)
}

/// Plans mounting `pool` at `at`, now and after every boot.
///
/// # Errors
/// When no member is there or the array isn't assembled, it carries no known filesystem, fstab
/// mounts it elsewhere, or `at` is taken or can't be a mount point.
pub fn bring_up(pool: &ObservedPool, at: &str, host: &ObservedHost) -> Result<Plan, Refused> {
    bring_up::plan(pool, at, host)
}

/// Plans systemd units for what `wanted` says for `pool`, which is mounted at `at`, and removes
/// those of earlier configs. What was set by hand and isn't in the config stays.
///
/// `config` is the file that says so.
///
/// # Errors
/// [`Refused::Impossible`] when something is wanted and systemd doesn't run here.
pub fn upkeep(
    pool: &ObservedPool,
    wanted: &Upkeep,
    at: &str,
    config: &str,
    host: &ObservedHost,
) -> Result<Plan, Refused> {
    upkeep::plan(pool, wanted, at, config, host)
}

/// Plans, one for each pool, removing the systemd units of pools that `config` once named but no
/// longer does. `named` are the pools that it names, with the UUIDs of those present.
pub fn forgotten_upkeep(
    config: &str,
    named: &[(&PoolName, Option<Uuid>)],
    host: &ObservedHost,
) -> Vec<Plan> {
    upkeep::forgotten(config, named, host)
}

fn check_new(new: &NewPool, host: &ObservedHost) -> Result<(), Refused> {
    let (wanted, given) = (new.layout.min_disks(), new.disks.len());
    if given < wanted {
        return Err(Refused::TooFewDisks { layout: new.layout, wanted, given });
    }
    if new.layout.is_unstable() && !new.accept_unstable {
        return Err(Refused::Unstable { layout: new.layout });
    }
    refused::absolute(&new.mount_at)?;
    host_files::check_mount_point_free(host, &new.mount_at)?;
    // A disk that can't be used at all is reported as such, not as "too small".
    member::stake(&new.disks, &new.erase)?;
    let size = |disk: &Disk| {
        let encrypt = disk.encrypt.as_ref();
        encrypt.map_or(disk.size_bytes, |encrypt| encrypt.size_bytes(disk.size_bytes))
    };
    let sizes: Vec<u64> = new.disks.iter().map(size).collect();
    match crate::capacity::capacity(new.layout, new.filesystem, &sizes) {
        Some(room) if room.fill_bytes > 0 => Ok(()),
        _ => Err(Refused::TooSmall { layout: new.layout }),
    }
}

#[cfg(test)]
mod tests;
