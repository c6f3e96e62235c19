//! Which block devices are visible: all, except in tests, which may see only their own on a host
//! with pools.

use crate::host_root::HostRoot;

/// Colon-separated folders; when it is set, only loop devices of files below them are seen, and
/// what is built on these. It only hides, so it can't cause anything to be overwritten.
pub const ONLY_LOOPS_BELOW: &str = "BRAID_ONLY_LOOPS_BELOW";

/// Whether some devices are hidden.
pub fn is_limited(host: &HostRoot) -> bool {
    folders(host).is_some()
}

/// Whether the whole disk, loop or array of this kernel name may be looked at.
pub fn has(host: &HostRoot, name: &str) -> bool {
    folders(host).is_none_or(|folders| is_below(host, name, &folders, DEEPEST))
}

/// Tests stack devices no deeper.
const DEEPEST: u32 = 4;

fn is_below(host: &HostRoot, name: &str, folders: &[String], depth: u32) -> bool {
    let sysfs = format!("sys/block/{name}");
    if let Some(file) = host.word(format!("{sysfs}/loop/backing_file")) {
        return folders.iter().any(|folder| file.starts_with(folder));
    }
    let below = |name: &String| is_below(host, name, folders, depth.saturating_sub(1));
    depth > 0 && host.names(format!("{sysfs}/slaves")).iter().any(below)
}

fn folders(host: &HostRoot) -> Option<Vec<String>> {
    let given = std::env::var(ONLY_LOOPS_BELOW).ok().filter(|_| host.is_real())?;
    let folder = |folder: &str| format!("{}/", folder.trim_end_matches('/'));
    Some(given.split(':').filter(|folder| !folder.is_empty()).map(folder).collect())
}
