//! A pool that is given up.

use crate::host::{Host, serial};
use braid_loop_disks::in_private_mounts;
use std::fs;

#[test]
fn a_pool_is_given_up_by_its_name_and_nothing_else_is_lost() {
    in_private_mounts("destroyed::a_pool_is_given_up_by_its_name_and_nothing_else_is_lost", || {
        let host = Host::new();
        let (a, b, other) = (host.disk("a"), host.disk("b"), host.disk("c"));
        host.sh(&format!("mkfs.ext4 -q -L tax {}", other.path()));
        let fstab = fs::read_to_string(host.fstab()).unwrap() + "UUID=1 /tax ext4 defaults 0 2\n";
        fs::write(host.fstab(), &fstab).unwrap();
        host.create("btrfs-raid1", &[&a, &b]);
        let there = |host: &Host| host.sh("echo hello > data/file; cat data/file");
        assert_eq!(there(&host), "hello");

        // Neither a yes nor another name is enough, and nobody is there to be asked.
        host.fails(&["destroy", "data", "--yes"], 2, &["--yes"]);
        host.fails(&["destroy", "data"], 7, &["--confirm NAME", "no backup of its data"]);
        host.fails(&["destroy", "data", "--confirm", "date"], 7, &["isn't the pool's name"]);
        let shown = host.works(&["destroy", "data", "--dry-run"]);
        assert!(shown.contains("wipefs") && shown.contains("umount"), "{shown}");
        assert_eq!(there(&host), "hello");

        // Somebody works on it: nothing is lost yet, and it can be had back.
        host.sh("cd data && exec sleep 100 >/dev/null 2>&1 & echo $! > sleeper");
        host.fails(&["destroy", "data", "--confirm", "data"], 1, &["busy", "abandon data"]);
        host.works(&["abandon", "data"]);
        assert_eq!(there(&host), "hello");
        assert!(fs::read_to_string(host.fstab()).unwrap().contains("btrfs"));
        host.sh(
            "kill $(cat sleeper); while kill -0 $(cat sleeper) 2>/dev/null; do sleep 0.1; done",
        );

        host.works(&["destroy", "data", "--confirm", "data"]);
        assert_eq!(fs::read_to_string(host.fstab()).unwrap(), fstab);
        assert_eq!(host.sh(&format!("wipefs {} {}", a.path(), b.path())), "");
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {}", other.path())), "tax");
        host.fails(&["status", "data"], 1, &["data"]);
        // The name is free, and the disks for who says that what isn't blank may be lost.
        let (first, second) = (serial(&a), serial(&b));
        let erase = ["--erase", &first, "--erase", &second];
        let create = ["create", "data", "--layout", "btrfs-raid1", "--yes", a.path(), b.path()];
        host.works(&[&create[..], &erase].concat());
    });
}
