//! Replication whose computer loses its power: in a second kernel, since this one keeps its.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Running, Vm};
use std::path::Path;
use std::time::Duration;

const BEGIN: &str = r#"
mkfs.btrfs -q $1; mkfs.btrfs -q $2
mkdir -p /own/a /own/b
mount $1 /own/a; mount $2 /own/b
btrfs -q subvolume create /own/a/data
head -c 24M /dev/urandom > /own/a/data/big
for n in $(seq 50); do echo $n > "/own/a/data/file $n"; done
braid pool snapshot --into /own/a/snapshots /own/a/data
sync
"#;

const AGAIN: &str = r#"
mkdir -p /own/a /own/b
mount $1 /own/a; mount $2 /own/b
ls -a /own/b/replicas
"#;

/// Waits until some megabytes more have come.
const GET_ON: &str = r#"
part=/own/b/replicas/.braid-replica.part/big
size() { stat -c %s $part 2>/dev/null || echo 0; }
until [ $(size) -gt 4000000 ]; do sleep 0.1; done
"#;

#[test]
fn a_replica_is_complete_or_has_no_name_whenever_the_power_is_cut() {
    if let Err(why) = Vm::find() {
        println!("skipped: {why}");
        return;
    }
    let disks = [(); 2].map(|()| DiskImage::temporary(ByteSize::from_bytes(400 << 20)).unwrap());
    // First in the middle of it, where nothing is settled yet.
    let first = format!(
        "{BEGIN}braid pool replicate --limit 40Mbit /own/a/snapshots /own/b/replicas &\n\
         {GET_ON}\necho CUT NOW\nsleep 100\n"
    );
    cut(start(&disks, &first));
    // Then after the connection broke, when a checkpoint was made.
    let second = format!(
        r#"{AGAIN}
printf '#!/bin/sh\nshift\nexec $*\n' > /own/shell; chmod +x /own/shell
braid pool replicate --retries 0 --limit 40Mbit --rsh /own/shell /own/a/snapshots x:/own/b/replicas &
{GET_ON}
kill -9 $!
until grep -q '"number"' /own/b/replicas/.braid-replica/begun.json; do sleep 0.1; done
echo CUT NOW
sleep 100
"#
    );
    let told = cut(start(&disks, &second));
    assert!(!told.contains("data.2"), "a part had a replica's name:\n{told}");
    let third = format!(
        r#"{AGAIN}
braid pool replicate --json /own/a/snapshots /own/b/replicas | grep resumed_at
braid pool verify --json /own/a/snapshots /own/b/replicas | grep '"same"'
umount /own/a /own/b
btrfs check --readonly $2 > /dev/null && echo "sound"
"#
    );
    let output = start(&disks, &third).wait().unwrap();
    let told = output.console.as_str();
    assert!(output.success(), "{told}");
    assert!(told.contains("\"same\": true") && told.contains("sound"), "{told}");
    assert!(told.contains("\"resumed_at\": ") && !told.contains("\"resumed_at\": 0"), "{told}");
}

fn start(disks: &[DiskImage], script: &str) -> Running {
    let programs = Path::new(env!("CARGO_BIN_EXE_braid")).parent().unwrap();
    let text = format!("set -e\nexport PATH=$PROGRAMS:$PATH\nset -- $VM_DISKS\n{script}");
    let vm = Vm::find()
        .unwrap()
        .time_limit(Duration::from_secs(240))
        .writable(programs)
        .variable("PROGRAMS", programs);
    let vm = disks.iter().fold(vm, |vm, disk| vm.disk(disk));
    vm.start(["bash", "-c", &text]).unwrap()
}

/// Cuts the power when the script says so; what was printed until then.
fn cut(vm: Running) -> String {
    if let Err(error) = vm.wait_for("CUT NOW", Duration::from_secs(600)) {
        panic!("{error}");
    }
    vm.power_cut()
}
