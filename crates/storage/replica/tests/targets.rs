//! Replicas go where they are meant to, or nowhere.

use braid_loop_disks::{Btrfs, fill, in_private_mounts, run};
use braid_replica::register::{Order, Register};
use braid_replica::replicate::{Connector, Outcome, Place, Replication};
use braid_replica::restore::Restoration;
use braid_replica::source::SendOptions;
use braid_units::ByteSize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

struct Scene {
    folder: tempfile::TempDir,
    data: PathBuf,
    snapshots: PathBuf,
    _here: Btrfs,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let here = Btrfs::new(folder.path(), "here", ByteSize::from_bytes(1 << 30));
        let (data, snapshots) = (here.subvolume("data"), here.path.join("snapshots"));
        fs::create_dir(&snapshots).unwrap();
        fill(&data, 1, 1 << 20);
        let scene = Scene { folder, data, snapshots, _here: here };
        scene.snapshot("data.1");
        scene
    }

    fn snapshot(&self, name: &str) {
        let to = self.snapshots.join(name);
        let paths = [self.data.to_str().unwrap(), to.to_str().unwrap()];
        run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    fn replicate(&self, to: &Path, anew: bool) -> Result<Outcome, String> {
        let replication = Replication {
            from: Place::Local(self.snapshots.clone()),
            to: Place::Local(to.to_owned()),
            newest: false,
            anew,
            retries: 0,
            connector: Connector::default(),
            options: SendOptions::default(),
            order: Order {
                host: String::new(),
                from: String::new(),
                to: String::new(),
                words: vec![],
            },
            register: Register::new(self.folder.path().join("register")),
        };
        replication.run(|_, _| {}).map_err(|error| error.to_string())
    }
}

fn mount_tmpfs(at: &Path) {
    run("mount", &["-t", "tmpfs", "-o", "size=64m", "none", at.to_str().unwrap()]);
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn nothing_is_written_where_a_disk_is_not_mounted() {
    in_private_mounts("nothing_is_written_where_a_disk_is_not_mounted", || {
        let scene = Scene::new();
        let (disk, etc) = (scene.folder("my disk"), scene.folder("etc"));
        // A host's own fstab, as only this test sees it.
        fs::write(etc.join("fstab"), "").unwrap();
        let line = format!(
            "LABEL=full {} btrfs noauto 0 0\n",
            disk.display().to_string().replace(' ', "\\040")
        );
        fs::write(etc.join("fstab"), line).unwrap();
        run("mount", &["--bind", etc.to_str().unwrap(), "/etc"]);
        for to in [disk.clone(), disk.join("replicas")] {
            let refused = scene.replicate(&to, true).unwrap_err();
            assert!(refused.contains("LABEL=full") && refused.contains("mount"), "{refused}");
        }
        assert!(is_empty(&disk));
        let from = scene.snapshots.join("data.1");
        let restoration = Restoration { from, to: disk.join("back"), replace: false };
        let refused = restoration.carry_out(SystemTime::now()).unwrap_err().to_string();
        assert!(refused.contains("LABEL=full"), "{refused}");
        assert!(is_empty(&disk));
        mount_tmpfs(&disk);
        scene.replicate(&disk.join("replicas"), false).unwrap();
        assert!(disk.join("replicas/data.1.btrfs-stream").is_file());
        run("umount", &[disk.to_str().unwrap()]);

        let nowhere = scene.folder.path().join("nope/x");
        let refused = scene.replicate(&nowhere, false).unwrap_err();
        assert!(refused.contains("isn't there"), "{refused}");
        assert!(!nowhere.parent().unwrap().exists());
    });
}

#[test]
fn a_target_that_is_another_one_now_is_refused() {
    in_private_mounts("a_target_that_is_another_one_now_is_refused", || {
        let scene = Scene::new();
        let there = Btrfs::new(scene.folder.path(), "there", ByteSize::from_bytes(1 << 30));
        let replicas = there.path.join("replicas");
        scene.replicate(&replicas, false).unwrap();
        scene.snapshot("data.2");
        // As if it weren't mounted: something else is there, of another kind and of the same.
        mount_tmpfs(&there.path);
        for _ in 0..2 {
            let refused = scene.replicate(&replicas, false).unwrap_err();
            assert!(refused.contains("--anew") && refused.contains("data.1"), "{refused}");
        }
        assert!(!replicas.join("data.1.btrfs-stream").exists());
        // A second disk that takes turns with the first: told once, known from then on.
        assert_eq!(scene.replicate(&replicas, true).unwrap().report.snapshots.len(), 2);
        scene.snapshot("data.3");
        assert_eq!(scene.replicate(&replicas, false).unwrap().report.snapshots.len(), 1);
        run("umount", &[there.path.to_str().unwrap()]);
        let report = scene.replicate(&replicas, false).unwrap().report;
        assert_eq!((report.snapshots.len(), report.already_there), (2, 1));
        assert!(report.snapshots.iter().all(|sent| sent.parent.is_some()), "differences");
    });
}
