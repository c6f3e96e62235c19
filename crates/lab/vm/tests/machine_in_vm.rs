//! Real machines: booting takes a while, so few machines do much.

use braid_units::ByteSize;
use braid_vm::{DiskEvent, DiskImage, Recording, Vm, VmError};
use std::time::{Duration, Instant};

/// A machine, or `None` and a message if there can't be one.
fn machine() -> Option<Vm> {
    match Vm::find() {
        Ok(vm) => Some(vm.memory(ByteSize::from_bytes(512 << 20))),
        Err(missing) => {
            println!("skipped: {missing}");
            None
        }
    }
}

#[test]
fn a_command_has_its_words_output_and_status() {
    let Some(vm) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "echo \"$#:$1:$2:$GREETING\"; echo wrong >&2; hostname; id -u; uname -r; \
                  pwd; echo here >\"$3\"/written; echo there >/usr/not-on-the-host; exit 7";
    let output = vm
        .writable(folder.path())
        .host_name("alpha")
        .variable("GREETING", "it's me")
        .run(["sh", "-c", script, "sh", "a  b", "$HOME'\"", folder.path().to_str().unwrap()])
        .unwrap();
    assert_eq!(output.status, 7, "{}", output.console);
    assert!(!output.success());
    let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let lines: Vec<&str> = output.console.lines().collect();
    assert_eq!(lines[..4], ["3:a  b:$HOME'\":it's me", "wrong", "alpha", "0"]);
    assert_ne!(lines[4], host.trim(), "a kernel of its own");
    assert_eq!(lines[5], std::env::current_dir().unwrap().to_str().unwrap());
    assert_eq!(std::fs::read_to_string(folder.path().join("written")).unwrap(), "here\n");
    assert!(!std::path::Path::new("/usr/not-on-the-host").exists());
}

#[test]
fn a_disk_outlives_its_machines_and_a_power_cut() {
    let Some(vm) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let disk = DiskImage::create(&path, ByteSize::from_bytes(64 << 20)).unwrap();
    assert!(DiskImage::create(&path, ByteSize::from_bytes(1)).is_err(), "never over a file");
    let other = DiskImage::temporary(ByteSize::from_bytes(1 << 20)).unwrap();
    let vm = vm.disk(&disk).disk(&other);

    let script = "set -e; mkfs.ext4 -q /dev/ubda; mount /dev/ubda /media; \
                  echo kept >/media/kept; sync; echo gone >/media/gone; \
                  echo ready $VM_DISKS; sleep 1000";
    let running = vm.start(["sh", "-c", script]).unwrap();
    running.wait_for("ready /dev/ubda /dev/ubdb", Duration::from_secs(60)).unwrap();
    let group = running.id();
    let console = running.power_cut();
    assert!(console.contains("ready"), "{console}");
    assert!(no_process_of(group));

    let script = "mount /dev/ubda /media && cat /media/kept && ls /media && blockdev --getsize64 \
                  /dev/ubdb";
    let output = vm.run(["sh", "-c", script]).unwrap();
    assert!(output.success(), "{}", output.console);
    assert!(output.console.starts_with("kept\n"), "{}", output.console);
    // ext4 commits every 5 s; the plug was pulled long before.
    assert!(!output.console.contains("gone"), "{}", output.console);
    assert!(output.console.ends_with("1048576\n"), "{}", output.console);
}

/// They take turns on the processor, and find their registers unchanged.
#[test]
fn what_programs_compute_side_by_side_is_right() {
    let Some(vm) = machine() else { return };
    let script = r#"
        sum() { awk -v "n=$1" 'BEGIN { for (i = n; i < n + 300000; i++) s += sin(i) * sqrt(i)
            printf "%.6f\n", s }'; }
        folder=$(mktemp -d)
        for n in 1 2 3; do sum $n > $folder/$n & done
        wait
        cat $folder/1 $folder/2 $folder/3
    "#;
    let here = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
    let there = vm.run(["sh", "-c", script]).unwrap();
    assert_eq!(there.console, String::from_utf8_lossy(&here.stdout));
    assert_eq!(there.console.lines().filter(|line| line.len() > 5).count(), 3, "{there:?}");
}

#[test]
fn the_time_limit_ends_it_and_machines_are_apart() {
    let Some(vm) = machine() else { return };
    let begin = Instant::now();
    let limited = vm.clone().time_limit(Duration::from_secs(30));
    let slow = limited.start(["sh", "-c", "echo begun; sleep 1000"]).unwrap();
    let group = slow.id();
    let other = vm.host_name("beta").start(["sh", "-c", "sleep 1; hostname"]).unwrap();
    let error = slow.wait().unwrap_err();
    let VmError::TimeLimit { console, .. } = &error else { panic!("{error}") };
    assert!(console.contains("begun"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(300));
    assert!(no_process_of(group));
    let output = other.wait().unwrap();
    assert_eq!((output.status, output.console.as_str()), (0, "beta\n"));
}

#[test]
fn what_cannot_be_is_said() {
    let Some(vm) = machine() else { return };
    let error = vm.run(Vec::<String>::new()).unwrap_err();
    assert!(error.to_string().contains("no command"), "{error}");
    let error = vm.clone().host_name("a b").run(["true"]).unwrap_err();
    assert!(error.to_string().contains("host name"), "{error}");
    let error = vm.clone().writable("/no/such".as_ref()).run(["true"]).unwrap_err();
    assert!(error.to_string().contains("/no/such"), "{error}");
    // The kernel can't find the first process, and says so.
    let error = vm.kernel_argument("init=/no/such/init").run(["true"]).unwrap_err();
    assert!(matches!(error, VmError::Died { .. }), "{error}");
    assert!(error.to_string().contains("init"), "{error}");
}

/// Whether all processes of a process group have ended.
fn no_process_of(group: u32) -> bool {
    let alive = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> = stat
                .get(stat.rfind(')').map_or(0, |at| at + 1)..)
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            // State, parent, process group.
            fields.get(2).is_some_and(|found| *found == group.to_string())
                && fields.first().is_some_and(|state| *state != "Z")
        })
    };
    let deadline = Instant::now() + Duration::from_secs(5);
    while alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    !alive()
}

#[test]
fn what_it_wrote_to_its_disks_can_be_written_again_up_to_any_moment() {
    let Some(vm) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let size = ByteSize::from_bytes(64 << 20);
    let disk = || [DiskImage::temporary(size).unwrap()];
    let (first, again, early) = (disk(), disk(), disk());
    let record = folder.path().join("record");
    let script = "set -e; mkfs.ext4 -q /dev/ubda; mount /dev/ubda /media; \
                  echo one of them >/media/one; sync; echo the other >/media/two; sync";
    let recorded = vm.clone().disk(&first[0]).record(&record);
    let output = recorded.run(["sh", "-c", script]).unwrap();
    assert!(output.success(), "{}", output.console);

    let recording = Recording::read(&record, &first).unwrap();
    recording.replay(&again, recording.events().len()).unwrap();
    let bytes = |disk: &[DiskImage; 1]| std::fs::read(disk[0].path()).unwrap();
    assert!(bytes(&first) == bytes(&again), "the same in the end");

    let is_other = |event: &DiskEvent| recording.data(event).unwrap().starts_with(b"the other");
    let other = recording.events().iter().position(is_other).unwrap();
    recording.replay(&early, other).unwrap();
    let script = "mount /dev/ubda /media; cat /media/one /media/two";
    let output = vm.disk(&early[0]).run(["sh", "-c", script]).unwrap();
    assert!(output.console.contains("one of them"), "{}", output.console);
    assert!(!output.console.contains("the other"), "{}", output.console);
}
