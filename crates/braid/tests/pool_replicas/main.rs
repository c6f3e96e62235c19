//! `braid pool replicate` and its neighbours as a user has them, on real btrfs.

#![allow(unsafe_code)]

mod over_ssh;
mod retention;
mod sshd;
mod told;

use braid_loop_disks::{Btrfs, change, fill, in_private_mounts};
use braid_units::ByteSize;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BRAID: &str = env!("CARGO_BIN_EXE_braid");

/// `braid`, which remembers what is interrupted for this test only.
fn program() -> Command {
    let mut command = Command::new(BRAID);
    command.env("BRAID_POOL_STATE_DIR", register());
    command
}

fn register() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("register")
}

/// What the doctor says of interrupted replications of these snapshots: here, and ordered
/// elsewhere.
fn told_of(snapshots: &Path) -> [Vec<Value>; 2] {
    // Its exit status is that of the worst finding.
    let output = braid(&["doctor", "--no-smart", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| {
        finding["code"] == "unfinished-replication"
            && finding["what"].as_str().unwrap().contains(text(snapshots))
    });
    let (elsewhere, here) = findings
        .cloned()
        .partition(|finding| finding["what"].as_str().unwrap().contains(", ordered on "));
    [here, elsewhere]
}

/// Does what the doctor says, as it stands.
fn mend(finding: &Value) {
    let path = format!(
        "{}:{}",
        Path::new(BRAID).parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mend = finding["mend"].as_str().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", mend]).env("PATH", path).env("BRAID_POOL_STATE_DIR", register());
    assert!(shell.status().unwrap().success(), "{mend}");
}

fn braid(arguments: &[&str]) -> Output {
    program().arg("pool").args(arguments).output().unwrap()
}

/// Its JSON; it must succeed.
fn json(arguments: &[&str]) -> Value {
    let output = braid(&[arguments, &["--json"]].concat());
    let text = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "braid pool {arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it says when it fails.
fn failure(arguments: &[&str]) -> String {
    let output = braid(arguments);
    assert!(!output.status.success(), "braid pool {arguments:?} should fail");
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Two filesystems, one with a subvolume full of files.
struct Scene {
    folder: tempfile::TempDir,
    data: PathBuf,
    snapshots: PathBuf,
    replicas: PathBuf,
    _here: Btrfs,
    _there: Btrfs,
}

/// A remote shell that stays on this computer.
fn shell_in(folder: &Path) -> String {
    let path = folder.join("shell");
    fs::write(&path, "#!/bin/sh\nshift\nexec $*\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    text(&path).to_owned()
}

fn key_in(folder: &Path) -> PathBuf {
    let path = folder.join("key");
    fs::write(&path, "a key of enough characters\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A listener in a process of its own, once it hears.
fn listening(port: u16, key: &Path, arguments: &[&str]) -> Process {
    let address = format!("127.0.0.1:{port}");
    let listener = program()
        .arg("pool")
        .args(arguments)
        .args(["--serve", &address, "--key", text(key)])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(&address).is_err() {
        assert!(Instant::now() < until, "nobody listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    Process(listener)
}

impl Scene {
    fn new(big: usize) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let size = ByteSize::from_bytes(3 << 30);
        let here = Btrfs::new(folder.path(), "here", size);
        let there = Btrfs::new(folder.path(), "there", size);
        let data = here.subvolume("my data");
        fill(&data, 1, big);
        let snapshots = here.path.join("snapshots of mine");
        let replicas = there.path.join("replicas");
        Scene { folder, data, snapshots, replicas, _here: here, _there: there }
    }

    /// Takes a snapshot; returns its path.
    fn snapshot(&self) -> PathBuf {
        let taken = json(&["snapshot", "--into", text(&self.snapshots), text(&self.data)]);
        taken["snapshots"][0]["snapshot"].as_str().unwrap().into()
    }

    fn shell(&self) -> String {
        shell_in(self.folder.path())
    }

    fn key(&self) -> PathBuf {
        key_in(self.folder.path())
    }

    fn listen(&self, port: u16) -> Process {
        listening(port, &self.key(), &["replicate", "--into", text(&self.replicas)])
    }

    /// As after a crash of the system: only the checkpoint that was made when
    /// the connection broke can be trusted.
    fn distrust_the_note(&self) {
        let inside = self.replicas.join(".braid-replica");
        let lock = fs::File::open(inside.join("lock")).unwrap();
        // Once the receiver is through with the broken connection.
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
        let path = inside.join("begun.json");
        let mut journal: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert!(journal["content"]["checkpoint"].is_object(), "{journal}");
        journal["content"]["note"] = Value::Null;
        fs::write(&path, journal.to_string()).unwrap();
    }

    fn verify(&self) {
        let found = json(&["verify", text(&self.snapshots), text(&self.replicas)]);
        assert_eq!(found["same"], true, "{found}");
    }
}

/// Killed when dropped.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that nobody listens on, for now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The wire between both ends: counts what goes over, and holds everything back
/// once a given number of bytes have.
#[derive(Default)]
struct Wire {
    passed: AtomicU64,
    cut_at: AtomicU64,
    /// The first connection to be cut isn't ended: what is said on it goes nowhere.
    hangs: AtomicBool,
}

impl Wire {
    fn open(to: u16) -> (Arc<Wire>, u16) {
        let wire = Arc::new(Wire::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&wire);
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Ok(called) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let back = (called.try_clone().unwrap(), caller.try_clone().unwrap());
                let hung = Arc::new(AtomicBool::new(false));
                let (shared, both) = (Arc::clone(&shared), Arc::clone(&hung));
                std::thread::spawn(move || forward_back(back.0, back.1, &both));
                std::thread::spawn(move || shared.forward(caller, called, &hung));
            }
        });
        (wire, port)
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream, hung: &AtomicBool) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if hung.load(Ordering::SeqCst) {
                continue;
            }
            if self.is_cut() && self.hangs.swap(false, Ordering::SeqCst) {
                self.cut_at.store(u64::MAX, Ordering::SeqCst);
                hung.store(true, Ordering::SeqCst);
                continue;
            }
            self.passed.fetch_add(read as u64, Ordering::SeqCst);
            let is_cut = self.is_cut() && !self.hangs.load(Ordering::SeqCst);
            if is_cut || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        if hung.load(Ordering::SeqCst) {
            // What one end does is not told to the other.
            std::mem::forget((from, to));
            return;
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    fn is_cut(&self) -> bool {
        self.passed.load(Ordering::SeqCst) >= self.cut_at.load(Ordering::SeqCst)
    }
}

fn forward_back(mut from: TcpStream, mut to: TcpStream, hung: &AtomicBool) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !hung.load(Ordering::SeqCst) && to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
}

/// Cut 20 times at random points, by killing either end or the connection: what
/// is complete is the same, and hardly more went over the wire than one stream.
#[test]
fn a_replication_that_is_cut_again_and_again_completes() {
    in_private_mounts("a_replication_that_is_cut_again_and_again_completes", || {
        const BIG: u64 = 160 << 20;
        let scene = Scene::new(BIG as usize);
        let first = scene.snapshot();
        let port = free_port();
        let mut listener = scene.listen(port);
        let (wire, wire_port) = Wire::open(port);
        let to = format!("tcp://127.0.0.1:{wire_port}");
        let key = scene.key();
        let send = || {
            let arguments = ["replicate", "--json", "--retries", "0", "--key", text(&key)];
            let sender = program()
                .arg("pool")
                .args(arguments)
                .args([text(&scene.snapshots), &to])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            Process(sender.unwrap())
        };
        let mut random = fastrand::Rng::with_seed(20);
        for cut in 0..20 {
            let step = random.u64(BIG / 40..BIG / 20);
            wire.cut_at.store(wire.passed.load(Ordering::SeqCst) + step, Ordering::SeqCst);
            let mut sender = send();
            let until = Instant::now() + Duration::from_secs(60);
            while !wire.is_cut() {
                assert!(sender.0.try_wait().unwrap().is_none(), "complete after {cut} cuts");
                assert!(Instant::now() < until, "it hangs");
                std::thread::sleep(Duration::from_millis(1));
            }
            match random.u8(0..3) {
                0 => sender.end(),
                1 => {
                    listener.end();
                    assert!(!sender.0.wait().unwrap().success());
                    listener = scene.listen(port);
                }
                _ => {
                    assert!(!sender.0.wait().unwrap().success());
                    scene.distrust_the_note();
                }
            }
        }
        assert!(!scene.replicas.join(first.file_name().unwrap()).exists());
        // Both ends tell of it, once the other one has noticed.
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let [sent, received] = told_of(&scene.snapshots);
            if let ([sent], [received]) = (&sent[..], &received[..]) {
                let what = received["what"].as_str().unwrap();
                assert!(what.contains("and it goes on from there"), "{received}");
                let again = sent["mend"].as_str().unwrap();
                assert!(received["mend"].as_str().unwrap().starts_with(again), "{received}");
                break;
            }
            assert!(Instant::now() < until, "{sent:?}, {received:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        wire.cut_at.store(u64::MAX, Ordering::SeqCst);
        let mut sender = send();
        let mut out = String::new();
        sender.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert!(sender.0.wait().unwrap().success());
        let report: Value = serde_json::from_str(&out).unwrap();
        let stream = report["snapshots"][0]["stream_bytes"].as_u64().unwrap();
        let sent = wire.passed.load(Ordering::SeqCst);
        println!("stream {stream}, over the wire {sent}: {:.4}", sent as f64 / stream as f64);
        assert!(sent * 10 <= stream * 11, "{sent} bytes for a stream of {stream}");
        // The listener's last word to itself may come a little later.
        let until = Instant::now() + Duration::from_secs(60);
        while told_of(&scene.snapshots).iter().any(|told| !told.is_empty()) {
            assert!(Instant::now() < until, "{:?}", told_of(&scene.snapshots));
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(listener);
        scene.verify();
    });
}

/// A connection that hangs, with nobody told of its death: both ends notice by the other's silence,
/// and go on over a new one.
#[test]
fn a_replication_outlives_a_connection_that_hangs() {
    in_private_mounts("a_replication_outlives_a_connection_that_hangs", || {
        let scene = Scene::new(60 << 20);
        let name = scene.snapshot();
        let port = free_port();
        let _listener = scene.listen(port);
        let (wire, wire_port) = Wire::open(port);
        wire.cut_at.store(20 << 20, Ordering::SeqCst);
        wire.hangs.store(true, Ordering::SeqCst);
        let to = format!("tcp://127.0.0.1:{wire_port}");
        let report = json(&["replicate", "--key", text(&scene.key()), text(&scene.snapshots), &to]);
        assert_eq!(report["reconnects"], 1, "{report}");
        let sent = &report["snapshots"][0];
        assert!(sent["resumed_at"].as_u64().unwrap() >= 10 << 20, "{report}");
        assert!(scene.replicas.join(name.file_name().unwrap()).exists());
        scene.verify();
    });
}

/// Snapshots are taken, replicated, verified, restored and deleted; what would
/// harm is refused.
#[test]
fn the_life_of_snapshots() {
    in_private_mounts("the_life_of_snapshots", || {
        let scene = Scene::new(1 << 20);
        let first = scene.snapshot();
        let name = first.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("my data.2") && name.ends_with('Z'), "{name}");
        change(&scene.data, 1, 1 << 20);
        let second = scene.snapshot();

        // What an interrupted `btrfs receive` left isn't Braid's to delete.
        fs::create_dir_all(&scene.replicas).unwrap();
        let left = scene.replicas.join(name);
        let made = Command::new("btrfs").args(["-q", "subvolume", "create", text(&left)]).status();
        assert!(made.unwrap().success());
        let shell = scene.shell();
        let to = format!("elsewhere:{}", text(&scene.replicas));
        let reach = ["--rsh", &shell, "--remote-braid", BRAID];
        let push = [&["replicate"], &reach[..], &[text(&scene.snapshots), &to]].concat();
        let refused = failure(&push);
        assert!(refused.contains("interrupted `btrfs receive`"), "{refused}");
        assert!(left.exists());
        fs::remove_dir(&left).unwrap();

        // Pushed, compared from here, and pulled back to another folder.
        let report = json(&push);
        assert_eq!(report["snapshots"].as_array().unwrap().len(), 2, "{report}");
        assert_eq!(report["snapshots"][1]["parent"], name);
        let remote = [&["verify"], &reach[..], &[text(&scene.snapshots), &to]].concat();
        assert_eq!(json(&remote)["same"], true);
        let pulled = scene.snapshots.with_file_name("pulled");
        let pull = [&["replicate"], &reach[..], &[&to, text(&pulled)]].concat();
        assert_eq!(json(&pull)["snapshots"].as_array().unwrap().len(), 2);

        // The original itself is no replica of it, by whatever name.
        let other_name = scene.folder.path().join("other name");
        std::os::unix::fs::symlink(&scene.snapshots, &other_name).unwrap();
        for itself in [&scene.snapshots, &other_name] {
            let said = failure(&["verify", text(&scene.snapshots), text(itself)]);
            assert!(said.contains("is the original itself"), "{said}");
        }
        // A folder that is made is told of.
        let new = scene.snapshots.with_file_name("new");
        let take = ["snapshot", "--into", text(&new), text(&scene.data), "--dry-run"];
        let said = String::from_utf8(braid(&take).stderr).unwrap();
        assert!(said.contains("doesn't exist yet: it would be made"), "{said}");

        // A replica that was changed is noticed.
        let copy = scene.replicas.join("changed");
        json(&["restore", text(&second), "--to", text(&copy)]);
        let file = copy.join("a folder/deeper/file 7");
        let mut bytes = fs::read(&file).unwrap();
        bytes.push(1);
        fs::write(&file, bytes).unwrap();
        let output = braid(&["verify", text(&second), text(&copy), "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let differences = found["compared"][0]["differences"].as_array().unwrap();
        assert_eq!(differences.len(), 1, "{found}");
        assert_eq!(differences[0]["path"], "a folder/deeper/file 7");

        // One file comes back; what is there stays unless told, and then is moved aside.
        let from = first.join("a folder/deeper/file 1");
        let to_file = scene.data.join("a folder/deeper/file 1");
        assert!(failure(&["restore", text(&from), "--to", text(&to_file)]).contains("--replace"));
        let restored = json(&["restore", text(&from), "--to", text(&to_file), "--replace"]);
        assert_eq!(fs::read(&from).unwrap(), fs::read(&to_file).unwrap());
        assert!(Path::new(restored["moved_aside"].as_str().unwrap()).exists());
        let astray = scene.snapshots.join("not/there");
        let said = failure(&["restore", text(&first), "--to", text(&astray)]);
        assert!(said.contains("mkdir -p") && !said.contains("what was copied"), "{said}");
        let again = scene.snapshots.with_file_name("again");
        let restored = json(&["restore", text(&first), "--to", text(&again)]);
        assert_eq!(restored["method"], "subvolume");
        fs::write(again.join("writable"), "x").unwrap();

        // The newest and the replicas' parent stay, whatever the policy says.
        // The policy's one second ends with the newest: the first is to lie before.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let third = scene.snapshot();
        let retain = ["retain", text(&scene.snapshots), "--policy", "1x1s(keep=1)"];
        let dry = json(&[&retain[..], &["--dry-run"]].concat());
        assert_eq!(dry["deleted"], 0);
        assert!(dry.to_string().contains("last-common-parent"), "{dry}");
        assert_eq!(json(&[&retain[..], &["--yes"]].concat())["deleted"], 1);
        assert!(!first.exists() && second.exists() && third.exists());
        let report = json(&push);
        assert_eq!(report["snapshots"][0]["parent"], second.file_name().unwrap().to_str().unwrap());
        scene.verify();
    });
}

#[test]
fn a_listener_is_refused_before_a_key_is_made_and_for_a_key_that_others_read() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |at: &str, key: &Path| {
        let into = text(folder.path());
        failure(&["replicate", "--serve", at, "--into", into, "--key", text(key)])
    };
    let key = folder.path().join("new key");
    let said = serve("0.0.0.0:1", &key);
    assert!(said.contains("every address") && !key.exists(), "{said}");
    let key = key_in(folder.path());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let said = serve("127.0.0.1:1", &key);
    assert!(said.contains("others can read the key: chmod 600"), "{said}");
}

/// The doctor's command completes what was killed; what is forgotten isn't told any more.
#[test]
fn a_killed_replication_is_told_and_mended_or_forgotten() {
    in_private_mounts("a_killed_replication_is_told_and_mended_or_forgotten", || {
        let scene = Scene::new(20 << 20);
        scene.snapshot();
        let part = scene.replicas.join(".braid-replica.part/big");
        let ended_by = |signal: i32| {
            let mut sender = Process(
                program()
                    .args(["pool", "replicate", "--limit", "40Mbit"])
                    .args([&scene.snapshots, &scene.replicas])
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap(),
            );
            let until = Instant::now() + Duration::from_secs(60);
            while fs::metadata(&part).map_or(0, |about| about.len()) < 2 << 20 {
                assert!(Instant::now() < until, "it doesn't get on");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(told_of(&scene.snapshots).iter().all(Vec::is_empty), "somebody is at work");
            // SAFETY: no pointers.
            assert_eq!(unsafe { libc::kill(sender.0.id() as i32, signal) }, 0);
            let status = sender.0.wait().unwrap();
            assert_eq!(status.signal(), Some(signal));
            let mut said = String::new();
            sender.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            let is_told = said.contains("interrupted: repeat the command");
            assert_eq!(is_told, signal == libc::SIGINT, "{said}");
            let [told, none] = told_of(&scene.snapshots);
            assert_eq!((told.len(), none.len()), (1, 0), "{told:?} {none:?}");
            told[0].clone()
        };
        ended_by(libc::SIGINT);
        // As the sender notes it when a connection breaks.
        let records = scene.snapshots.join(".braid-replicas.json");
        let stream = json!({
            "uuid": "01010101-0101-0101-0101-010101010101", "parent": null,
            "kind": { "version": 1, "compressed": false },
        });
        let sending = json!({ "sending": { "stream": stream, "bytes": 1, "tries": 1 } });
        let place = format!("here:{}", text(&scene.replicas));
        let noted = json!({ "replicas": { &place: sending } });
        fs::write(&records, noted.to_string()).unwrap();
        let forgotten = json(&["replicate", "--forget", text(&scene.replicas)]);
        assert_eq!(forgotten["forgotten"], 1, "{forgotten}");
        let noted: Value = serde_json::from_slice(&fs::read(&records).unwrap()).unwrap();
        let noted = &noted["content"];
        assert!(noted["replicas"].is_object(), "{noted}");
        assert!(noted["replicas"][&place]["sending"].is_null(), "{noted}");
        assert!(!part.exists());
        assert!(told_of(&scene.snapshots).iter().all(Vec::is_empty), "it is told still");

        // That it is complete elsewhere ends nothing; what is told does, also when the disk that
        // it was for is gone.
        ended_by(libc::SIGINT);
        let elsewhere = scene.replicas.with_file_name("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        json(&["replicate", text(&scene.snapshots), text(&elsewhere)]);
        let [told, _] = told_of(&scene.snapshots);
        let what = told[0]["what"].as_str().unwrap();
        let (_, command) = what.split_once("braid pool ").unwrap();
        let command = command.split(')').next().unwrap();
        let gone = scene.replicas.with_file_name("gone");
        fs::rename(&scene.replicas, &gone).unwrap();
        let forgotten = json(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(forgotten["forgotten"], 1, "{command}: {forgotten}");
        assert!(told_of(&scene.snapshots).iter().all(Vec::is_empty), "it is told still");
        fs::rename(&gone, &scene.replicas).unwrap();
        json(&["replicate", "--forget", text(&scene.replicas)]);

        mend(&ended_by(libc::SIGKILL));
        assert!(told_of(&scene.snapshots).iter().all(Vec::is_empty), "it is told still");
        scene.verify();
    });
}

/// On a filesystem that isn't btrfs the streams themselves are kept: cut and gone on with,
/// verified, thinned out without losing what others build on, restored, and replicated back.
#[test]
fn a_folder_without_btrfs_keeps_the_streams() {
    in_private_mounts("a_folder_without_btrfs_keeps_the_streams", || {
        let scene = Scene::new(30 << 20);
        let archive = scene.folder.path().join("plain");
        fs::create_dir(&archive).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none", text(&archive)]).status();
        assert!(mounted.unwrap().success());
        let first = scene.snapshot();

        // The same command goes on.
        begin_and_kill(&scene, &archive);
        let [told, _] = told_of(&scene.snapshots);
        assert!(told[0]["what"].as_str().unwrap().contains("it goes on from there"), "{told:?}");
        let to_archive = ["replicate", text(&scene.snapshots), text(&archive)];
        let dry = [&to_archive[..], &["--dry-run"]].concat();
        assert_eq!(json(&dry)["snapshots"].as_array().unwrap().len(), 1);
        let report = json(&to_archive);
        assert_eq!(json(&dry), serde_json::json!({ "snapshots": [], "already_there": 1 }));
        assert!(report["snapshots"][0]["resumed_at"].as_u64().unwrap() >= 4 << 20, "{report}");
        for seed in 1..4 {
            change(&scene.data, seed, 1 << 20);
            scene.snapshot();
            let report = json(&to_archive);
            assert_eq!(report["snapshots"].as_array().unwrap().len(), 1, "{report}");
            assert!(report["snapshots"][0]["stream_bytes"].as_u64().unwrap() < 3 << 20, "{report}");
        }
        let last = json(&["snapshot", "--list", "--into", text(&scene.snapshots)]);
        let names: Vec<&str> =
            (0..4).map(|number| last["snapshots"][number]["name"].as_str().unwrap()).collect();
        let stored = |number: usize| archive.join(format!("{}.btrfs-stream", names[number]));

        // By the files' own hashes, and against the originals.
        assert_eq!(json(&["verify", text(&archive)])["same"], true);
        let found = json(&["verify", text(&scene.snapshots), text(&archive)]);
        assert_eq!(
            (&found["same"], found["compared"].as_array().unwrap().len()),
            (&true.into(), 4)
        );

        // The same from another computer, which hashes its files itself.
        let shell = scene.shell();
        let far = format!("elsewhere:{}", text(&archive));
        let reach = ["--rsh", &shell, "--remote-braid", BRAID];
        let remote = [&["verify"], &reach[..], &[text(&scene.snapshots), &far]].concat();
        let found = json(&remote);
        assert_eq!(
            (&found["same"], found["compared"].as_array().unwrap().len()),
            (&true.into(), 4)
        );
        assert_eq!(json(&[&["verify"], &reach[..], &[&far]].concat())["same"], true);

        // Nothing goes that the newest builds on.
        let retain = ["retain", text(&archive), "--policy", "1x1s(keep=1)", "--yes"];
        let kept = json(&retain);
        assert_eq!(kept["deleted"], 0, "{kept}");
        assert!(kept.to_string().contains("base-of"), "{kept}");

        // Back, as one subvolume and as replicas.
        let back = scene.replicas.with_file_name("back");
        let restored = json(&["restore", text(&stored(3)), "--to", text(&back)]);
        assert_eq!(restored["method"], "streams");
        let newest = scene.snapshots.join(names[3]);
        assert_eq!(json(&["verify", text(&newest), text(&back)])["same"], true);
        assert_eq!(fs::read_dir(back.parent().unwrap()).unwrap().count(), 1);
        json(&["replicate", text(&archive), text(&scene.replicas)]);
        scene.verify();

        rot(&stored(1));
        for args in [&["verify", text(&archive)][..], &remote] {
            finds_one(args);
        }
        assert!(first.exists());
        // A base that is lost is found too.
        fs::remove_file(stored(0)).unwrap();
        let output = braid(&["restore", text(&stored(3)), "--to", text(&back.with_file_name("x"))]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("isn't there"), "{said}");
    });
}

/// A replication to the archive that is killed in the middle.
fn begin_and_kill(scene: &Scene, archive: &Path) {
    let part = archive.join(".braid-archive/part");
    let mut sender = Process(
        program()
            .args(["pool", "replicate", "--limit", "100Mbit"])
            .args([scene.snapshots.as_path(), archive])
            .spawn()
            .unwrap(),
    );
    let until = Instant::now() + Duration::from_secs(60);
    while fs::metadata(&part).map_or(0, |about| about.len()) < 5 << 20 {
        assert!(Instant::now() < until, "it doesn't get on");
        std::thread::sleep(Duration::from_millis(10));
    }
    sender.end();
}

/// One bit of it.
fn rot(stream: &Path) {
    let mut bytes = fs::read(stream).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(stream, bytes).unwrap();
}

/// A verification finds one snapshot that differs.
fn finds_one(args: &[&str]) {
    let output = braid(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let compared = found["compared"].as_array().unwrap();
    let differs = |one: &&Value| !one["differences"].as_array().unwrap().is_empty();
    assert_eq!(compared.iter().filter(differs).count(), 1, "{found}");
}

/// A system of another computer: fetched by ssh with a break, and from a listener that gives
/// nothing else.
#[test]
fn a_system_comes_from_another_computer() {
    in_private_mounts("a_system_comes_from_another_computer", || {
        let folder = tempfile::tempdir().unwrap();
        let disk = |name| Btrfs::new(folder.path(), name, ByteSize::from_bytes(2 << 30));
        let (old, new, other) = (disk("old"), disk("new"), disk("other"));
        let root = old.subvolume("@");
        let home = old.subvolume("@/my home");
        fill(&home, 5, 30 << 20);
        fs::create_dir(root.join("etc")).unwrap();
        let id =
            |btrfs: &Btrfs| json(&["clone", text(&btrfs.path), text(&other.path), "--dry-run"]);
        fs::write(root.join("etc/fstab"), "UUID=x / btrfs subvol=@ 0 0\n").unwrap();
        let uuid = id(&old)["from"].as_str().unwrap().to_owned();
        fs::write(root.join("etc/fstab"), format!("UUID={uuid} / btrfs subvol=@ 0 0\n")).unwrap();
        let (boot, new_boot) = (folder.path().join("boot"), folder.path().join("new boot"));
        for path in [&boot, &new_boot] {
            fs::create_dir(path).unwrap();
        }
        fs::write(boot.join("kernel"), "x").unwrap();

        let shell = shell_in(folder.path());
        let from = format!("elsewhere:{}", text(&old.path));
        let clone = ["clone", "--rsh", &shell, "--remote-braid", BRAID, &from, text(&new.path)];
        let beside = ["--beside", text(&boot), text(&new_boot)];
        let to_new = [&clone[..], &beside].concat();
        assert_eq!(json(&[&to_new[..], &["--dry-run"]].concat())["from"], uuid.as_str());
        let mut killed = Process(
            program()
                .arg("pool")
                .args(&to_new)
                .args(["--yes", "--limit", "60Mbit"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let part = new.path.join(".braid-clone/.braid-replica.part/big");
        let until = Instant::now() + Duration::from_secs(60);
        while fs::metadata(&part).map_or(0, |about| about.len()) < 8 << 20 {
            assert!(Instant::now() < until, "it doesn't get on");
            std::thread::sleep(Duration::from_millis(20));
        }
        killed.end();
        let cloned = json(&[&to_new[..], &["--yes"]].concat());
        assert_eq!(cloned["rewritten"], serde_json::json!(["@/etc/fstab"]), "{cloned}");
        let is_same = |new: &Btrfs| {
            let copy = new.path.join("@/my home");
            assert_eq!(json(&["verify", text(&home), text(&copy)])["same"], true);
            let fstab = fs::read_to_string(new.path.join("@/etc/fstab")).unwrap();
            assert!(fstab.contains(" / btrfs") && !fstab.contains(&uuid), "{fstab}");
        };
        is_same(&new);
        assert_eq!(fs::read_to_string(new_boot.join("kernel")).unwrap(), "x");
        assert!(!old.path.join(".braid-clone").exists(), "the old system is changed");

        let (port, key) = (free_port(), key_in(folder.path()));
        let _listener = listening(port, &key, &["clone", text(&old.path)]);
        let from = format!("tcp://127.0.0.1:{port}");
        let clone = ["clone", &from, text(&other.path), "--key", text(&key), "--yes"];
        let refused = failure(&[&clone[..], &beside].concat());
        assert!(refused.contains("takes no part in booting"), "{refused}");
        let refused = failure(&["replicate", "--key", text(&key), &from, text(&new.path)]);
        assert!(refused.contains("only offers its system"), "{refused}");
        // What the refused one began is gone on with.
        json(&clone);
        is_same(&other);
        let again = failure(&clone);
        assert!(again.contains("isn't empty"), "{again}");
    });
}
