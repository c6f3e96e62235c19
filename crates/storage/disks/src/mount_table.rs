//! Mounted filesystems and active swap.

use crate::host_root::HostRoot;
use braid_pool::fstab::decoded;
use braid_pool::observed::Mount;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One mounted filesystem, of `/proc/PID/mountinfo` (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Device number of the filesystem. A btrfs's isn't a disk's.
    pub number: (u32, u32),
    /// The mounted directory inside the filesystem.
    pub root: String,
    /// Where.
    pub at: String,
    /// Kind of the filesystem.
    pub kind: String,
    /// What was mounted: usually a device's path.
    pub source: String,
    /// Options of the mount and of the filesystem.
    pub options: Vec<String>,
    /// Where our process finds the same directory.
    pub reach: PathBuf,
}

/// All mounts that can be seen: ours, and those of process 1, which are the host's when we are in a
/// namespace.
#[derive(Clone, Debug, Default)]
pub struct MountTable(Vec<Mounted>);

/// The age of the oldest of the folders mounted there; for a filesystem's root, the age of the
/// filesystem.
pub fn age(mounts: &[&Mounted]) -> Option<Duration> {
    let born = |mounted: &&Mounted| std::fs::metadata(&mounted.reach).ok()?.created().ok();
    let oldest = mounts.iter().filter_map(born).min()?;
    // mkfs may leave it at 1970; the clock may have been wrong.
    Some(SystemTime::now().duration_since(oldest).unwrap_or_default())
}

impl MountTable {
    /// Reads it.
    pub fn read(host: &HostRoot) -> Self {
        let mut all = parse(&host.text("proc/self/mountinfo").unwrap_or_default());
        for mounted in &mut all {
            mounted.reach = host.path(&mounted.at);
        }
        let ours = host.link_name("proc/self/ns/mnt");
        if ours.is_none() || ours != host.link_name("proc/1/ns/mnt") {
            let text = host.text("proc/1/mountinfo").unwrap_or_default();
            for mut theirs in parse(&text) {
                let same = |our: &Mounted| our.number == theirs.number && our.at == theirs.at;
                if all.iter().any(same) {
                    continue;
                }
                let inside = theirs.at.trim_start_matches('/');
                theirs.reach = host.path("proc/1/root").join(inside);
                all.push(theirs);
            }
        }
        MountTable(all)
    }

    /// Where the filesystem with this device number is mounted.
    pub fn of_number(&self, number: (u32, u32)) -> impl Iterator<Item = &Mounted> {
        self.0.iter().filter(move |mounted| mounted.number == number)
    }

    /// Whether something is mounted at this path, as our process reaches it. Accessing the path
    /// itself might wait for a dead server.
    pub fn is_mount_point(&self, reach: &Path) -> bool {
        self.0.iter().any(|mounted| mounted.reach == reach)
    }

    /// All mounts of this kind of filesystem.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Mounted> {
        self.0.iter().filter(move |mounted| mounted.kind == kind)
    }
}

impl Mounted {
    /// As the model has it.
    pub fn to_model(&self) -> Mount {
        let subvolume = (self.kind == "btrfs" || self.root != "/").then(|| self.root.clone());
        Mount { at: self.at.clone(), options: self.options.clone(), subvolume }
    }
}

/// Nodes used as swap, from `/proc/swaps`.
pub fn active_swaps(host: &HostRoot) -> Vec<String> {
    let text = host.text("proc/swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(decoded).collect()
}

fn parse(text: &str) -> Vec<Mounted> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mounted> {
    // The filesystem's fields follow a lone dash; before it there may be any number of optional
    // ones.
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (major, minor) = mount.next()?.split_once(':')?;
    let (root, at, mount_options) = (mount.next()?, mount.next()?, mount.next()?);
    let mut filesystem = filesystem.split(' ');
    let (kind, source) = (filesystem.next()?, filesystem.next()?);
    let of_filesystem = filesystem.next().unwrap_or_default();
    let mut options: Vec<String> = Vec::new();
    for option in mount_options.split(',').chain(of_filesystem.split(',')) {
        let option = decoded(option);
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mounted {
        number: (major.parse().ok()?, minor.parse().ok()?),
        root: decoded(root),
        at: decoded(at),
        kind: kind.to_owned(),
        source: decoded(source),
        options,
        reach: PathBuf::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_a_space_in_its_path_is_read() {
        let text = "66 44 0:39 /@home /mnt/my\\040pool rw,relatime shared:1 master:2 - btrfs /dev/sdb \
                    rw,degraded,nodatacow,subvolid=256\nnonsense\n1 2 x:y / / rw - a b c";
        let all = parse(text);
        assert_eq!(all.len(), 1);
        let mounted = &all[0];
        assert_eq!((mounted.number, mounted.at.as_str()), ((0, 39), "/mnt/my pool"));
        assert_eq!(mounted.source, "/dev/sdb");
        let model = mounted.to_model();
        assert_eq!(model.subvolume.as_deref(), Some("/@home"));
        assert!(model.has("degraded") && model.has("nodatacow") && model.has("relatime"));
        assert_eq!(model.options.iter().filter(|option| *option == "rw").count(), 1);
    }

    #[test]
    fn process_ones_mounts_are_reached_through_it() {
        let dir = tempfile::tempdir().unwrap();
        for (process, text) in [
            ("self", "1 0 8:1 / / rw - ext4 /dev/sda1 rw"),
            ("1", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sda2 rw"),
        ] {
            let proc = dir.path().join("proc").join(process);
            std::fs::create_dir_all(&proc).unwrap();
            std::fs::write(proc.join("mountinfo"), text).unwrap();
        }
        let table = MountTable::read(&HostRoot::at(dir.path()));
        let srv = table.of_number((8, 2)).next().unwrap();
        assert!(srv.reach.ends_with("proc/1/root/srv"), "{:?}", srv.reach);
        assert_eq!(table.of_number((8, 1)).count(), 1);
    }
}
