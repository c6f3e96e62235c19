//! What makes the new system boot: UUIDs in its files, and commands to run in it.

use super::fstab;
use super::mount::Beside;
use crate::error::Error;
pub use crate::old_system::{BootStep, Identity};
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commands that the system in `root` needs, by the tools it has. None of them writes to this
/// computer's firmware: GRUB goes onto the ESP, also under the name that firmware looks for on an
/// unknown disk, and with `disk` to where a BIOS boots that disk.
pub fn steps(root: &Path, has_esp: bool, disk: Option<&Path>) -> Vec<BootStep> {
    let has = |tool: &str| {
        ["usr/sbin", "usr/bin", "sbin", "bin"].iter().any(|at| root.join(at).join(tool).exists())
    };
    let step = |says: &str, argv: &[&str]| BootStep {
        says: says.to_owned(),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
    };
    let mut steps = vec![];
    if has("update-initramfs") {
        steps.push(step("initramfs", &["update-initramfs", "-u", "-k", "all"]));
    } else if has("dracut") {
        steps.push(step("initramfs", &["dracut", "--force", "--regenerate-all"]));
    } else if has("mkinitcpio") {
        steps.push(step("initramfs", &["mkinitcpio", "-P"]));
    }
    if let Some(grub) = ["grub2-install", "grub-install"].into_iter().find(|tool| has(tool)) {
        let can = |target: &str| {
            let homes = ["usr/lib/grub", "usr/share/grub2", "usr/lib/grub2"];
            homes.iter().any(|home| root.join(home).join(target).join("modinfo.sh").exists())
        };
        for target in ["x86_64-efi", "arm64-efi"].into_iter().filter(|one| has_esp && can(one)) {
            let target = format!("--target={target}");
            steps.push(step("boot loader on the ESP", &[grub, &target, "--no-nvram"]));
            let removable = [grub, &target, "--no-nvram", "--removable"];
            steps.push(step("boot loader on the ESP, for any computer", &removable));
        }
        if let Some(disk) = disk.and_then(Path::to_str).filter(|_| can("i386-pc")) {
            steps.push(step("boot loader for a BIOS", &[grub, "--target=i386-pc", disk]));
        }
    }
    if has("update-grub") {
        steps.push(step("boot menu", &["update-grub"]));
    } else if has("grub2-mkconfig") {
        steps.push(step("boot menu", &["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"]));
    } else if has("grub-mkconfig") {
        steps.push(step("boot menu", &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"]));
    }
    steps
}

/// Makes a system's folder look as if it had booted, and runs a command in it. It runs in a mount
/// namespace of its own, so nothing stays mounted.
///
/// grub-mkconfig and others name a filesystem by its UUID only where udev has made the link for it,
/// else by the disk's name of today. If there is no udev, or it hasn't processed the new disk yet,
/// they see links of our own.
const CHROOT: &str = r#"
root=$1
shift
mount --bind "$root" "$root"
for name in dev proc sys run; do
    mkdir -p "$root/$name"
    mount --rbind "/$name" "$root/$name"
done
links=/dev/disk/by-uuid
own=
while [ "$1" != -- ]; do
    if [ "$(readlink -f "$links/$1")" != "$(readlink -f "$2")" ]; then
        if [ -z "$own" ]; then
            mkdir -p "$links"
            own=$root$links
            mount -t tmpfs none "$own"
            cp -P "$links"/* "$own" 2>/dev/null || :
        fi
        ln -sfn "$(readlink -f "$2")" "$own/$1"
    fi
    shift 2
done
shift
# What of it is on the new filesystem; the rest isn't needed.
chroot "$root" mount -a -t btrfs || :
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    shift 2
done
shift
exec chroot "$root" "$@"
"#;

/// Runs the steps in the system in `root`, a folder of the new filesystem's top level. `beside` are
/// other filesystems of it, and where in it they are mounted; `devices` are the UUIDs of all of
/// them with their devices.
pub(super) fn finish(
    root: &Path,
    devices: &[(String, PathBuf)],
    beside: &[(&Path, &Path)],
    steps: &[BootStep],
) -> Result<(), Error> {
    // Without udev there is nothing to wait for.
    let _ = Command::new("udevadm").args(["settle", "--timeout=30"]).output();
    for step in steps {
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-eu", "-c", CHROOT, "sh"])
            .arg(root)
            .args(devices.iter().flat_map(|(uuid, device)| [Path::new(uuid), device]))
            .arg("--")
            .args(beside.iter().flat_map(|(new, at)| [new, at]))
            .arg("--")
            .args(&step.argv)
            .env("LC_ALL", "C")
            .output()
            .map_err(|error| Error::Io { doing: "starting unshare".to_owned(), error })?;
        if !output.status.success() {
            return Err(Error::Refused(format!(
                "{} ({}) failed in {}: {}",
                step.argv.join(" "),
                step.says,
                root.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
    }
    Ok(())
}

/// Lets firmware that doesn't know the disk find the boot loader that was copied to the ESP: it
/// looks for EFI/BOOT/BOOTX64.EFI.
pub(super) fn be_found(esp: &Path) -> Result<Option<PathBuf>, Error> {
    const LOADERS: [(&str, &str, &str); 4] = [
        ("shimx64.efi", "grubx64.efi", "BOOTX64.EFI"),
        ("shimaa64.efi", "grubaa64.efi", "BOOTAA64.EFI"),
        ("systemd-bootx64.efi", "systemd-bootx64.efi", "BOOTX64.EFI"),
        ("grubx64.efi", "grubx64.efi", "BOOTX64.EFI"),
    ];
    let vendors = matching(esp, "EFI/*");
    let found = LOADERS.iter().find_map(|(first, second, name)| {
        let has = |folder: &&PathBuf| folder.join(first).exists() && folder.join(second).exists();
        Some((vendors.iter().find(has)?, first, second, name))
    });
    let Some((folder, first, second, name)) = found else { return Ok(None) };
    let boot = esp.join("EFI/BOOT");
    let loader = boot.join(name);
    if loader.exists() {
        return Ok(None);
    }
    fs::create_dir_all(&boot).map_err(|e| Error::io("making the folder", &boot, e))?;
    for (from, to) in [(second, boot.join(second)), (first, loader.clone())] {
        fs::copy(folder.join(from), &to).map_err(|e| Error::io("writing", &to, e))?;
    }
    Ok(Some(loader))
}

/// Rewrites files of the new system.
pub struct Changes {
    /// Old and new; the btrfs' own first.
    uuids: Vec<(String, String)>,
    ids: BTreeMap<u64, u64>,
    /// Which files changed.
    pub rewritten: Vec<PathBuf>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

/// Files that name the root filesystem, in a system. A `*` stands for any one name.
const SYSTEM: [&str; 8] = [
    "etc/default/grub",
    "etc/kernel/cmdline",
    "etc/grub.d/*",
    "etc/crypttab",
    "boot/grub/*",
    "boot/grub2/*",
    "boot/loader/entries/*",
    "boot/efi/EFI/*/grub.cfg",
];

/// The same in a subvolume or partition that is mounted at /boot or below, or is the ESP.
const BOOT: [&str; 6] =
    ["grub/*", "grub2/*", "loader/entries/*", "EFI/*/grub.cfg", "grub.cfg", "grubenv"];

/// Larger files aren't configuration.
const LARGEST: u64 = 4 << 20;

impl Changes {
    /// From the old filesystem and subvolumes to the new.
    pub fn new(from: Uuid, to: Uuid, ids: BTreeMap<u64, u64>) -> Changes {
        Changes {
            uuids: vec![(from.to_string(), to.to_string())],
            ids,
            rewritten: vec![],
            warnings: vec![],
        }
    }

    /// Records both sides' UUIDs of a filesystem beside the btrfs, whose old one is at `path`.
    pub fn note_beside(&mut self, path: &Path, from: &Identity, new: &Beside) -> Result<(), Error> {
        let to = Identity::of(new.path())?;
        match (&from.filesystem, &to.filesystem) {
            (Some(old), Some(new)) if old != new => self.uuids.push((old.clone(), new.clone())),
            (Some(id), Some(_)) => self.warnings.push(format!(
                "{} and its copy both have the UUID {id}; one of them needs another",
                path.display()
            )),
            _ => self.warnings.push(format!(
                "the UUIDs of {} and its copy are unknown: look at etc/fstab",
                path.display()
            )),
        }
        self.note_partitions(from.partition.clone(), to.partition);
        Ok(())
    }

    /// Records the UUIDs of the partitions that hold a filesystem, if there is one on each side.
    pub fn note_partitions(&mut self, old: Option<String>, new: Option<String>) {
        self.uuids.extend(old.zip(new).filter(|(old, new)| old != new));
    }

    /// The files of the system in `root`.
    pub fn rewrite_system(&mut self, root: &Path) -> Result<(), Error> {
        let path = root.join("etc/fstab");
        let text = fs::read_to_string(&path).map_err(|e| Error::io("reading", &path, e))?;
        let (new, warnings) = fstab::moved(&text, &self.uuids, &self.ids);
        self.warnings.extend(warnings);
        if new != text {
            fs::write(&path, new).map_err(|e| Error::io("writing", &path, e))?;
            self.rewritten.push(path);
        }
        self.rewrite(root, &SYSTEM)
    }

    /// The files of a boot loader in `folder`.
    pub fn rewrite_boot(&mut self, folder: &Path) -> Result<(), Error> {
        self.rewrite(folder, &BOOT)
    }

    fn rewrite(&mut self, root: &Path, patterns: &[&str]) -> Result<(), Error> {
        for pattern in patterns {
            for path in matching(root, pattern) {
                let about = fs::symlink_metadata(&path);
                if !about.is_ok_and(|about| about.is_file() && about.len() <= LARGEST) {
                    continue;
                }
                let bytes = fs::read(&path).map_err(|e| Error::io("reading", &path, e))?;
                let mut new = bytes.clone();
                for (old, other) in &self.uuids {
                    new = replaced(&new, old.as_bytes(), other.as_bytes());
                }
                if new != bytes {
                    fs::write(&path, new).map_err(|e| Error::io("writing", &path, e))?;
                    self.rewritten.push(path);
                }
            }
        }
        Ok(())
    }
}

/// Paths below `root` that match a pattern; symbolic links aren't followed.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        let inside = |folder: &PathBuf| -> Vec<PathBuf> {
            if fs::symlink_metadata(folder).is_ok_and(|about| about.is_symlink()) {
                return vec![];
            }
            match part {
                "*" => fs::read_dir(folder)
                    .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
                    .unwrap_or_default(),
                name => vec![folder.join(name)],
            }
        };
        found = found.iter().flat_map(inside).collect();
    }
    found.sort();
    found
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(old) {
            out.extend_from_slice(new);
            rest = after;
        } else {
            out.push(*first);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    out
}

impl Identity {
    /// Of the device mounted at `path`, or `path` itself: blkid(8) is asked, since FAT's number is
    /// nowhere in sysfs.
    ///
    /// # Errors
    /// When `path` can't be looked at or blkid can't be started. It isn't an error if blkid finds
    /// no UUID.
    pub fn of(path: &Path) -> Result<Identity, Error> {
        let Some(device) = device_at(path)? else { return Ok(Identity::default()) };
        Ok(Identity {
            filesystem: probed(&device, "UUID")?,
            partition: probed(&device, "PART_ENTRY_UUID")?,
        })
    }
}

/// The device mounted at `path`, or `path` itself; nothing where it isn't on a single one, as a
/// btrfs isn't.
pub(super) fn device_at(path: &Path) -> Result<Option<PathBuf>, Error> {
    let about = fs::metadata(path).map_err(|e| Error::io("looking at", path, e))?;
    let device = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
    let (major, minor) = (libc::major(device), libc::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    Ok(link.ok().and_then(|link| Some(Path::new("/dev").join(link.file_name()?))))
}

fn probed(device: &Path, tag: &str) -> Result<Option<String>, Error> {
    let output = Command::new("blkid")
        .env("LC_ALL", "C")
        .args(["--probe", "--match-tag", tag, "--output", "value"])
        .arg(device)
        .output()
        .map_err(|error| Error::Io { doing: "starting blkid".to_owned(), error })?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_boot_loader_is_where_a_firmware_looks() {
        let esp = tempfile::tempdir().unwrap();
        let vendor = esp.path().join("EFI/fedora");
        fs::create_dir_all(&vendor).unwrap();
        assert_eq!(be_found(esp.path()).unwrap(), None);
        fs::write(vendor.join("shimx64.efi"), "shim").unwrap();
        fs::write(vendor.join("grubx64.efi"), "grub").unwrap();
        let made = be_found(esp.path()).unwrap().unwrap();
        assert_eq!(fs::read(&made).unwrap(), b"shim");
        assert_eq!(fs::read(made.with_file_name("grubx64.efi")).unwrap(), b"grub");
        // What is there already is the system's own.
        fs::write(&made, "other").unwrap();
        assert_eq!(be_found(esp.path()).unwrap(), None);
    }

    #[test]
    fn bytes_are_replaced_everywhere_and_nothing_else() {
        assert_eq!(replaced(b"xoldoldy\xff", b"old", b"newer"), b"xnewernewery\xff");
        assert_eq!(replaced(b"", b"old", b"new"), b"");
        assert_eq!(replaced(b"ol", b"old", b"new"), b"ol");
    }
}
