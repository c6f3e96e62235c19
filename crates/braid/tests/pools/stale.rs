//! A member of a btrfs raid1 that was away while the other was written to, and what becomes of a survivor that is full.

use crate::host::Host;
use braid_loop_disks::{LoopDisk, in_private_mounts};

#[test]
fn a_member_that_comes_back_is_made_whole_by_one_command() {
    in_private_mounts("stale::a_member_that_comes_back_is_made_whole_by_one_command", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("head -c 20M /dev/urandom > data/first; umount data");
        let away = b.unplug();
        host.sh(&format!("mount -o degraded {} data", a.path()));
        // Into chunks that both have, and into new ones.
        host.sh("head -c 100M /dev/urandom > data/second; rm data/first; sync -f data");
        let sums = host.sums();
        host.sh("umount data");

        let b = LoopDisk::plug_in(&away).unwrap();
        let stale = host.findings();
        let stale = stale.iter().find(|finding| finding["code"] == "stale-member");
        let mend = stale.expect("it is seen before it is mounted")["mend"].as_str().unwrap();
        assert!(mend.starts_with("mount ") && mend.contains("scrub start"), "{mend}");

        host.sh(&format!("mount -o device={} {} data", b.path(), a.path()));
        assert_eq!(host.sums(), sums, "what is stale is not believed");
        host.mend("leftover-single", "one copy only");
        // Only the counters are left.
        host.mend("errors", b.path());
        assert_eq!(host.findings(), Vec::<serde_json::Value>::new());
        assert_eq!(host.braid(&["scrub", "start", "data", "--wait"]).status.code(), Some(0));
        // Now either disk is enough.
        host.sh("umount data");
        drop(a);
        host.sh(&format!("mount -o degraded,ro {} data", b.path()));
        assert_eq!(host.sums(), sums);
    });
}

#[test]
fn a_dead_disk_is_replaced_beside_a_survivor_that_was_full() {
    in_private_mounts("stale::a_dead_disk_is_replaced_beside_a_survivor_that_was_full", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("head -c 20M /dev/urandom > data/first; umount data");
        drop(b);
        host.sh(&format!("mount -o degraded {} data", a.path()));
        host.sh(
            "n=0; while head -c 4M /dev/urandom > data/$n 2> /dev/null; do n=$((n + 1)); done; sync -f data",
        );
        let new = host.disk("new");
        let replace = ["replace", "data", "missing", new.path(), "--yes"];
        host.fails(&replace, 1, &["survivors are full", "free "]);
        // Every chunk keeps something: nothing becomes unallocated by itself.
        host.sh("rm data/*[02468]; sync -f data");
        let sums = host.sums();
        host.works(&replace);
        // Complete, it is still mounted with that option.
        let codes: Vec<_> = host.findings().into_iter().map(|each| each["code"].clone()).collect();
        assert_eq!(codes, ["degraded-option"]);
        assert_eq!(host.sums(), sums);
        host.sh("umount data");
        drop(a);
        host.sh(&format!("mount -o degraded,ro {} data", new.path()));
        assert_eq!(host.sums(), sums);
    });
}
