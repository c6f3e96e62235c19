//! Disks that rot, refuse writes, vanish and come back: what btrfs raid1 then still has, what the
//! doctor says, and that the command it names mends it.

use crate::host::{Host, serial};
use braid_faultdisk::FaultyFile;
use braid_loop_disks::{LoopDisk, in_private_mounts};
use braid_units::ByteSize;
use serde_json::Value;

const SIZE: usize = 320 << 20;
/// How every block of our file begins, so that it is found on the medium.
const MARK: &[u8] = b"of braid's file:";

#[test]
fn rot_failed_writes_and_a_vanished_disk_are_found_and_mended() {
    let name = "faults::rot_failed_writes_and_a_vanished_disk_are_found_and_mended";
    in_private_mounts(name, || {
        let Some(ground) = Ground::new() else { return };
        let host = &ground.host;
        let bad = LoopDisk::plug_in(ground.faulty.path()).unwrap();
        let (good, spare) = (ground.disk("good"), ground.disk("spare"));
        host.create("btrfs-raid1", &[&bad, &good]);
        ground.write_marked_file("file");
        let sums = host.sums();

        // Rot: found and corrected by a scrub.
        let rotten = ground.faulty.rot(|block| block.starts_with(MARK));
        assert!(rotten > 1000, "{rotten}");
        ground.scrub(10);
        assert_eq!(ground.faulty.rot(|_| false), 0);
        assert_eq!(host.sums(), sums);
        let counted = ground.member(bad.path())["errors"]["corruption"].as_u64().unwrap();
        assert_eq!(counted, rotten as u64, "every rotten block was counted");
        host.mend("errors", bad.path());
        ground.is_well();

        // Writes that fail: counted; the filesystem stays writable with what the other disk has.
        ground.faulty.fail_writes(3);
        ground.write_marked_file("other");
        assert_eq!(ground.faulty.writes_failed(), 3);
        assert!(ground.member(bad.path())["errors"]["write"].as_u64().unwrap() > 0);
        host.mend("errors", bad.path());
        ground.is_well();

        // Away during writes, and back with what it had before.
        ground.faulty.set_gone(true);
        ground.write_marked_file("away");
        let sums = host.sums();
        ground.faulty.set_gone(false);
        assert_eq!(host.sums(), sums, "what is stale is not believed");
        host.mend("errors", bad.path());
        ground.is_well();
        ground.scrub(0);

        // Gone: another disk takes its place.
        ground.faulty.set_gone(true);
        ground.write_marked_file("last");
        let sums = host.sums();
        ground.is_told_dead(&bad, "answers no read");
        host.works(&["replace", "data", bad.path(), spare.path(), "--yes"]);
        assert_eq!(host.sums(), sums);
        let shown = host.sh("btrfs filesystem show data");
        assert!(shown.contains(spare.path()) && !shown.contains(bad.path()), "{shown}");
        ground.scrub(0);
    });
}

/// The disk behind a member is gone, and its device still there with a size of 0: scrubs help
/// nothing, and the other copy is right.
#[test]
fn a_member_whose_device_has_no_size_any_more_is_dead_and_replaced() {
    let name = "faults::a_member_whose_device_has_no_size_any_more_is_dead_and_replaced";
    in_private_mounts(name, || {
        let Some(ground) = Ground::new() else { return };
        let host = &ground.host;
        let [dead, good, spare] = ["dead", "good", "spare"].map(|name| ground.disk(name));
        host.create("btrfs-raid1", &[&dead, &good]);
        ground.write_marked_file("file");
        host.sh(&format!(
            "truncate --size 0 {0}; losetup --set-capacity {1}",
            dead.file().display(),
            dead.path()
        ));
        ground.write_marked_file("later");
        let sums = host.sums();
        ground.is_told_dead(&dead, "has a size of 0");
        host.braid(&["scrub", "start", "data", "--wait"]);
        ground.is_told_dead(&dead, "has a size of 0");
        host.works(&["replace", "data", dead.path(), spare.path(), "--yes"]);
        assert_eq!(host.sums(), sums);
        ground.scrub(0);
        ground.is_well();
    });
}

/// btrfs itself ends such a replace well.
#[test]
fn a_replace_or_add_whose_new_disk_takes_nothing_is_not_done_and_says_how_to_go_on() {
    let name =
        "faults::a_replace_or_add_whose_new_disk_takes_nothing_is_not_done_and_says_how_to_go_on";
    in_private_mounts(name, || {
        let Some(ground) = Ground::new() else { return };
        let host = &ground.host;
        let bad = LoopDisk::plug_in(ground.faulty.path()).unwrap();
        let [first, second, spare] = ["first", "second", "spare"].map(|name| ground.disk(name));
        host.create("btrfs-raid1", &[&first, &second]);
        ground.write_marked_file("file");
        let sums = host.sums();
        // The first superblock is taken, what comes behind is not.
        ground.faulty.take_only(1 << 20);
        let fails = |change: &[&str]| {
            host.fails(change, 1, &["refused", "writes", "braid pool abandon data"]);
            assert!(host.works(&["resume"]).contains("data: "), "it is not through");
            host.works(&["abandon", "data", "--yes"]);
            assert_eq!(host.sums(), sums);
        };
        fails(&["replace", "data", first.path(), bad.path(), "--yes"]);
        // Where it was a member already before that was seen, another one takes its place.
        if ground.is_member(bad.path()) {
            host.works(&["replace", "data", bad.path(), spare.path(), "--yes"]);
        }
        host.sh(&format!("wipefs --all {}", bad.path()));
        // Without a signature it isn't blank yet.
        fails(&["add", "data", bad.path(), "--yes", "--erase", &serial(&bad)]);
        assert!(!ground.is_member(bad.path()), "it is taken out again");
        assert_eq!(host.sums(), sums);
        ground.scrub(0);
    });
}

struct Ground {
    host: Host,
    faulty: FaultyFile,
}

impl Ground {
    fn new() -> Option<Ground> {
        let host = Host::new();
        std::fs::create_dir(host.path("fuse")).unwrap();
        match FaultyFile::serve(&host.path("fuse"), SIZE) {
            Ok(faulty) => Some(Ground { host, faulty }),
            Err(error) => {
                println!("skipped: needs FUSE: {error}");
                None
            }
        }
    }

    fn disk(&self, name: &str) -> LoopDisk {
        self.host.disk_of(name, ByteSize::from_bytes(SIZE as u64))
    }

    /// A file whose blocks all begin with our mark, on the disks when this returns.
    fn write_marked_file(&self, name: &str) {
        let mut bytes = vec![0; 24 << 20];
        fastrand::Rng::with_seed(name.len() as u64).fill(&mut bytes);
        bytes.chunks_mut(4096).for_each(|block| block[..MARK.len()].copy_from_slice(MARK));
        std::fs::write(self.host.path("data").join(name), bytes).unwrap();
        self.host.sh("sync -f data");
    }

    fn scrub(&self, code: i32) {
        let scrubbed = self.host.braid(&["scrub", "start", "data", "--wait"]);
        assert_eq!(scrubbed.status.code(), Some(code), "{scrubbed:?}");
    }

    fn is_member(&self, path: &str) -> bool {
        let said = self.host.braid(&["status", "data", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&said).unwrap();
        let members = status["pools"][0]["members"].as_array().unwrap();
        members.iter().any(|member| member["path"] == path)
    }

    fn member(&self, path: &str) -> Value {
        let status: Value =
            serde_json::from_str(&self.host.works(&["status", "data", "--json"])).unwrap();
        let members = status["pools"][0]["members"].as_array().unwrap();
        members.iter().find(|member| member["path"] == path).unwrap().clone()
    }

    fn errors(&self) -> Vec<Value> {
        let mut findings = self.host.findings();
        findings.retain(|finding| finding["code"].as_str().unwrap().contains("error"));
        findings
    }

    /// By the status, and by the doctor, which says to replace it and nothing of lost files.
    fn is_told_dead(&self, disk: &LoopDisk, how: &str) {
        let status: Value =
            serde_json::from_slice(&self.host.braid(&["status", "data", "--json"]).stdout).unwrap();
        assert_eq!(status["pools"][0]["summary"]["state"], "degraded", "{status}");
        let findings = self.host.findings();
        let told = findings.iter().find(|finding| finding["code"] == "dead-member");
        let told = told.unwrap_or_else(|| panic!("{findings:?}"));
        assert_eq!(told["severity"], "danger");
        let what = told["what"].as_str().unwrap();
        assert!(what.contains(disk.path()) && what.contains(how), "{what}");
        assert!(told["mend"].as_str().unwrap().starts_with("braid pool replace data 1 "), "{told}");
        let others = ["errors", "uncorrectable"];
        assert!(
            !findings.iter().any(|one| others.iter().any(|code| one["code"] == *code)),
            "{findings:?}"
        );
    }

    fn is_well(&self) {
        assert_eq!(self.errors(), Vec::<Value>::new());
    }
}
