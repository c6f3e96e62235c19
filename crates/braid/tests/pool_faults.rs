//! Disks that rot, refuse writes and vanish: what btrfs raid1 then still has, what the doctor says, and that the command
//! it names mends it.

use braid_faultdisk::FaultyFile;
use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts};
use braid_units::ByteSize;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

const SIZE: usize = 320 << 20;
/// How every block of our file begins, so that it is found on the medium.
const MARK: &[u8] = b"of braid's file:";

#[test]
fn rot_failed_writes_and_a_vanished_disk_are_found_and_mended() {
    in_private_mounts("rot_failed_writes_and_a_vanished_disk_are_found_and_mended", || {
        let Some(ground) = Ground::new() else { return };
        let faulty = ground.faulty.path().to_owned();
        let bad = LoopDisk::plug_in(&faulty).unwrap();
        let (good, spare) = (ground.disk("good"), ground.disk("spare"));
        ground.works(&[
            "create",
            "data",
            "--layout",
            "btrfs-raid1",
            bad.path(),
            good.path(),
            "--yes",
        ]);
        let sum = ground.write_marked_file("file");

        // Rot: found and corrected by a scrub.
        let rotten = ground.faulty.rot(|block| block.starts_with(MARK));
        assert!(rotten > 1000, "{rotten}");
        let scrubbed = ground.braid(&["scrub", "start", "data", "--wait"]);
        assert_eq!(scrubbed.status.code(), Some(10), "{scrubbed:?}");
        assert_eq!(ground.faulty.rot(|_| false), 0);
        assert_eq!(ground.sum("file"), sum);
        let counted = ground.member(bad.path())["errors"]["corruption"].as_u64().unwrap();
        assert_eq!(counted, rotten as u64, "every rotten block was counted");
        ground.mend("errors", bad.path());
        ground.is_well();

        // Writes that fail: counted; the filesystem stays writable with what the other disk has.
        ground.faulty.fail_writes(3);
        let other = ground.write_marked_file("other");
        assert_eq!(ground.faulty.writes_failed(), 3);
        assert!(ground.member(bad.path())["errors"]["write"].as_u64().unwrap() > 0);
        ground.mend("errors", bad.path());
        ground.is_well();
        assert_eq!((ground.sum("file"), ground.sum("other")), (sum.clone(), other.clone()));

        // Gone: another disk takes its place.
        ground.faulty.set_gone(true);
        let last = ground.write_marked_file("last");
        let codes = ground.findings();
        assert!(codes.iter().any(|finding| finding["code"] == "errors"), "{codes:?}");
        ground.works(&["replace", "data", bad.path(), spare.path(), "--yes"]);
        let sums = ["file", "other", "last"].map(|name| ground.sum(name));
        assert_eq!(sums, [sum, other, last]);
        let shown = ground.sh("btrfs filesystem show data");
        assert!(shown.contains(spare.path()) && !shown.contains(bad.path()), "{shown}");
        let scrubbed = ground.braid(&["scrub", "start", "data", "--wait"]);
        assert_eq!(scrubbed.status.code(), Some(0), "{scrubbed:?}");
        ground.sh("umount data");
    });
}

struct Ground {
    faulty: FaultyFile,
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Option<Ground> {
        let folder = tempfile::tempdir_in(fast_folder()).unwrap();
        for made in ["root/etc", "fuse", "data"] {
            std::fs::create_dir_all(folder.path().join(made)).unwrap();
        }
        std::fs::write(folder.path().join("root/etc/fstab"), "# empty\n").unwrap();
        match FaultyFile::serve(&folder.path().join("fuse"), SIZE) {
            Ok(faulty) => Some(Ground { faulty, folder }),
            Err(error) => {
                println!("skipped: needs FUSE: {error}");
                None
            }
        }
    }

    fn disk(&self, name: &str) -> LoopDisk {
        LoopDisk::new(self.folder.path(), name, ByteSize::from_bytes(SIZE as u64)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// A file whose blocks all begin with our mark, on the disks when this returns; its checksum.
    fn write_marked_file(&self, name: &str) -> String {
        let mut bytes = vec![0; 24 << 20];
        fastrand::Rng::with_seed(name.len() as u64).fill(&mut bytes);
        bytes.chunks_mut(4096).for_each(|block| block[..MARK.len()].copy_from_slice(MARK));
        std::fs::write(self.path(name), bytes).unwrap();
        self.sh("sync -f data");
        self.sum(name)
    }

    /// Read from the disks, not from memory.
    fn sum(&self, name: &str) -> String {
        self.sh("echo 3 > /proc/sys/vm/drop_caches");
        self.sh(&format!("sha256sum < data/{name}"))
    }

    fn member(&self, path: &str) -> Value {
        let status: Value =
            serde_json::from_str(&self.works(&["status", "data", "--json"])).unwrap();
        let members = status["pools"][0]["members"].as_array().unwrap();
        members.iter().find(|member| member["path"] == path).unwrap().clone()
    }

    fn findings(&self) -> Vec<Value> {
        let doctor = self.braid(&["doctor", "data", "--json", "--no-smart"]);
        let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        // A scrub that has never been, room on small disks and the like are no faults of disks.
        let of_disks = |finding: &Value| finding["code"].as_str().unwrap().contains("error");
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|each| of_disks(each))
            .cloned()
            .collect()
    }

    /// Does what the doctor says against the finding that names the disk.
    fn mend(&self, code: &str, disk: &str) {
        let findings = self.findings();
        let about = |finding: &&Value| {
            finding["code"] == code && finding["what"].as_str().unwrap().contains(disk)
        };
        let found = findings.iter().find(about);
        let found = found.unwrap_or_else(|| panic!("no {code} of {disk} in {findings:?}"));
        let mend = found["mend"].as_str().unwrap();
        println!("mending: {mend}");
        self.sh(mend);
    }

    fn is_well(&self) {
        assert_eq!(self.findings(), Vec::<Value>::new());
    }

    fn braid(&self, args: &[&str]) -> Output {
        let folder = self.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
        command.arg("pool").args(args);
        if args[0] == "create" {
            command.arg("--mount").arg(folder.join("data"));
        }
        self.with_place(&mut command).output().unwrap()
    }

    fn works(&self, args: &[&str]) -> String {
        let output = self.braid(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sh(&self, command: &str) -> String {
        let mut shell = Command::new("sh");
        let output = self.with_place(shell.args(["-c", command])).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{command}`: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The doctor's commands say `braid`.
    fn with_place<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let folder = self.folder.path();
        let programs = PathBuf::from(env!("CARGO_BIN_EXE_braid"));
        let programs = programs.parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(folder)
            .env("PATH", format!("{programs}:{path}:/usr/sbin:/sbin"))
            .env("BRAID_POOL_STATE_DIR", folder.join("state"))
            .env("BRAID_POOL_CONFIG_ROOT", folder.join("root"))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--quiet").arg(self.folder.path().join("data")).output();
    }
}
