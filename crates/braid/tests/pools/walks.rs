//! The articles' walks with disks (docs/guide/walks.md), and `braid pool bench` which they are made
//! with.

use crate::BRAID;
use crate::host::{Host, mib};
use braid_loop_disks::{LoopDisk, in_private_mounts};
use braid_vm::{DiskImage, Vm};
use std::path::Path;
use std::time::Duration;

/// Walk 1: three disks as btrfs raid0, as md raid0 with ext4, and one alone; and walk 2: far2 and
/// raid1 on two rotating disks. In a VM, since this kernel may have no md. What counts is which
/// disk was read, not how fast a VM is.
#[test]
fn three_disks_striped_and_two_rotating_disks_mirrored() {
    let Ok(vm) = Vm::find().inspect_err(|why| println!("skipped: {why}")) else { return };
    let disks = [(); 3].map(|()| DiskImage::temporary(mib(300)).unwrap());
    let vm = disks.iter().fold(vm, |vm, disk| vm.disk(disk));
    let programs = Path::new(BRAID).parent().unwrap();
    let script = r#"
set -e
export PATH=$PROGRAMS:$PATH
set -- $VM_DISKS
# The driver forgets it when nobody has the disk open.
exec 5<$1 6<$2 7<$3
for disk; do echo 1 > /sys/block/${disk#/dev/}/queue/rotational; done
bench() { braid pool bench --profile sequential --runs 1 --seconds 0.2 --size 24MiB --yes --json "$@" 2> /tmp/err > /tmp/out || { cat /tmp/err; exit 1; }; echo "REPORT $(tr -d '\n' < /tmp/out)"; }
bench --layouts btrfs-raid0,md-raid0 $1 $2 $3
bench --layouts md-raid10-f2,md-raid10-n2 --skip-alone $1 $2 --erase $1 --erase $2
echo "left: $(wipefs --noheadings $1 $2 $3)$(cat /proc/mdstat | grep -c active)"
"#;
    let run = vm
        .time_limit(Duration::from_secs(300))
        .writable(programs)
        .variable("PROGRAMS", programs)
        .run(["bash", "-c", script])
        .unwrap();
    assert!(run.success(), "status {}:\n{}", run.status, run.console);
    assert!(run.console.contains("left: 0"), "{}", run.console);
    let reports: Vec<serde_json::Value> = run
        .console
        .lines()
        .filter_map(|line| line.strip_prefix("REPORT "))
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    let [three, two] = reports.as_slice() else { panic!("{}", run.console) };
    for layout in ["btrfs-raid0", "md-raid0"] {
        let shares = shares(three, layout);
        assert!(shares.iter().all(|share| (0.25..0.42).contains(share)), "{layout}: {shares:?}");
    }
    let busiest = |layout| shares(two, layout).into_iter().fold(0.0, f64::max);
    let spread = ["md-raid10-f2", "md-raid10-n2"].map(|layout| (layout, busiest(layout)));
    println!("the busier disk's share: {spread:?}");
    assert!(busiest("md-raid10-f2") < 0.6, "far2 reads from both disks");
    assert!(busiest("md-raid10-n2") > 0.75, "near reads from the nearer copy's disk");
    let alone = &three["disks"][0]["alone"]["read"];
    assert!(alone.as_f64().unwrap() > 0.0, "one disk: {alone}");
}

/// Walk 3: one more disk in a btrfs pool, by hand and by one command; both end with the data on all
/// disks.
#[test]
fn a_disk_is_added_by_hand_and_by_one_command() {
    in_private_mounts("walks::a_disk_is_added_by_hand_and_by_one_command", || {
        let host = Host::new();
        let by_hand = pool_of_two(&host, "hand");
        let third = host.disk("hand-3");
        let steps = [
            // Nothing may be on it; by hand that is yours to see.
            format!("test -z \"$(blkid -p {0} || true)\"", third.path()),
            format!("btrfs device add {} hand", third.path()),
            "btrfs balance start --full-balance hand".to_owned(),
        ];
        steps.iter().for_each(|step| drop(host.sh(step)));
        let by_braid = pool_of_two(&host, "braid");
        let other = host.disk("braid-3");
        host.works(&["add", "braid", other.path(), "--yes"]);
        for name in ["hand", "braid"] {
            let status: serde_json::Value =
                serde_json::from_str(&host.works(&["status", name, "--json"])).unwrap();
            let members = status["pools"][0]["members"].as_array().unwrap().clone();
            assert_eq!(members.len(), 3);
            let empty = |member: &&serde_json::Value| member["allocated_bytes"] == 0;
            assert_eq!(members.iter().filter(empty).count(), 0, "{name}: {members:?}");
            host.sh(&format!("umount {name}"));
        }
        drop((by_hand, by_braid));
    });
}

#[test]
fn bench_measures_pools_and_leaves_disks_as_it_must() {
    in_private_mounts("walks::bench_measures_pools_and_leaves_disks_as_it_must", || {
        let host = Host::new();
        let quick =
            ["--runs", "1", "--seconds", "0.3", "--size", "16MiB", "--profile", "sequential"];
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.sh(&format!("mkfs.ext4 -q -L tax {}", a.path()));
        let layouts = ["bench", "--layouts", "btrfs-raid1,btrfs-raid0", a.path(), b.path()];
        let all = |more: &[&str]| host.braid(&[&layouts[..], &quick, more].concat());
        let refused = all(&["--yes"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("tax"), "{refused:?}");
        let serial = format!("loop:{}", a.file().display());
        assert!(all(&["--erase", &serial, "--dry-run"]).status.success());
        assert_eq!(host.sh(&format!("blkid -p -s LABEL -o value {}", a.path())), "tax");

        let page = host.path("page.html");
        let speeds = host.path("speeds.json");
        let files = ["--html", page.to_str().unwrap(), "--speeds", speeds.to_str().unwrap()];
        let done = all(&[&files[..], &["--erase", &serial, "--yes", "--json"]].concat());
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let one = shares(&report, "btrfs-raid1").into_iter().fold(0.0, f64::max);
        assert!(one > 0.9, "one reader of raid1 gets one disk: {one}");
        let read = &report["layouts"][1]["measurements"][0];
        assert!(read["figure"]["median"].as_f64().unwrap() > 1e6, "{read}");
        assert!(read["model"].as_f64().unwrap() > 1e6, "{read}");
        assert!(std::fs::read_to_string(page).unwrap().contains("btrfs-raid0"));
        assert_eq!(host.sh(&format!("wipefs --noheadings {} {}", a.path(), b.path())), "");
        assert_eq!(std::fs::read_to_string(host.fstab()).unwrap(), "# empty\n");
        let plan = host.works(&[
            "plan",
            "--speeds",
            speeds.to_str().unwrap(),
            a.path(),
            b.path(),
            "--json",
        ]);
        assert!(plan.contains("\"measured\""), "{plan}");

        let pool = pool_of_two(&host, "photos");
        let table = host.works(&[&["bench", "photos"], &quick[..]].concat());
        assert!(table.contains("photos (btrfs-raid1)  read, one"), "{table}");
        assert_eq!(host.sh("ls -A photos"), "file");
        host.sh("umount photos");
        drop(pool);
    });
}

#[test]
fn a_bench_that_is_killed_leaves_nothing() {
    in_private_mounts("walks::a_bench_that_is_killed_leaves_nothing", || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        let layouts = ["bench", "--layouts", "btrfs-raid1", a.path(), b.path(), "--yes"];
        let long = ["--profile", "sequential", "--seconds", "600", "--size", "16MiB"];
        let mut bench = host.command(&[&layouts[..], &long].concat()).spawn().unwrap();
        let pid = bench.id();
        let files = format!(".braid-bench-{pid}-");
        let measures = || {
            let there = std::fs::read_dir("/run/braid-bench").into_iter().flatten().flatten();
            there.into_iter().any(|each| each.file_name().to_string_lossy().starts_with(&files))
        };
        wait_until("it measures", measures);
        assert!(host.sh("wipefs --noheadings a b").contains("btrfs"));
        bench.kill().unwrap();
        bench.wait().unwrap();
        let clean = || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
            !mounts.contains("/run/braid-bench")
                && host.sh("wipefs --noheadings a b").is_empty()
                && host.works(&["resume"]).contains("nothing was interrupted")
                && programs_about(&files) == 0
        };
        wait_until("all is as before", clean);
    });
}

/// How many programs have this in their command line.
fn programs_about(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("waited in vain until {what}");
}

/// Each disk's part of what one reader of a layout read.
fn shares(report: &serde_json::Value, layout: &str) -> Vec<f64> {
    let layouts = report["layouts"].as_array().unwrap();
    let found = layouts.iter().find(|each| each["layout"] == layout).unwrap();
    let one =
        found["measurements"].as_array().unwrap().iter().find(|each| each["subject"] == "read-one");
    let one = one.unwrap_or_else(|| panic!("{layout} wasn't measured: {found}"));
    let bytes: Vec<f64> = one["runs"][0]["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|disk| disk["read_bytes"].as_f64().unwrap())
        .collect();
    let all: f64 = bytes.iter().sum();
    bytes.into_iter().map(|bytes| bytes / all).collect()
}

/// A raid1 made by hand, mounted at its name, with a file in it.
fn pool_of_two(host: &Host, name: &str) -> [LoopDisk; 2] {
    let disks = [1, 2].map(|number| host.disk(&format!("{name}-{number}")));
    let [first, second] = disks.each_ref().map(LoopDisk::path);
    host.sh(&format!("mkfs.btrfs -q -L {name} -d raid1 -m raid1 {first} {second}"));
    host.sh(&format!("mkdir {name} && mount {first} {name}"));
    host.sh(&format!("head -c 30M /dev/urandom > {name}/file && sync -f {name}"));
    disks
}
