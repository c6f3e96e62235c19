//! A second kernel with disks that outlive it, whose power can be cut.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Running, Vm};
use std::path::Path;
use std::time::Duration;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");

/// Disks that outlive their machines, and a folder for the journal.
pub struct Ground {
    disks: Vec<DiskImage>,
    folder: tempfile::TempDir,
}

impl Ground {
    pub fn new(sizes_mib: &[u64]) -> Option<Ground> {
        if let Err(why) = Vm::find() {
            println!("skipped: {why}");
            return None;
        }
        let disk = |mib: &u64| DiskImage::temporary(ByteSize::from_bytes(mib << 20)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("root/etc/mdadm")).unwrap();
        Some(Ground { disks: sizes_mib.iter().map(disk).collect(), folder })
    }

    /// Runs a script in a machine of this name; what it printed.
    pub fn works(&self, host_name: &str, script: &str) -> String {
        let output = self.starts(host_name, script).wait().unwrap();
        assert!(output.success(), "status {}:\n{}", output.status, output.console);
        output.console
    }

    /// Starts a script, which finds the disks as `$1`, `$2`…, `braid`, and `program NAME TEXT` to
    /// make a program that is found before the real one.
    pub fn starts(&self, host_name: &str, script: &str) -> Running {
        let programs = Path::new(BRAID).parent().unwrap();
        let text = format!("set -e\n{PRELUDE}\nset -- $VM_DISKS\n{script}");
        let mut vm = Vm::find()
            .unwrap()
            .host_name(host_name)
            .time_limit(Duration::from_secs(1800))
            .writable(self.folder.path())
            .writable(programs)
            .variable("PROGRAMS", programs)
            .variable("BRAID_POOL_STATE_DIR", self.folder.path().join("state"));
        if !script.contains("initramfs") {
            vm = vm.variable("BRAID_POOL_CONFIG_ROOT", self.folder.path().join("root"));
        }
        let vm = self.disks.iter().fold(vm, |vm, disk| vm.disk(disk));
        vm.start(["bash", "-c", &text]).unwrap()
    }
}

const PRELUDE: &str = r#"
mkdir -p /tmp/bin
export PATH=/tmp/bin:$PROGRAMS:$PATH
program() { printf '#!/bin/sh\n%s\n' "$2" > /tmp/bin/$1; chmod +x /tmp/bin/$1; }
"#;

/// Cuts the power when this is printed; what was printed until then.
pub fn cut_at(vm: Running, text: &str) -> String {
    if let Err(error) = vm.wait_for(text, Duration::from_secs(600)) {
        panic!("{error}");
    }
    vm.power_cut()
}
