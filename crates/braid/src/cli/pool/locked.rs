//! Encrypted pools that are locked.

use crate::cli::failure::Failure;
use braid_pool::luks::LuksVolume;
use braid_pool::observed::ObservedHost;
use std::collections::BTreeMap;

/// The pools whose encrypted disks are all closed.
pub fn locked(host: &ObservedHost) -> BTreeMap<&str, Vec<&LuksVolume>> {
    let mut found: BTreeMap<&str, Vec<&LuksVolume>> = BTreeMap::new();
    for volume in &host.luks {
        let Some(pool) = volume.pool.as_deref() else { continue };
        found.entry(pool).or_default().push(volume);
    }
    found.retain(|_, volumes| volumes.iter().all(|volume| volume.open.is_none()));
    found
}

/// The error that a pool must be opened first.
pub fn is_locked(pool: &str) -> Failure {
    Failure::failed(format!("pool {pool} is locked: run `braid pool open {pool}` first"))
}
