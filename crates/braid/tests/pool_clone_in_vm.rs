//! `braid pool clone --to-disk`: systems as three distributions lay them out go to another disk,
//! and the copy is started as a computer's only disk. In a second kernel, since this one may know
//! neither partitions nor FAT.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Vm};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where a system's subvolumes are, how it is booted, what it has beside its btrfs.
struct System {
    name: &'static str,
    /// Shell: makes the subvolumes below `$top` and says which is `$root`.
    subvolumes: &'static str,
    /// Lines of fstab; BTRFS, ESP and BOOT stand for UUIDs.
    fstab: &'static str,
    has_boot: bool,
    /// How the kernel mounts it; without a subvolume it is the default one.
    root_flags: &'static str,
    /// What has to be mounted once it runs, and from which subvolume.
    mounted: &'static [&'static str],
}

const SYSTEMS: [System; 3] = [
    System {
        name: "openSUSE",
        subvolumes: r#"
sub @; sub @/.snapshots; mkdir -p $top/@/.snapshots/1; sub @/.snapshots/1/snapshot; sub @/home
sub "@/my data"
root=$top/@/.snapshots/1/snapshot
btrfs subvolume set-default $root
echo then > $root/then
mkdir $top/@/.snapshots/2
btrfs -q subvolume snapshot -r $root $top/@/.snapshots/2/snapshot
rm $root/then
"#,
        fstab: "UUID=BTRFS / btrfs defaults 0 0\n\
                UUID=BTRFS /home btrfs subvol=/@/home 0 0\n\
                UUID=BTRFS /.snapshots btrfs subvol=/@/.snapshots 0 0\n\
                UUID=BTRFS /my\\040data btrfs subvol=/@/my\\040data 0 0\n\
                UUID=ESP /boot/efi vfat noauto 0 0\n",
        has_boot: false,
        root_flags: "datacow",
        mounted: &[
            "/ /@/.snapshots/1/snapshot",
            "/home /@/home",
            "/.snapshots /@/.snapshots",
            "/my\\x20data /@/my\\x20data",
        ],
    },
    System {
        name: "Ubuntu",
        subvolumes: "sub @; sub @home; root=$top/@; other=$(btrfs inspect-internal rootid $top/@home)",
        fstab: "UUID=BTRFS / btrfs defaults,subvol=@ 0 1\n\
                UUID=BTRFS /home btrfs defaults,subvolid=OTHER,subvol=@home 0 2\n\
                UUID=ESP /boot/efi vfat noauto 0 0\n",
        has_boot: false,
        root_flags: "subvol=@",
        mounted: &["/ /@", "/home /@home"],
    },
    System {
        name: "Fedora",
        subvolumes: "sub root; sub home; root=$top/root",
        fstab: "UUID=BTRFS / btrfs subvol=root,compress=zstd:1 0 0\n\
                UUID=BTRFS /home btrfs subvol=home,compress=zstd:1 0 0\n\
                UUID=BOOT /boot ext4 defaults 1 2\n\
                UUID=ESP /boot/efi vfat noauto 0 0\n",
        has_boot: true,
        root_flags: "subvol=root",
        mounted: &["/ /root", "/home /home", "/boot /"],
    },
];

/// The old disk: partitions, filesystems, and a system of a few programs that says what it sees.
const INSTALL: &str = r#"
set -eu
old=$1 new=$2 top=/own/old
sub() { btrfs -q subvolume create "$top/$1" >/dev/null; }
id() { blkid -p -s UUID -o value $1; }
{ echo label: gpt; echo size=40MiB, type=U; [ -z "$BOOT" ] || echo size=60MiB; echo size=+; } |
    sfdisk --quiet $old
last=$old$([ -z "$BOOT" ] && echo 2 || echo 3)
modprobe -qa vfat nls_cp437 nls_iso8859-1 || true
mkfs.vfat -n ESP ${old}1 >/dev/null
mkfs.btrfs -q $last 2>/dev/null
mkdir -p $top /own/esp /own/boot
mount $last $top
eval "$SUBVOLUMES"
for program in /bin/bash /bin/mount /bin/findmnt /bin/cat /bin/sleep; do
    cp -L --parents $program $(ldd $program | grep -o '/[^ )]*') $root
done
mkdir -p $root/{proc,dev,sys,etc/default,sbin,home,boot/efi,.snapshots,'my data'}
cat > $root/sbin/init <<'END'
#!/bin/bash
mount -t proc proc /proc; mount -t sysfs sys /sys
exec >/dev/tty1 2>&1
mount -a
findmnt -rn -o TARGET,FSROOT | while read -r line; do echo "MOUNTED $line"; done
echo BOOTED
sleep 100
END
chmod +x $root/sbin/init
boot=
[ -z "$BOOT" ] || { mkfs.ext4 -q ${old}2; boot=$(id ${old}2); mount ${old}2 /own/boot; }
echo "$FSTAB" |
    sed "s/BTRFS/$(id $last)/; s/OTHER/${other:-}/; s/ESP/$(id ${old}1)/; s/BOOT/$boot/" > $root/etc/fstab
echo "search --fs-uuid $(id $last)" | tee $root/etc/default/grub > $top/beside
mkdir -p /own/boot/grub2
echo "root=UUID=$(id $last)" > /own/boot/grub2/grub.cfg
[ -z "$BOOT" ] || umount /own/boot
mount ${old}1 /own/esp
mkdir -p /own/esp/EFI/vendor
for name in shimx64.efi grubx64.efi; do echo $name > /own/esp/EFI/vendor/$name; done
echo "search --fs-uuid $(id $last)" > /own/esp/EFI/vendor/grub.cfg
umount /own/esp
sync
"#;

/// Clones: one system after a clone that was interrupted and abandoned, one with an interruption,
/// one as from another computer. Then nothing of the old disk's may be named on the new one.
const CLONE: &str = r#"
state=/own/state-$NAME
[ "$NAME" = Fedora ] && from="elsewhere:$top --rsh /own/far" || from=$top
printf '#!/bin/sh\nshift\nexec $*\n' > /own/far
chmod +x /own/far
clone() { braid pool clone $from --to-disk $new --state-dir $state "$@"; }
interrupted() {
    # Not by the function: its shell would be killed instead.
    braid pool clone $from --to-disk $new --state-dir $state --yes --limit 20Mbit >/dev/null 2>&1 &
    until btrfs subvolume list $top | grep -q braid-clone/5; do sleep 0.1; done
    sleep 0.5
    kill -9 $!
    wait $! || true
    # What it ran is gone a moment later.
    until rmdir /run/braid-clone.* 2>/dev/null; do sleep 0.1; done
    name=$(braid pool resume --state-dir $state --json | grep -o '"pool": *"[^"]*"' | cut -d'"' -f4)
}
clone --dry-run > /own/plan
grep -q 'mkfs.btrfs' /own/plan
[ -z "$(blkid -p $new)" ]
case $NAME in
openSUSE)
    interrupted
    btrfs subvolume list $top | grep -q braid
    braid pool abandon $name --state-dir $state
    [ -z "$(blkid -p $new)" ]
    [ -z "$(btrfs subvolume list $top | grep braid)" ]
    # No signature is left, but other bytes are.
    clone --yes 2>&1 | grep -q 'unknown content'
    clone --yes --erase $new
    ;;
Ubuntu)
    interrupted
    braid pool resume $name --state-dir $state
    ;;
*) clone --yes ;;
esac
clone --yes 2>&1 | grep -q -- --erase
for part in ${old}[0-9]; do id $part; blkid -p -s PART_ENTRY_UUID -o value $part; done > /own/ids
umount $top
newest=$(ls ${new}[0-9] | tail -n 1)
for part in ${new}[0-9]; do
    [ $part = ${new}1 ] && continue
    if id $part | grep -iFf /own/ids; then echo "$part has an old UUID"; exit 1; fi
    mkdir -p /own/look
    mount $part /own/look $([ $part != $newest ] || echo -o subvolid=5)
    # The snapshot from before is what it was.
    if grep -rIlFf /own/ids /own/look --exclude-dir=2 --exclude=beside; then exit 1; fi
    [ $part != ${new}2 ] || cmp /own/look/EFI/BOOT/BOOTX64.EFI /own/look/EFI/vendor/shimx64.efi
    umount /own/look
done
echo "CLONED $NAME ${newest#$new}"
sync
"#;

/// Starts the system on a partition of the disk, the only one there is; what it says.
fn start(system: &System, disk: &DiskImage, partition: &str) -> String {
    let vm = Vm::find().unwrap().memory(ByteSize::from_bytes(256 << 20)).disk(disk);
    let vm = vm
        .kernel_argument(&format!("root=/dev/ubda{partition}"))
        .kernel_argument("rootfstype=btrfs")
        .kernel_argument(&format!("rootflags={}", system.root_flags))
        .kernel_argument("rw")
        .kernel_argument("init=/sbin/init");
    // The command is for a machine with our own init; this one has the clone's.
    let running = vm.start(["true"]).unwrap();
    if let Err(error) = running.wait_for("BOOTED", Duration::from_secs(600)) {
        panic!("{}: {error}\n{}", system.name, running.console());
    }
    running.power_cut()
}

#[test]
fn a_system_on_another_disk_boots_there() {
    let vm = match Vm::find() {
        Ok(vm) => vm,
        Err(why) => return println!("skipped: {why}"),
    };
    for tool in ["sfdisk", "mkfs.vfat"] {
        let there = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        if !there.is_ok_and(|found| found.status.success()) {
            return println!("skipped: {tool} isn't installed");
        }
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_braid")).parent().unwrap();
    let size = ByteSize::from_bytes(1200 << 20);
    let disks = [(); 2 * SYSTEMS.len()].map(|()| DiskImage::temporary(size).unwrap());
    let mut script = format!("export PATH={}:$PATH\nset -- $VM_DISKS\n", programs.display());
    for system in &SYSTEMS {
        let boot = if system.has_boot { "yes" } else { "" };
        script.push_str(&format!(
            "NAME={} BOOT={boot} FSTAB=$(cat <<'END'\n{}END\n)\nSUBVOLUMES=$(cat <<'END'\n{}\nEND\n)\n\
             {INSTALL}{CLONE}shift 2\n",
            system.name, system.fstab, system.subvolumes
        ));
    }
    let vm = vm.time_limit(Duration::from_secs(600)).writable(programs);
    let vm = disks.iter().fold(vm, |vm, disk| vm.disk(disk));
    let output = vm.run(["bash", "-c", &script]).unwrap();
    assert!(output.success(), "{}", output.console);
    for (system, images) in SYSTEMS.iter().zip(disks.chunks(2)) {
        let mark = format!("CLONED {} ", system.name);
        let said = output.console.lines().find_map(|line| line.trim().strip_prefix(&mark));
        let console = start(system, &images[1], said.unwrap());
        for place in system.mounted {
            let line = format!("MOUNTED {place}");
            let is_it = |said: &str| said.trim() == line;
            assert!(console.lines().any(is_it), "{}: {line}: {console}", system.name);
        }
    }
}
