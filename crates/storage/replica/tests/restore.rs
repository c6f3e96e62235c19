//! What comes back, and as what.

use braid_loop_disks::{Btrfs, fill, in_private_mounts, run};
use braid_replica::restore::{Method, Restoration};
use braid_replica::{manifest, snapshot};
use braid_units::ByteSize;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

#[test]
fn a_snapshot_from_another_filesystem_is_a_subvolume_again() {
    in_private_mounts("a_snapshot_from_another_filesystem_is_a_subvolume_again", || {
        let folder = tempfile::tempdir().unwrap();
        let disk = |name| Btrfs::new(folder.path(), name, ByteSize::from_bytes(1 << 30));
        let (here, there) = (disk("here"), disk("there"));
        let data = here.subvolume("data");
        fill(&data, 1, 1 << 20);
        let now = SystemTime::now();
        let taken = snapshot::intend(&[data], &here.path.join("snapshots"), now).unwrap();
        snapshot::take(&taken, &here.path.join("snapshots")).unwrap();
        let from = taken[0].snapshot.clone();

        let to = there.path.join("data");
        let restoration = Restoration { from: from.clone(), to: to.clone(), replace: false };
        let restored = restoration.carry_out(now).unwrap();
        assert_eq!(restored.method, Method::CopiedSubvolume);
        let read = |path: &Path| manifest::read(path, 2, &AtomicU64::new(0)).unwrap().lines;
        assert_eq!(manifest::compare(&read(&from), &read(&to)), []);
        fs::write(to.join("writable"), "x").unwrap();
        // And so the next snapshot can be taken.
        snapshot::intend(&[to], &there.path.join("snapshots"), now).unwrap();

        // Of a folder in it, and where there is no btrfs, a copy is all there can be.
        let plain = folder.path().join("plain");
        fs::create_dir(&plain).unwrap();
        run("mount", &["-t", "tmpfs", "none", plain.to_str().unwrap()]);
        for (from, to) in [(from.join("a folder"), there.path.join("x")), (from, plain.join("x"))] {
            let restored = Restoration { from, to, replace: false }.carry_out(now).unwrap();
            assert_eq!(restored.method, Method::Copy);
        }
        run("umount", &[plain.to_str().unwrap()]);
    });
}

#[test]
fn a_place_elsewhere_is_told_from_a_path_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let said = |from: &str| {
        let to = folder.path().join("to");
        let restoration = Restoration { from: from.into(), to, replace: false };
        restoration.plan(SystemTime::now()).unwrap_err().to_string()
    };
    for place in ["nas:/backup/data.1", "tcp://10.9.0.1:7000/data.1", "ssh://me@nas/backup"] {
        let said = said(place);
        assert!(said.contains("another computer") && said.contains("replicate"), "{said}");
    }
    assert!(said("/no/such/thing").contains("No such file"));
}
