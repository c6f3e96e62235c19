//! The same by a real ssh and sshd, whose connections are cut.

use crate::sshd::Sshd;
use crate::{BRAID, Process, Scene, braid, failure, json, program, register, text};
use braid_loop_disks::{Btrfs, change, fill, in_private_mounts};
use braid_units::ByteSize;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The server, or nothing after saying why there is none.
fn sshd(test: &str, folder: &Path) -> Option<Sshd> {
    Sshd::start(folder).map_err(|why| println!("{test}: skipped: {why}")).ok()
}

/// Runs a command that writes `file`, of 40 MiB, and should outlive two cuts, each after some more
/// of it; its JSON. It is so slow that seconds are left for each cut.
fn cut_twice(sshd: &Sshd, arguments: &[&str], file: &Path) -> Value {
    let mut command = Process(
        program()
            .arg("pool")
            .args(arguments)
            .args(["--json", "--limit", "50Mbit"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let size = || fs::metadata(file).map_or(0, |about| about.len());
    let mut has = 0;
    for _ in 0..2 {
        let until = Instant::now() + Duration::from_secs(120);
        while size() < has + (8 << 20) {
            assert!(Instant::now() < until, "{arguments:?} doesn't get on");
            assert!(command.0.try_wait().unwrap().is_none(), "{arguments:?} ended early");
            std::thread::sleep(Duration::from_millis(20));
        }
        has = size();
        assert!(sshd.cut() > 0, "there is no connection");
    }
    let mut out = String::new();
    command.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(command.0.wait().unwrap().success(), "{out}");
    serde_json::from_str(&out).unwrap()
}

/// One command outlives connections that break, whichever end it is at; what came back is brought
/// back.
#[test]
fn a_broken_connection_is_made_anew_and_replicas_come_back() {
    const NAME: &str = "over_ssh::a_broken_connection_is_made_anew_and_replicas_come_back";
    in_private_mounts(NAME, || {
        let scene = Scene::new(40 << 20);
        let first = scene.snapshot();
        let Some(sshd) = sshd(NAME, scene.folder.path()) else { return };
        let shell = sshd.shell("user");
        let remote_braid = format!("env BRAID_POOL_STATE_DIR={} {BRAID}", register().display());
        let reach = ["--rsh", &shell, "--remote-braid", &remote_braid];
        let replicas = sshd.place(&scene.replicas);
        let push = [&["replicate"], &reach[..], &[text(&scene.snapshots), &replicas]].concat();
        let is_cheap = |report: &Value| {
            assert!(report["reconnects"].as_u64().unwrap() >= 2, "{report}");
            let sent = &report["snapshots"][0];
            let (sent, stream) = (&sent["sent_bytes"], &sent["stream_bytes"]);
            // What ssh and pipes held is sent again, some 2 MB a cut; all that there was would be
            // 1.6 times.
            assert!(sent.as_f64().unwrap() < 1.4 * stream.as_f64().unwrap(), "{report}");
        };

        // Who isn't let in, or finds no braid, hears of it at once.
        let stranger = sshd.shell("stranger");
        let refused = [&["replicate", "--rsh", &stranger], &push[5..]].concat();
        let said = failure(&refused);
        assert!(said.contains("Permission denied") && said.contains("ended with 255"), "{said}");
        let without = ["replicate", "--rsh", &shell, "--remote-braid", "/nowhere/braid"];
        let said = failure(&[&without, &push[5..]].concat());
        assert!(said.contains("--remote-braid"), "{said}");

        is_cheap(&cut_twice(&sshd, &push, &scene.replicas.join(".braid-replica.part/big")));
        let compare = [&["verify"], &reach[..], &[text(&scene.snapshots), &replicas]].concat();
        assert_eq!(json(&compare)["same"], true);

        // The difference follows.
        change(&scene.data, 1, 1 << 20);
        scene.snapshot();
        let report = json(&push);
        assert_eq!(report["snapshots"][0]["parent"], first.file_name().unwrap().to_str().unwrap());
        assert_eq!(json(&compare)["compared"].as_array().unwrap().len(), 2);

        // All is lost here, and fetched.
        let back = scene.snapshots.with_file_name("back");
        let pull = [&["replicate"], &reach[..], &[&replicas, text(&back)]].concat();
        cut_twice(&sshd, &pull, &back.join(".braid-replica.part/big"));
        let snapshot = back.join(first.file_name().unwrap());
        let data = scene.snapshots.with_file_name("data again");
        json(&["restore", text(&snapshot), "--to", text(&data)]);
        assert_eq!(json(&["verify", text(&first), text(&data)])["same"], true);
        scene.verify();

        // A byte that rotted there is found from here.
        let file = scene.replicas.join("rotten");
        json(&[
            "restore",
            text(&scene.replicas.join(first.file_name().unwrap())),
            "--to",
            text(&file),
        ]);
        fs::write(file.join("empty"), "not any more").unwrap();
        let far = sshd.place(&file);
        let compare = [&["verify", "--json"], &reach[..], &[text(&first), &far]].concat();
        let found = braid(&compare);
        assert_eq!(found.status.code(), Some(1), "{found:?}");
        assert!(String::from_utf8_lossy(&found.stdout).contains("\"empty\""), "{found:?}");
    });
}

/// A system of another computer comes over connections that break, with what it has beside its
/// btrfs; what was begun is taken back, there too.
#[test]
fn a_system_is_cloned_over_connections_that_break() {
    const NAME: &str = "over_ssh::a_system_is_cloned_over_connections_that_break";
    in_private_mounts(NAME, || {
        let folder = tempfile::tempdir().unwrap();
        let disk = |name| Btrfs::new(folder.path(), name, ByteSize::from_bytes(2 << 30));
        let (old, new) = (disk("old"), disk("new"));
        let (root, home) = (old.subvolume("@"), old.subvolume("@/my home"));
        fill(&home, 5, 40 << 20);
        fs::create_dir(root.join("etc")).unwrap();
        fs::write(root.join("etc/fstab"), "UUID=x / btrfs subvol=@ 0 0\n").unwrap();
        let (boot, new_boot) = (folder.path().join("boot"), folder.path().join("new boot"));
        for path in [&boot, &new_boot] {
            fs::create_dir(path).unwrap();
        }
        fs::write(boot.join("kernel"), vec![7; 100 << 20]).unwrap();
        fs::hard_link(boot.join("kernel"), boot.join("kernel.old")).unwrap();
        std::os::unix::fs::symlink("kernel", boot.join("vmlinuz")).unwrap();
        let Some(sshd) = sshd(NAME, folder.path()) else { return };
        let shell = sshd.shell("user");
        let (from, to) = (sshd.place(&old.path), text(&new.path));
        let remote_braid = format!("env BRAID_POOL_STATE_DIR={} {BRAID}", register().display());
        let reach = ["--rsh", &shell, "--remote-braid", &remote_braid];
        let clone = [&["clone"], &reach[..], &[&from, to]].concat();
        let uuid = json(&[&clone[..], &["--dry-run"]].concat())["from"].clone();
        let fstab = format!("UUID={} / btrfs subvol=@ 0 0\n", uuid.as_str().unwrap());
        fs::write(root.join("etc/fstab"), fstab).unwrap();

        let beside = ["--beside", text(&boot), text(&new_boot), "--yes"];
        let whole = [&clone[..], &beside].concat();
        // Begun, and not wanted any more.
        let part = new.path.join(".braid-clone/.braid-replica.part/big");
        let mut begun = Process(
            program()
                .arg("pool")
                .args(&whole)
                .args(["--retries", "0", "--limit", "100Mbit"])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let until = Instant::now() + Duration::from_secs(120);
        while fs::metadata(&part).map_or(0, |about| about.len()) < 4 << 20 {
            assert!(Instant::now() < until, "it doesn't get on");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(sshd.cut() > 0);
        assert!(!begun.0.wait().unwrap().success());
        assert!(old.path.join(".braid-clone").exists());
        json(&[&["clone", "--forget", "--yes"], &reach[..], &[&from, to]].concat());
        for path in [&old.path, &new.path] {
            assert!(!path.join(".braid-clone").exists(), "{}", path.display());
        }

        // Cut a third time, in what is beside it, if this computer isn't too quick.
        let cloned = std::thread::scope(|scope| {
            scope.spawn(|| {
                let until = Instant::now() + Duration::from_secs(120);
                while !new_boot.join("kernel").exists() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
                sshd.cut();
            });
            cut_twice(&sshd, &whole, &part)
        });
        assert_eq!(cloned["rewritten"], serde_json::json!(["@/etc/fstab"]), "{cloned}");
        let same = |old: &Path, new: &Path| {
            assert_eq!(json(&["verify", text(old), text(new)])["same"], true);
        };
        same(&home, &new.path.join("@/my home"));
        same(&boot, &new_boot);
        let fstab = fs::read_to_string(new.path.join("@/etc/fstab")).unwrap();
        assert!(fstab.contains(cloned["to"].as_str().unwrap()), "{fstab}");
        assert!(!old.path.join(".braid-clone").exists(), "the old system is changed");
    });
}
