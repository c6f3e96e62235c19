//! `braid pool status`, `doctor`, `scrub`, `watch` on a real md array, in a second kernel.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Vm};
use std::path::Path;
use std::time::Duration;

/// What each command prints is followed by its exit status.
const SCRIPT: &str = r#"
look() { braid pool "$@"; echo "exit of $1: $?"; }
mkdir -p /tmp/state
mdadm --create --run --homehost=any --bitmap=internal /dev/md/data --name=data --level=1 -n 2 --assume-clean $1 $2
mkfs.ext4 -q -L files /dev/md/data
mkdir -p /mnt/data
mount /dev/md/data /mnt/data
look status
look scrub start --wait data
braid pool scrub status --json
look watch --no-smart --state /tmp/state/watch.json
mdadm --quiet /dev/md/data --fail $2
look status data
look watch --no-smart --state /tmp/state/watch.json
braid pool disks --no-smart
umount /mnt/data
mdadm --quiet --stop /dev/md/data
look status data
look scrub start data
"#;

#[test]
fn an_array_from_whole_to_degraded() {
    let vm = match Vm::find() {
        Ok(vm) => vm,
        Err(why) => return println!("skipped: {why}"),
    };
    let disks: Vec<DiskImage> =
        (0..2).map(|_| DiskImage::temporary(ByteSize::from_bytes(64 << 20)).unwrap()).collect();
    let programs = Path::new(env!("CARGO_BIN_EXE_braid")).parent().unwrap();
    let vm =
        vm.time_limit(Duration::from_secs(300)).writable(programs).variable("PROGRAMS", programs);
    let vm = disks.iter().fold(vm, |vm, disk| vm.disk(disk));
    let text = format!("export PATH=$PROGRAMS:$PATH\nset -- $VM_DISKS\n{SCRIPT}");
    let output = vm.start(["bash", "-c", &text]).unwrap().wait().unwrap();
    let mut rest = output.console.as_str();
    for told in [
        "md-raid1  whole     2",
        "exit of status: 0",
        "scrub ended, nothing wrong",
        "exit of scrub: 0",
        "\"ended_s_ago\": ",
        "exit of watch: 10",
        "md-raid1  degraded  1 of 2",
        "exit of status: 11",
        "was kicked out of the array",
        "exit of watch: 11",
        "no: used by md",
        "md-raid1  degraded  1 of 2",
        "exit of status: 11",
        "is not running; assemble it first",
        "exit of scrub: 1",
    ] {
        // Columns are as wide as what is in them.
        let words = told.split_whitespace().collect::<Vec<_>>();
        let found = rest.lines().scan(0, |end, line| {
            *end += line.len() + 1;
            Some((*end, line))
        });
        let line = found.into_iter().find(|(_, line)| {
            line.split_whitespace().collect::<Vec<_>>().join(" ").contains(&words.join(" "))
        });
        let Some((end, _)) = line else {
            panic!("{told:?} is missing in\n{rest}\nof\n{}", output.console)
        };
        rest = rest.get(end..).unwrap_or_default();
    }
}
