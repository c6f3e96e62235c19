//! Where the pool is mounted, or the steps that mount it.

use super::Btrfs;
use crate::observed::{Mount, ObservedBtrfs};
use crate::planner::engine::{Engine, PoolOnHost};
use crate::planner::{Refused, host_files};
use crate::step::{Condition, Step};

/// A mount point, and the steps to mount the pool there.
pub(super) struct Mounted {
    pub(super) at: String,
    pub(super) steps: Vec<Step>,
}

pub(super) fn mounted(place: &PoolOnHost<'_, ObservedBtrfs>) -> Result<Mounted, Refused> {
    let pool = place.pool;
    if let Some(mount) = pool.mounts.iter().find(|mount| !mount.has("ro")) {
        return Ok(Mounted { at: mount.at.clone(), steps: Vec::new() });
    }
    if let Some(Mount { at, .. }) = pool.mounts.first() {
        return Err(Refused::Impossible {
            what: format!("pool {} is mounted read-only at {at}", Btrfs::name(pool)),
            instead: format!("look why (`dmesg`), then `mount -o remount,rw {at}`"),
        });
    }
    let said = place.mount_at.map(str::to_owned);
    let at = said.or_else(|| host_files::fstab_place(place.host, pool.uuid));
    let at = at.ok_or_else(|| Refused::NotMounted { pool: Btrfs::name(pool) })?;
    let paths: Vec<&str> = pool.present().filter_map(|member| member.path.as_deref()).collect();
    let Some((first, others)) = paths.split_first() else {
        return Err(Refused::NotMounted { pool: Btrfs::name(pool) });
    };
    let mut options: Vec<String> = others.iter().map(|path| format!("device={path}")).collect();
    if pool.missing().next().is_some() {
        options.push("degraded".to_owned());
    }
    let steps = vec![
        host_files::mount_point(&at),
        host_files::mount_again(place.host, first, "btrfs", &options, pool.uuid, &at),
    ];
    Ok(Mounted { at, steps })
}

/// What must hold before any long operation.
pub(super) fn ready(pool: &ObservedBtrfs, at: &str) -> Vec<Condition> {
    let uuid = pool.uuid;
    vec![Condition::Mounted { uuid, at: at.to_owned() }, Condition::BtrfsIdle { uuid }]
}
