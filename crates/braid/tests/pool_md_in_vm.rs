//! Pools on md arrays, in a second kernel, since this one may have no md; and its power is cut.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Running, Vm};
use std::path::Path;
use std::time::Duration;

#[test]
fn arrays_keep_their_names_on_this_host_and_on_another() {
    let Some(ground) = Ground::new(&[64; 4]) else { return };
    let alpha = ground.works(
        "alpha",
        r#"
mount -t tmpfs boot /boot
touch -d yesterday /boot/initrd.img-$(uname -r)
program update-initramfs 'touch /boot/initrd.img-*; echo "initramfs: $(grep -c ^ARRAY /etc/mdadm/mdadm.conf) arrays" >> /tmp/told'
braid pool create one --layout md-raid1 $1 $2 --yes
braid pool create two --layout md-raid10-f2 $3 $4 --yes
cat /tmp/told
echo "hello from one" > /srv/one/file
umount /srv/one /srv/two
mdadm --stop /dev/md/one
mdadm --stop /dev/md/two
mdadm --assemble --scan
mount /srv/one
mount /srv/two
cat /srv/one/file
echo "arrays: $(ls /dev/md | xargs)"
echo "layouts: $(cat /sys/block/$(readlink /dev/md/two | xargs basename)/md/layout)"
braid pool status
umount /srv/one /srv/two
"#,
    );
    for told in ["initramfs: 2 arrays", "hello from one", "arrays: one two", "layouts: 513"] {
        assert!(alpha.contains(told), "{told:?} is missing in\n{alpha}");
    }
    let beta = ground.works(
        "beta",
        r#"
mdadm --assemble --scan
echo "arrays: $(ls /dev/md | xargs)"
mount /dev/md/one /mnt
cat /mnt/file
"#,
    );
    for told in ["arrays: one two", "hello from one"] {
        assert!(beta.contains(told), "{told:?} is missing in\n{beta}");
    }
}

#[test]
fn arrays_grow_and_change_their_disks() {
    let Some(ground) = Ground::new(&[64, 64, 64, 64, 600, 600, 64]) else { return };
    let told = ground.works(
        "alpha",
        r#"
braid pool create near --layout md-raid10-n2 $1 $2 --yes
head -c 20M /dev/urandom > /srv/near/file
sum=$(sha256sum < /srv/near/file)
before=$(stat -fc %b /srv/near)
braid pool add near $3 $4 --yes
after=$(stat -fc %b /srv/near)
echo "grew: $((after * 10 / before)) tenths, $(cat /sys/block/md*/md/raid_disks | xargs) disks"
[ "$sum" = "$(sha256sum < /srv/near/file)" ] && echo "same after growing"
braid pool replace near $1 $7 --yes
[ "$sum" = "$(sha256sum < /srv/near/file)" ] && echo "same after replacing"
echo "slaves: $(ls /sys/block/$(readlink /dev/md/near | xargs basename)/slaves | xargs)"
braid pool create off --layout md-raid10-o2 --fs xfs $5 $6 --yes
echo "offset: $(cat /sys/block/$(readlink /dev/md/off | xargs basename)/md/layout) $(stat -fc %T /srv/off)"
umount /srv/near && mdadm --stop /dev/md/near
for disk in $1 $2 $3 $4 $7; do wipefs -aq $disk; done
sed -i '/near/d' $BRAID_POOL_CONFIG_ROOT/etc/*tab $BRAID_POOL_CONFIG_ROOT/etc/mdadm/mdadm.conf
braid pool create five --layout md-raid5 $1 $2 $3 --yes
echo "five: $(cat /sys/block/$(readlink /dev/md/five | xargs basename)/md/level) $(stat -fc %T /srv/five)"
"#,
    );
    for line in [
        "grew: 2",
        "same after growing",
        "same after replacing",
        "slaves: ubdb ubdc ubdd ubdg",
        "offset: 66049 xfs",
        "five: raid5 ext2/ext3",
    ] {
        assert!(told.contains(line), "{line:?} is missing in\n{told}");
    }
}

#[test]
fn after_a_power_cut_in_create_and_in_replace_it_goes_on() {
    let Some(ground) = Ground::new(&[64; 3]) else { return };
    let first = ground.starts(
        "alpha",
        r#"
program mkfs.ext4 'touch /tmp/at-mkfs; sleep 1000'
(while [ ! -e /tmp/at-mkfs ]; do sleep 0.1; done; echo "CUT NOW") &
braid pool create data --layout md-raid1 $1 $2 --yes
"#,
    );
    cut_at(first, "CUT NOW");
    let second = ground.starts(
        "alpha",
        r#"
braid pool resume
braid pool resume data
head -c 20M /dev/urandom > /srv/data/file
sha256sum /srv/data/file
sync
echo 1000 > /proc/sys/dev/raid/speed_limit_max
braid pool replace data $1 $3 --yes
"#,
    );
    let told = cut_at(second, "… wait until the copy is complete");
    let sum = told.lines().find_map(|line| line.strip_suffix("  /srv/data/file")).unwrap();
    let third = ground.works(
        "alpha",
        r#"
braid pool resume data
mkdir -p /srv/data
mount /dev/md/data /srv/data
sha256sum /srv/data/file
echo "slaves: $(ls /sys/block/$(readlink /dev/md/data | xargs basename)/slaves | xargs)"
braid pool resume
"#,
    );
    for line in [sum, "slaves: ubdb ubdc", "nothing was interrupted"] {
        assert!(third.contains(line), "{line:?} is missing in\n{third}\nbefore:\n{told}");
    }
}

/// Disks that outlive their machines, and a folder for the journal.
struct Ground {
    disks: Vec<DiskImage>,
    folder: tempfile::TempDir,
}

impl Ground {
    fn new(sizes_mib: &[u64]) -> Option<Ground> {
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
    fn works(&self, host_name: &str, script: &str) -> String {
        let output = self.starts(host_name, script).wait().unwrap();
        assert!(output.success(), "status {}:\n{}", output.status, output.console);
        output.console
    }

    /// Starts a script, which finds the disks as `$1`, `$2`…, `braid`, and `program NAME TEXT` to
    /// make a program that is found before the real one.
    fn starts(&self, host_name: &str, script: &str) -> Running {
        let programs = Path::new(env!("CARGO_BIN_EXE_braid")).parent().unwrap();
        let text = format!("set -e\n{PRELUDE}\nset -- $VM_DISKS\n{script}");
        let mut vm = Vm::find()
            .unwrap()
            .host_name(host_name)
            .time_limit(Duration::from_secs(300))
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
fn cut_at(vm: Running, text: &str) -> String {
    if let Err(error) = vm.wait_for(text, Duration::from_secs(120)) {
        panic!("{error}");
    }
    vm.power_cut()
}
