//! Which disks btrfs really reads when one program reads one file, counted in sectors on loop
//! devices.

use braid_diskbench::measure::{self, Measurement, Method, Subject, TestFolder, Watcher};
use braid_diskbench::workload::Workload;
use braid_loop_disks::{LoopDisk, fast_folder, in_private_mounts, run};
use braid_units::ByteSize;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn btrfs_reads_from_the_disks_that_the_model_says() {
    in_private_mounts("btrfs_reads_from_the_disks_that_the_model_says", || {
        // How many disks serve one reader.
        for (profile, disks, used) in [
            ("single", 3, 1),
            ("raid1", 2, 1),
            ("raid1c3", 3, 1),
            ("raid10", 2, 1),
            ("raid0", 3, 3),
            ("raid10", 4, 2),
        ] {
            let measured = btrfs(profile, disks);
            let one = find(&measured, Workload::ReadOne);
            let shares = shares(&one.spread());
            let busy = shares.iter().filter(|share| **share > 0.5 / used as f64).count();
            assert_eq!(busy, used, "{profile} of {disks}: {shares:?}");
            let idle = shares.iter().filter(|share| **share < 0.05).count();
            assert_eq!(idle, disks - used, "{profile} of {disks}: {shares:?}");
            assert_eq!(one.runs.len(), 1);
        }
    });
}

fn btrfs(profile: &str, disks: usize) -> Vec<Measurement> {
    let folder = tempfile::tempdir_in(fast_folder()).unwrap();
    let disks: Vec<LoopDisk> = (0..disks)
        .map(|number| LoopDisk::new(folder.path(), &number.to_string(), mib(512)).unwrap())
        .collect();
    let nodes: Vec<&str> = disks.iter().map(LoopDisk::path).collect();
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    run("mkfs.btrfs", &[&["-q", "-d", profile, "-m", "raid1"], &nodes[..]].concat());
    run("mount", &[nodes[0], mount.to_str().unwrap()]);
    let place = TestFolder {
        folder: mount.clone(),
        disks: nodes.iter().map(|node| (*node).to_owned()).collect(),
    };
    let method = Method {
        profiles: Vec::new(),
        runs: 1,
        time: Duration::from_millis(300),
        size: Some(mib(32)),
        transactions: 0,
    };
    let stop = AtomicBool::new(false);
    let mut watcher = Watcher { tell: &mut |_| {}, stop: &stop };
    let found = measure::files(&place, &[Workload::ReadOne], &method, &mut watcher);
    let left = std::fs::read_dir(&mount).unwrap().count();
    run("umount", &[mount.to_str().unwrap()]);
    assert_eq!(left, 0, "the benchmark leaves nothing");
    found.unwrap()
}

fn find(measured: &[Measurement], workload: Workload) -> &Measurement {
    measured.iter().find(|each| each.subject == Subject::Files(workload)).unwrap()
}

fn shares(bytes: &[u64]) -> Vec<f64> {
    let all: u64 = bytes.iter().sum();
    bytes.iter().map(|bytes| *bytes as f64 / all as f64).collect()
}

fn mib(count: u64) -> ByteSize {
    ByteSize::from_bytes(count << 20)
}
