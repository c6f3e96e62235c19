//! Finds control groups.

use braid_control::config::Cgroup;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where nft searches for them.
const MOUNTED: &str = "/sys/fs/cgroup";
/// Their subfolder on hosts that also have version 1.
const BESIDE: &str = "unified";
/// Only the tree of version 2 has this file in its root.
const OF_VERSION_2: &str = "cgroup.procs";

/// A control group for the firewall, if it exists.
pub fn find(cgroup: &Cgroup) -> Option<braid_rules::Cgroup> {
    let root = Path::new(MOUNTED);
    let path = match root.join(BESIDE).join(OF_VERSION_2).exists() {
        true => format!("{BESIDE}/{}", cgroup.as_str()),
        false => cgroup.as_str().to_owned(),
    };
    let found = fs::metadata(root.join(&path)).ok().filter(fs::Metadata::is_dir)?;
    let level = cgroup.as_str().split('/').count();
    Some(braid_rules::Cgroup { path, level, id: found.ino() })
}
