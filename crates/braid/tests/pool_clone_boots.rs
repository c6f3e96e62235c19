//! A whole Debian, as two distributions would lay it out, is cloned to an empty disk with `--finish`, and the clone is
//! started as a computer's only disk by real firmware: by EFI (OVMF) and by a BIOS (SeaBIOS), through GRUB. The disks are
//! prepared and cloned in User Mode Linux, the computer is emulated by QEMU.
//!
//! It takes minutes and a system of some 450 MB that debootstrap fetches, so it is ignored unless asked for:
//! `cargo test -p braid --test pool_clone_boots -- --ignored --nocapture`. What it wants:
//! `apt-get install qemu-system-x86 ovmf debootstrap user-mode-linux`.

use braid_units::ByteSize;
use braid_vm::{DiskImage, Vm};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where a system's subvolumes are.
struct System {
    name: &'static str,
    /// Shell: makes the subvolumes below `$top` and says which is `$root`.
    subvolumes: &'static str,
    /// Lines of fstab; BTRFS and ESP stand for UUIDs.
    fstab: &'static str,
    /// Where the root is that it has to run on.
    root: &'static str,
}

const SYSTEMS: [System; 2] = [
    System {
        name: "openSUSE",
        subvolumes: r#"
sub @; sub @/.snapshots; mkdir -p $top/@/.snapshots/1; sub @/.snapshots/1/snapshot; sub @/home; sub @/boot
mkdir -p $top/@/boot/grub; sub @/boot/grub/x86_64-efi; sub @/boot/grub/i386-pc
root=$top/@/.snapshots/1/snapshot
btrfs subvolume set-default $root
"#,
        fstab: "UUID=BTRFS / btrfs defaults 0 0\n\
                UUID=BTRFS /home btrfs subvol=/@/home 0 0\n\
                UUID=BTRFS /.snapshots btrfs subvol=/@/.snapshots 0 0\n\
                UUID=BTRFS /boot/grub/x86_64-efi btrfs subvol=/@/boot/grub/x86_64-efi 0 0\n\
                UUID=BTRFS /boot/grub/i386-pc btrfs subvol=/@/boot/grub/i386-pc 0 0\n\
                UUID=ESP /boot/efi vfat umask=0077 0 0\n",
        root: "/@/.snapshots/1/snapshot",
    },
    System {
        name: "Ubuntu",
        subvolumes: "sub @; sub @home; root=$top/@",
        fstab: "UUID=BTRFS / btrfs defaults,subvol=@ 0 1\n\
                UUID=BTRFS /home btrfs defaults,subvol=@home 0 2\n\
                UUID=ESP /boot/efi vfat umask=0077 0 1\n",
        root: "/@",
    },
];

/// What debootstrap is asked for besides the least.
const PACKAGES: &str = "linux-image-cloud-amd64,grub-efi-amd64,grub-pc-bin,btrfs-progs,initramfs-tools,zstd,\
    dosfstools,fdisk,kmod";

/// The old disk with the system on it.
const INSTALL: &str = r#"
set -eu
say() { echo "$(cut -d. -f1 /proc/uptime) s: $*"; }
modprobe -qa loop vfat nls_cp437 nls_iso8859-1 nls_ascii || true
# GRUB doesn't know this machine's own kind of disks.
old=$(losetup --find --show --partscan --direct-io=on $1)
new=$(losetup --find --show --partscan --direct-io=on $2)
top=/tmp/old
sub() { btrfs -q subvolume create "$top/$1" >/dev/null; }
id() { blkid -p -s UUID -o value $1; }
{ echo label: gpt; echo size=100MiB, type=U; echo size=+; } | sfdisk --quiet $old
mkfs.vfat -n ESP ${old}p1 >/dev/null
mkfs.btrfs -q ${old}p2 2>/dev/null
mkdir -p $top
mount ${old}p2 $top
eval "$SUBVOLUMES"
cp -a $SYSTEM/. $root/
mkdir -p $root/boot/efi $root/.snapshots
cat > $root/sbin/init <<'END'
#!/bin/bash
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
exec >/dev/ttyS0 2>&1
mount -a
device=$(findmnt -n -o SOURCE --nofsroot /)
echo "ROOT $(blkid -p -s UUID -o value $device) $(findmnt -n -o FSROOT /)"
findmnt -rn -o TARGET | while read -r line; do echo "MOUNTED $line"; done
grep -o 'root=.*' /proc/cmdline
[ -d /sys/firmware/efi ] && echo BY EFI || echo BY BIOS
echo BOOTED
sleep 1
echo o > /proc/sysrq-trigger
sleep 100
END
chmod +x $root/sbin/init
echo "$FSTAB" | sed "s/BTRFS/$(id ${old}p2)/; s/ESP/$(id ${old}p1)/" > $root/etc/fstab
cat > $root/etc/default/grub <<'END'
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="console=ttyS0 no_timer_check panic=1"
GRUB_TERMINAL="console serial"
END
# What QEMU has; all that there is takes long to pack here.
echo MODULES=list > $root/etc/initramfs-tools/conf.d/modules
printf '%s\n' virtio_pci virtio_blk btrfs >> $root/etc/initramfs-tools/modules
umount $top
say installed
"#;

const CLONE: &str = r#"
mkdir -p /tmp/running
mount -o subvol=$RUNS ${old}p2 /tmp/running
braid pool clone /tmp/running --to-disk $new --state-dir /tmp/state-$NAME --finish --yes
say cloned
umount /tmp/running
id ${new}p3 > $ANSWER
"#;

/// The old system's files, made once.
fn system() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bootable-system");
    // It gets its name when it is complete.
    if folder.exists() {
        return Ok(folder);
    }
    let part = folder.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    let made = Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={PACKAGES}"), "bookworm"])
        .arg(&part)
        .stdout(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => {
            for unneeded in ["usr/share/doc", "usr/share/locale", "usr/share/man", "var/lib/apt"] {
                let _ = fs::remove_dir_all(part.join(unneeded));
            }
            fs::rename(&part, &folder).unwrap();
            Ok(folder)
        }
        Ok(status) => Err(format!("debootstrap: {status}")),
        Err(error) => Err(format!("debootstrap: {error}")),
    }
}

/// What the clone says as it boots.
fn boot(folder: &Path, disk: &DiskImage, firmware: Firmware) -> String {
    let console = folder.join("console");
    let _ = fs::remove_file(&console);
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "700"])
        .args(["-display", "none", "-net", "none", "-no-reboot"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-drive")
        .arg(format!("file={},format=raw,if=virtio,snapshot=on", disk.path().display()));
    if let Firmware::Efi(code, variables) = &firmware {
        let own = folder.join("variables");
        fs::copy(variables, &own).unwrap();
        for (path, more) in [(code, ",readonly=on"), (&own, "")] {
            qemu.arg("-drive");
            qemu.arg(format!("if=pflash,format=raw,file={}{more}", path.display()));
        }
    }
    let mut running = qemu.stdin(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let said = || String::from_utf8_lossy(&fs::read(&console).unwrap_or_default()).into_owned();
    while !said().contains("BOOTED") && running.try_wait().unwrap().is_none() {
        if began.elapsed() > BOOTS_WITHIN {
            let _ = running.kill();
            let _ = running.wait();
            panic!("it doesn't boot:\n{}", said());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let _ = running.kill();
    let _ = running.wait();
    println!("booted within {} s", began.elapsed().as_secs());
    said()
}

/// Emulated, beside other tests.
const BOOTS_WITHIN: Duration = Duration::from_secs(900);

#[derive(Clone)]
enum Firmware {
    /// Its code, and its variables when it is new.
    Efi(PathBuf, PathBuf),
    Bios,
}

impl Firmware {
    fn efi() -> Result<Firmware, String> {
        for (code, variables) in [
            ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
            ("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
        ] {
            if Path::new(code).exists() && Path::new(variables).exists() {
                return Ok(Firmware::Efi(code.into(), variables.into()));
            }
        }
        Err("there is no firmware in /usr/share/OVMF: ovmf isn't installed".to_owned())
    }
}

/// What the test needs, or what of it is missing.
fn parts() -> Result<(Vm, Firmware, PathBuf), String> {
    let vm = Vm::find().map_err(|why| why.to_string())?;
    for tool in ["qemu-system-x86_64", "sfdisk", "mkfs.vfat", "mkfs.btrfs"] {
        let there = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        if !there.is_ok_and(|found| found.status.success()) {
            return Err(format!("{tool} isn't installed"));
        }
    }
    Ok((vm, Firmware::efi()?, system()?))
}

#[test]
#[ignore = "takes minutes and fetches a Debian"]
fn a_clone_is_started_by_firmware_and_grub() {
    let (_, efi, files) = match parts() {
        Ok(parts) => parts,
        Err(why) => return println!("skipped: {why}"),
    };
    let only = std::env::var("BRAID_TEST_ONLY").unwrap_or_default();
    let wanted = SYSTEMS.iter().filter(|system| only.is_empty() || only == system.name);
    for system in wanted {
        let folder = tempfile::tempdir().unwrap();
        let size = ByteSize::from_bytes(3 << 30);
        let disks = [(); 2].map(|()| DiskImage::temporary(size).unwrap());
        let uuid = clone(system, &files, folder.path(), &disks);
        for firmware in [efi.clone(), Firmware::Bios] {
            let by = if matches!(firmware, Firmware::Bios) { "BY BIOS" } else { "BY EFI" };
            let said = boot(folder.path(), &disks[1], firmware);
            let root = format!("ROOT {uuid} {}", system.root);
            let cmdline = format!("root=UUID={uuid}");
            for line in [root.as_str(), by, "MOUNTED /home", "MOUNTED /boot/efi", &cmdline] {
                assert!(said.contains(line), "{}: no {line:?} in\n{said}", system.name);
            }
            println!("{}: {by}: {root}", system.name);
        }
    }
}

/// Installs the system on the first disk and clones it to the second; the UUID that it has there.
fn clone(system: &System, files: &Path, folder: &Path, disks: &[DiskImage; 2]) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_braid")).parent().unwrap();
    let answer = folder.join("answer");
    fs::create_dir(&answer).unwrap();
    let script = format!(
        "export PATH={}:$PATH\nset -- $VM_DISKS\nFSTAB=$(cat <<'END'\n{}END\n)\n\
         SUBVOLUMES=$(cat <<'END'\n{}\nEND\n)\n{INSTALL}{CLONE}sync\n",
        programs.display(),
        system.fstab,
        system.subvolumes,
    );
    let began = Instant::now();
    let vm = Vm::find()
        .unwrap()
        .memory(ByteSize::from_bytes(1500 << 20))
        .time_limit(Duration::from_secs(1800))
        .writable(programs)
        .writable(files)
        .echo()
        .writable(&answer)
        .variable("NAME", system.name)
        .variable("RUNS", system.root)
        .variable("SYSTEM", files)
        .variable("ANSWER", answer.join("uuid"));
    let vm = disks.iter().fold(vm, |vm, disk| vm.disk(disk));
    let output = vm.run(["bash", "-c", &script]).unwrap();
    assert!(output.success(), "{}: {}", system.name, output.console);
    println!("{}: cloned within {} s", system.name, began.elapsed().as_secs());
    fs::read_to_string(answer.join("uuid")).unwrap().trim().to_owned()
}
