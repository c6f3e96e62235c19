//! What these tests do on a host that has pools of its own, or runs them twice at the same time.

use crate::host::{Host, mib};
use braid_loop_disks::{LoopDisk, in_private_mounts, run};
use std::path::Path;

/// Of somebody else: its files don't lie where the test's do.
struct Foreign {
    disks: [LoopDisk; 2],
    folder: tempfile::TempDir,
}

impl Foreign {
    fn pool_called_data() -> Foreign {
        let folder = tempfile::tempdir_in(outside()).unwrap();
        let disks = ["x", "y"].map(|name| LoopDisk::new(folder.path(), name, mib(400)).unwrap());
        let [first, second] = disks.each_ref().map(LoopDisk::path);
        run("mkfs.btrfs", &["-q", "-L", "data", "-d", "raid1", "-m", "raid1", first, second]);
        Foreign { disks, folder }
    }
}

/// A folder that isn't the test's.
fn outside() -> &'static Path {
    ["/dev/shm", "/tmp"].map(Path::new).into_iter().find(|path| path.is_dir()).unwrap()
}

#[test]
fn foreign_pools_of_the_same_name_are_not_met() {
    in_private_mounts("beside_others::foreign_pools_of_the_same_name_are_not_met", || {
        let foreign = Foreign::pool_called_data();
        let host = Host::new();
        let (a, b, c) = (host.disk("a"), host.disk("b"), host.disk("c"));
        host.create("btrfs-raid1", &[&a, &b]);
        let at = host.path("theirs");
        std::fs::create_dir(&at).unwrap();
        for mounted in [false, true] {
            if mounted {
                let [first, second] = foreign.disks.each_ref().map(LoopDisk::path);
                let device = format!("device={second}");
                run("mount", &["-o", &device, first, at.to_str().unwrap()]);
            }
            assert_eq!(host.findings(), [] as [serde_json::Value; 0]);
            let listed = host.works(&["disks", "--no-smart"]);
            assert!(!listed.contains(foreign.folder.path().to_str().unwrap()), "{listed}");
            let disk = foreign.disks[0].path();
            let erase = format!("loop:{}", foreign.disks[0].file().display());
            host.fails(&["add", "data", disk, "--yes", "--erase", &erase], 1, &["is no disk"]);
            // Who may see it all is told of both.
            let all =
                host.command(&["status", "data"]).env_remove("BRAID_ONLY_LOOPS_BELOW").output();
            let said = String::from_utf8_lossy(&all.unwrap().stderr).into_owned();
            assert!(said.contains("several pools are called data"), "{said}");
        }
        run("umount", &[at.to_str().unwrap()]);
        host.works(&["add", "data", c.path(), "--yes"]);
    });
}
