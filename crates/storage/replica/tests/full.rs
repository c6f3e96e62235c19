//! A target that runs full stops in time, says so, and can be freed.

use braid_loop_disks::{Btrfs, LoopDisk, in_private_mounts, run};
use braid_replica::register::{Order, Register};
use braid_replica::replicate::{Connector, Outcome, Place, Replication};
use braid_replica::source::SendOptions;
use braid_replica::{retain, sink};
use braid_units::ByteSize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

struct Scene {
    folder: tempfile::TempDir,
    snapshots: PathBuf,
    _here: Btrfs,
}

impl Scene {
    /// With a snapshot of so many bytes that can't be compressed.
    fn new(bytes: usize) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let here = Btrfs::new(folder.path(), "here", ByteSize::from_bytes(2 << 30));
        let (data, snapshots) = (here.subvolume("data"), here.path.join("snapshots"));
        fs::create_dir(&snapshots).unwrap();
        let mut big = vec![0; bytes];
        blake3::Hasher::new().finalize_xof().fill(&mut big);
        fs::write(data.join("big"), big).unwrap();
        let to = snapshots.join("data.1");
        let paths = [data.to_str().unwrap(), to.to_str().unwrap()];
        run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
        Scene { folder, snapshots, _here: here }
    }

    fn replicate(&self, to: &Path) -> Result<Outcome, String> {
        let order =
            Order { host: String::new(), from: String::new(), to: String::new(), words: vec![] };
        let replication = Replication {
            from: Place::Local(self.snapshots.clone()),
            to: Place::Local(to.to_owned()),
            newest: false,
            anew: false,
            retries: 0,
            connector: Connector::default(),
            options: SendOptions::default(),
            order,
            register: Register::new(self.folder.path().join("register")),
        };
        replication.run(|_, _| {}).map_err(|error| error.to_string())
    }
}

/// Nothing more goes in: neither data nor, in small files, names.
fn fill_up(folder: &Path) {
    let block = vec![7u8; 1 << 20];
    let mut file = fs::File::create(folder.join("filler")).unwrap();
    while file.write_all(&block).is_ok() {}
    let _ = file.sync_all();
    for number in 0..5_000 {
        if fs::write(folder.join(format!("small {number}")), &block[..1500]).is_err() {
            break;
        }
    }
    run("sync", &["-f", folder.to_str().unwrap()]);
}

fn free(folder: &Path) -> u64 {
    let about = rustix::fs::statvfs(folder).unwrap();
    about.f_bavail * about.f_frsize
}

/// What had come is kept while some room is left; then it is given up, in a target that has no room
/// at all.
fn runs_full_and_is_freed(scene: &Scene, top: &Path) {
    let replicas = top.join("replicas");
    let refused = scene.replicate(&replicas).unwrap_err();
    assert!(refused.contains("free") && refused.contains("--forget"), "{refused}");
    assert!(free(top) > 4 << 20, "{} bytes are left", free(top));
    assert!(sink::half_received(&replicas).unwrap().is_some_and(|half| half.bytes > 32 << 20));
    // It doesn't even begin.
    assert_eq!(scene.replicate(&replicas).unwrap_err(), refused);

    fill_up(top);
    let refused = scene.replicate(&replicas).unwrap_err();
    assert!(refused.contains("--forget"), "{refused}");
    assert!(sink::abandon(&replicas).unwrap().is_some());
    assert!(sink::half_received(&replicas).unwrap().is_none());
    run("sync", &["-f", top.to_str().unwrap()]);
}

#[test]
fn a_full_btrfs_is_freed() {
    in_private_mounts("a_full_btrfs_is_freed", || {
        let scene = Scene::new(400 << 20);
        let there = Btrfs::new(scene.folder.path(), "there", ByteSize::from_bytes(300 << 20));
        runs_full_and_is_freed(&scene, &there.path);
        // What is deleted is cleaned up behind a commit.
        run("btrfs", &["-q", "filesystem", "sync", there.path.to_str().unwrap()]);
        run("btrfs", &["-q", "subvolume", "sync", there.path.to_str().unwrap()]);
        // What statfs says is wary where there is no room for more metadata.
        fs::write(there.path.join("again"), vec![1; 32 << 20]).unwrap();
    });
}

#[test]
fn snapshots_on_a_full_disk_are_thinned_out() {
    in_private_mounts("snapshots_on_a_full_disk_are_thinned_out", || {
        let folder = tempfile::tempdir().unwrap();
        let here = Btrfs::new(folder.path(), "here", ByteSize::from_bytes(256 << 20));
        let (data, snapshots) = (here.subvolume("data"), here.path.join("snapshots"));
        fs::create_dir(&snapshots).unwrap();
        for name in ["data.20240101T000000Z", "data.20250101T000000Z"] {
            let to = snapshots.join(name);
            let paths = [data.to_str().unwrap(), to.to_str().unwrap()];
            run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
        }
        fill_up(&here.path);
        let policy = "1x1s(keep=1)".parse().unwrap();
        let verdicts = retain::judge(&snapshots, &policy, SystemTime::now()).unwrap();
        assert_eq!(retain::carry_out(&snapshots, &policy, &verdicts).unwrap(), 1);
        assert!(!snapshots.join("data.20240101T000000Z").exists());
    });
}

#[test]
fn a_full_folder_of_streams_is_freed() {
    in_private_mounts("a_full_folder_of_streams_is_freed", || {
        let scene = Scene::new(200 << 20);
        let disk = LoopDisk::new(scene.folder.path(), "ext4.img", ByteSize::from_bytes(128 << 20))
            .unwrap();
        run("mkfs.ext4", &["-q", disk.path()]);
        let top = scene.folder.path().join("ext4");
        fs::create_dir(&top).unwrap();
        run("mount", &[disk.path(), top.to_str().unwrap()]);
        runs_full_and_is_freed(&scene, &top);
        assert!(free(&top) > 32 << 20, "{}", free(&top));
        run("umount", &[top.to_str().unwrap()]);
    });
}
