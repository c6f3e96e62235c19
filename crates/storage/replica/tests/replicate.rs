//! Replication inside one computer, on real btrfs.

use braid_loop_disks::{Btrfs, change, fill, in_private_mounts, run};
use braid_replica::register::{Order, Register};
use braid_replica::replicate::{Connector, Place, Replication};
use braid_replica::source::SendOptions;
use braid_replica::{manifest, subvolume};
use braid_units::ByteSize;
use std::path::Path;
use std::sync::atomic::AtomicU64;

fn btrfs(folder: &Path, name: &str) -> Btrfs {
    Btrfs::new(folder, name, ByteSize::from_bytes(2 << 30))
}

fn replicate(from: &Path, to: &Path) -> Result<braid_replica::replicate::Outcome, String> {
    let replication = Replication {
        from: Place::Local(from.to_owned()),
        to: Place::Local(to.to_owned()),
        newest: false,
        anew: false,
        retries: 0,
        connector: Connector::default(),
        options: SendOptions::default(),
        order: Order {
            host: String::new(),
            from: from.display().to_string(),
            to: to.display().to_string(),
            words: vec![],
        },
        register: Register::new(to.parent().unwrap().join("register")),
    };
    replication.run(|_, _| {}).map_err(|error| error.to_string())
}

fn assert_same(one: &Path, other: &Path) {
    let read = |path: &Path| manifest::read(path, 2, &AtomicU64::new(0)).unwrap().lines;
    let differences = manifest::compare(&read(one), &read(other));
    assert_eq!(differences, [], "{} and {}", one.display(), other.display());
}

fn snapshot(of: &Path, to: &Path) {
    let paths = [of.to_str().unwrap(), to.to_str().unwrap()];
    run("btrfs", &["-q", "subvolume", "snapshot", "-r", paths[0], paths[1]]);
}

#[test]
fn replicas_are_the_same_as_their_originals() {
    in_private_mounts("replicas_are_the_same_as_their_originals", || {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (btrfs(folder.path(), "here"), btrfs(folder.path(), "there"));
        let data = here.subvolume("my data");
        let snapshots = here.subvolume("snaps");
        let replicas = there.path.join("replicas of here");
        fill(&data, 1, 10 << 20);
        for number in 1..4 {
            snapshot(&data, &snapshots.join(format!("my data.{number}")));
            change(&data, number, 1 << 20);
        }
        let outcome = replicate(&snapshots, &replicas).unwrap();
        assert_eq!(outcome.report.snapshots.len(), 3);
        assert!(outcome.report.snapshots[0].parent.is_none());
        assert!(outcome.report.snapshots[2].stream_bytes < 3 << 20, "incremental");
        for number in 1..4 {
            let name = format!("my data.{number}");
            assert_same(&snapshots.join(&name), &replicas.join(&name));
            let (_, original) = subvolume::open(&snapshots.join(&name)).unwrap();
            let (_, replica) = subvolume::open(&replicas.join(&name)).unwrap();
            assert!(replica.read_only);
            assert_eq!(replica.received_uuid, Some(original.uuid));
        }
        // Again: nothing to do. And back: the replicas are incremental's parents there too.
        let outcome = replicate(&snapshots, &replicas).unwrap();
        assert_eq!((outcome.report.snapshots.len(), outcome.report.already_there), (0, 3));
        let second = there.path.join("second");
        assert_eq!(replicate(&replicas, &second).unwrap().report.snapshots.len(), 3);
        assert_same(&snapshots.join("my data.3"), &second.join("my data.3"));
        assert!(!replicas.join(".braid-replica.part").exists());
    });
}
