//! A member of a btrfs raid1 that was away while the other was written to, and what becomes of a
//! survivor that is full.

use crate::host::{Host, mib};
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

/// In one command: whole, without chunks of one copy, and not mounted degraded any more.
#[test]
fn a_missing_disk_of_an_unmounted_pool_is_replaced_to_the_end() {
    in_private_mounts("stale::a_missing_disk_of_an_unmounted_pool_is_replaced_to_the_end", || {
        let host = Host::new();
        let [a, b] = ["a", "b"].map(|name| host.disk_of(name, mib(3000)));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("head -c 200M /dev/urandom > data/file");
        let sums = host.sums();
        host.sh("umount data");
        drop(b);
        let new = host.disk_of("new", mib(3000));
        host.works(&["replace", "data", "missing", new.path(), "--yes"]);
        assert_eq!(host.findings(), Vec::<serde_json::Value>::new());
        let status: serde_json::Value =
            serde_json::from_str(&host.works(&["status", "data", "--json"])).unwrap();
        let summary = &status["pools"][0]["summary"];
        assert_eq!(
            (&summary["layout"], &summary["state"]),
            (&"btrfs-raid1".into(), &"whole".into())
        );
        assert_eq!(host.sums(), sums);
        host.sh("umount data");
        drop(a);
        host.sh(&format!("mount -o degraded,ro {} data", new.path()));
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
        host.fails(&replace, 1, &["survivors are full", "free ", "--lend"]);
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

#[test]
fn a_survivor_that_was_full_when_the_disk_died_is_lent_one() {
    in_private_mounts("stale::a_survivor_that_was_full_when_the_disk_died_is_lent_one", || {
        let survivor = Survivor::full(FILL, ":");
        let lent = survivor.is_lent_a_disk();
        let shown = survivor.host.sh("btrfs filesystem show data");
        assert!(!shown.contains(lent.path()), "{shown}");
        survivor.goes_and_nothing_is_lost();
    });
}

/// With its copies all is too much for two disks: the lent one leaves when files were deleted.
#[test]
fn a_survivor_that_was_filled_while_it_was_alone_is_lent_one() {
    in_private_mounts("stale::a_survivor_that_was_filled_while_it_was_alone_is_lent_one", || {
        let survivor = Survivor::full(":", FILL);
        let lent = survivor.is_lent_a_disk();
        survivor.host.sh("rm data/[12]*; sync -f data");
        survivor.host.works(&["remove", "data", lent.path(), "--yes"]);
        survivor.goes_and_nothing_is_lost();
    });
}

/// Of two disks the one that is left, and the one that comes.
struct Survivor {
    new: LoopDisk,
    old: LoopDisk,
    host: Host,
}

impl Survivor {
    /// Filled before the other one died, and after.
    fn full(before: &str, after: &str) -> Survivor {
        let host = Host::new();
        let (old, dies) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&old, &dies]);
        host.sh(&format!("head -c 20M /dev/urandom > data/first; {before}; umount data"));
        drop(dies);
        host.sh(&format!("mount -o degraded {} data; {after}", old.path()));
        Survivor { new: host.disk("new"), old, host }
    }

    fn is_lent_a_disk(&self) -> LoopDisk {
        let host = &self.host;
        let sums = host.sums();
        let found = host.findings();
        let missing = found.iter().find(|finding| finding["code"] == "missing-member");
        let mend = format!("braid pool replace data 2 {} --lend ANOTHER", self.new.path());
        assert_eq!(missing.unwrap()["mend"], mend);
        let lent = host.disk("lent");
        host.mend("missing-member", "has to be lent");
        let codes: Vec<_> = host.findings().into_iter().map(|each| each["code"].clone()).collect();
        assert_eq!(codes, ["degraded-option"]);
        assert_eq!(host.sums(), sums);
        lent
    }

    fn goes_and_nothing_is_lost(self) {
        let Survivor { new, old, host } = self;
        let sums = host.sums();
        host.sh("umount data");
        drop(old);
        host.sh(&format!("mount -o degraded,ro {} data", new.path()));
        assert_eq!(host.sums(), sums);
    }
}

/// All chunks, to the last block.
const FILL: &str = "n=0; while head -c 4M /dev/urandom > data/$n 2> /dev/null; do n=$((n + 1)); done; sync -f data";
