//! `braid pool disks`, `status`, `doctor`, `scrub`, `watch` as a user types them, on loop devices.

use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts, run};
use braid_units::ByteSize;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const SIZE: ByteSize = ByteSize::from_bytes(300 << 20);

#[test]
fn a_pool_from_whole_to_degraded() {
    in_private_mounts("a_pool_from_whole_to_degraded", || {
        let mut host = Host::new();
        let name = host.name.clone();
        let at = host.path("mnt");

        let disk = host.entry_of_first_disk();
        assert_eq!(disk["usability"]["usable"], "free");
        assert_eq!(disk["id"], format!("loop:{}", host.disks[0].file().display()));

        host.make_btrfs();
        run("mount", &[host.disks[0].path(), &at]);
        let disk = host.entry_of_first_disk();
        assert_eq!(disk["usability"]["usable"], "no");

        let (code, report) = host.json(&["status", &name]);
        assert_eq!(code, 0);
        assert_eq!(report["pools"][0]["summary"]["state"], "whole");
        assert_eq!(report["pools"][0]["summary"]["layout"], "btrfs-raid1");
        assert_eq!(host.findings(), (0, vec![]), "of a new pool no scrub is wanted yet");

        host.scrubs();
        assert_eq!(host.findings(), (0, vec![]));
        host.counts_wrong_bytes();
        host.runs_without_a_disk();
    });
}

#[test]
fn scrubs_are_scheduled_for_a_pool_by_its_uuid() {
    in_private_mounts("scrubs_are_scheduled_for_a_pool_by_its_uuid", || {
        let host = Host::new();
        host.make_btrfs();
        let units = host.path("units");
        fs::create_dir(&units).unwrap();
        let schedule = |more: &[&str]| {
            let args = ["scrub", "schedule", &host.name, "--units", &units];
            let output = host.braid(&[&args, more].concat());
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        };
        let timer = || {
            let files = fs::read_dir(&units).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|e| e == "timer")).last()
        };
        schedule(&["--dry-run"]);
        assert_eq!(timer(), None);
        schedule(&["--on", "weekly", "--jitter", "2h"]);
        let text = fs::read_to_string(timer().unwrap()).unwrap();
        assert!(text.contains("OnCalendar=weekly\nRandomizedDelaySec=7200\n"), "{text}");
        let service = fs::read_to_string(format!("{units}/braid-pool-scrub@.service")).unwrap();
        assert!(service.contains("braid pool scrub start --wait %i"), "{service}");
        schedule(&["--remove"]);
        assert_eq!(timer(), None);
    });
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    let host = Host::without_disks();
    for (args, code, says) in [
        (&["status", "no-such-pool"][..], 1, "there is no pool no-such-pool"),
        (&["scrub", "start"], 2, "--all"),
        (&["scrub", "start", "a", "--all"], 2, "cannot be used with"),
        (&["watch", "--every", "soon"], 2, "soon"),
    ] {
        let output = host.braid(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    fs::write(host.path("watch.json"), "{ rubbish").unwrap();
    let output = host.braid(&["watch", "--no-smart", "--state", &host.path("watch.json")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("watch.json") && said.contains("start over"), "{said}");
}

struct Host {
    folder: tempfile::TempDir,
    /// The pool's: other tests' pools may be on this computer at the same time.
    name: String,
    disks: Vec<LoopDisk>,
}

impl Host {
    fn new() -> Host {
        let mut host = Host::without_disks();
        let disk = |name: &&str| LoopDisk::new(host.folder.path(), name, SIZE).unwrap();
        host.disks = ["a", "b"].iter().map(disk).collect();
        fs::create_dir(host.path("mnt")).unwrap();
        host
    }

    fn without_disks() -> Host {
        let folder = tempfile::tempdir_in(fast_folder()).unwrap();
        let name = format!("looks-{}", std::process::id());
        Host { folder, name, disks: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn make_btrfs(&self) {
        let disks: Vec<&str> = self.disks.iter().map(LoopDisk::path).collect();
        let args = ["-q", "-L", &self.name, "-d", "raid1", "-m", "raid1"];
        run("mkfs.btrfs", &[&args, disks.as_slice()].concat());
    }

    fn braid(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_braid")).arg("pool").args(args).output().unwrap()
    }

    /// Exit status and what `--json` says.
    fn json(&self, args: &[&str]) -> (i32, Value) {
        let output = self.braid(&[args, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let report =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {said}"));
        (output.status.code().unwrap(), report)
    }

    fn entry_of_first_disk(&self) -> Value {
        let (code, report) = self.json(&["disks", "--no-smart"]);
        assert_eq!(code, 0);
        let is_it = |disk: &&Value| disk["path"] == self.disks[0].path();
        report["disks"].as_array().unwrap().iter().find(is_it).unwrap().clone()
    }

    /// The doctor's exit status and codes.
    fn findings(&self) -> (i32, Vec<String>) {
        let state = self.path("watch.json");
        let (code, report) = self.json(&["doctor", &self.name, "--no-smart", "--state", &state]);
        let findings = report["findings"].as_array().unwrap().iter();
        // What is only good to know depends on this computer's programs.
        let findings = findings.filter(|finding| finding["severity"] != "note");
        (code, findings.map(|f| f["code"].as_str().unwrap().to_owned()).collect())
    }

    /// What a look with this hook tells of this pool: event and code.
    fn watch(&self, hook: &str) -> Vec<(String, String)> {
        let state = self.path("watch.json");
        let prometheus = self.path("braid.prom");
        let args =
            ["watch", "--no-smart", "--state", &state, "--prometheus", &prometheus, "--hook", hook];
        let (_, report) = self.json(&args);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let changes = report["changes"].as_array().unwrap().iter();
        let mine = changes.filter(|change| change["finding"]["pool"] == self.name.as_str());
        mine.map(|change| (text(&change["event"]), text(&change["finding"]["code"]))).collect()
    }

    fn scrubs(&self) {
        let (_, before) = self.json(&["scrub", "status", &self.name]);
        assert_eq!(before[0]["ended_s_ago"], Value::Null);
        assert_eq!(self.json(&["scrub", "start", &self.name, "--dry-run"]).0, 0);
        assert_eq!(self.json(&["scrub", "status", &self.name]).1[0]["ended_s_ago"], Value::Null);
        let (code, ended) = self.json(&["scrub", "start", &self.name, "--wait"]);
        assert_eq!((code, ended[0]["complete"].as_bool()), (0, Some(true)));
        let (_, after) = self.json(&["scrub", "status", &self.name]);
        assert!(after[0]["ended_s_ago"].as_u64().unwrap() < 600);
        assert_eq!(self.json(&["scrub", "cancel", &self.name]).1[0]["stopped"], false);
    }

    /// Bytes of the second disk go wrong: a scrub mends them, and they are told once.
    fn counts_wrong_bytes(&self) {
        let at = self.path("mnt");
        assert_eq!(self.watch("true"), []);
        let data = b"what was written is what should be read ".repeat(50_000);
        fs::write(PathBuf::from(&at).join("file"), &data).unwrap();
        run("umount", &[&at]);
        let image = File::options().read(true).write(true).open(self.disks[1].file()).unwrap();
        let mut bytes = vec![0; SIZE.bytes() as usize];
        image.read_exact_at(&mut bytes, 0).unwrap();
        let block = bytes.chunks(4096).position(|block| block.starts_with(&data[..64])).unwrap();
        image.write_all_at(&[0xee; 8192], block as u64 * 4096 + 65_536).unwrap();
        run("mount", &[self.disks[0].path(), &at]);
        assert_eq!(self.json(&["scrub", "start", &self.name, "--wait"]).0, 10);

        let heard = self.path("heard");
        let hook = format!("echo $BRAID_EVENT $BRAID_CODE $BRAID_POOL >> {heard}; cat >> {heard}");
        let told = self.watch(&hook);
        let rising = ("new".to_owned(), "rising-errors".to_owned());
        assert!(told.contains(&rising), "{told:?}");
        let heard = fs::read_to_string(heard).unwrap();
        assert!(heard.contains(&format!("new rising-errors {}\n", self.name)), "{heard}");
        assert!(heard.contains("\"code\":\"rising-errors\""), "{heard}");
        assert!(!self.watch("true").contains(&rising));
        run("btrfs", &["device", "stats", "--reset", &at]);
        self.watch("true");
    }

    /// One disk goes: mounted degraded, the pool writes chunks with one copy.
    fn runs_without_a_disk(&mut self) {
        let at = self.path("mnt");
        run("umount", &[&at]);
        let gone = self.disks.pop().unwrap();
        run("btrfs", &["device", "scan", "--forget", gone.path()]);
        drop(gone);
        let (code, report) = self.json(&["status", &self.name]);
        assert_eq!((code, report["pools"][0]["summary"]["lacking"].as_u64()), (11, Some(1)));

        run("mount", &["-o", "degraded", self.disks[0].path(), &at]);
        let uuid = report["pools"][0]["uuid"].as_str().unwrap().to_owned();
        fs::write(PathBuf::from(&at).join("more"), vec![7; 120 << 20]).unwrap();
        run("sync", &["-f", &at]);
        let (code, codes) = self.findings();
        assert_eq!(code, 11);
        for expected in ["missing-member", "leftover-single"] {
            assert!(codes.iter().any(|code| code == expected), "{codes:?}");
        }
        // A hook that fails is called again.
        let told = self.watch("false");
        assert!(told.contains(&("new".to_owned(), "missing-member".to_owned())), "{told:?}");
        assert_eq!(self.watch("true"), told);
        assert_eq!(self.watch("true"), []);
        let metrics = fs::read_to_string(self.path("braid.prom")).unwrap();
        let state = format!("braid_pool_state{{pool=\"{}\",uuid=\"{uuid}\"}} 3\n", self.name);
        assert!(metrics.contains(&state), "{metrics}");
        let _ = fs::remove_file(format!("/var/lib/btrfs/scrub.status.{uuid}"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may not be mounted.
        let _ = Command::new("umount").args(["--quiet", &self.path("mnt")]).output();
    }
}
