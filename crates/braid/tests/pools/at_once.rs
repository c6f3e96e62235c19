//! Two changes at the same time.

use crate::host::{Host, mib};
use braid_loop_disks::in_private_mounts;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn two_pools_are_not_made_of_one_disk_at_once() {
    in_private_mounts("at_once::two_pools_are_not_made_of_one_disk_at_once", || {
        let host = Host::new();
        let (a, b, c) = (host.disk("a"), host.disk("b"), host.disk("c"));
        let [part, other_part] = c.partition(mib(200)).unwrap();
        // The first one's mkfs waits; that it was called is written down.
        host.program(
            "mkfs.btrfs",
            "#!/bin/sh\n[ -e mkfs-runs ] && echo twice >> mkfs-runs || echo once > mkfs-runs\n\
             n=0; until [ -e go ] || [ $n = 400 ]; do n=$((n + 1)); sleep 0.05; done\nexec /sbin/mkfs.btrfs \"$@\"\n",
        );
        let create = |name: &str, disks: [&str; 2]| {
            let mut command = host.command(&["create", name, "--layout", "btrfs-raid1", "--yes"]);
            command.args(disks).current_dir(host.folder.path());
            command
        };
        let mut first = create("data", [a.path(), &part]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !host.path("mkfs-runs").exists() {
            assert!(Instant::now() < deadline && first.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(20));
        }
        // Another name, another mount point, another folder of journals: one disk is enough.
        for disks in [[b.path(), a.path()], [b.path(), &part]] {
            let mut second = create("more", disks);
            second.env("BRAID_POOL_STATE_DIR", host.path("other-state"));
            let output = second.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("another braid is changing"), "{said}");
        }
        assert_eq!(fs::read_to_string(host.path("mkfs-runs")).unwrap(), "once\n");
        fs::write(host.path("go"), "").unwrap();
        assert!(first.wait().unwrap().success());
        // Other partitions and disks are free to be changed meanwhile and after.
        host.sh("umount data");
        fs::write(host.fstab(), "").unwrap();
        assert!(create("more", [b.path(), &other_part]).status().unwrap().success());
        host.sh("umount data");
    });
}
