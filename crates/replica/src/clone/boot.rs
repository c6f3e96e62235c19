//! What makes the new system boot: UUIDs in its files, and commands to run in it.

use super::fstab;
use crate::error::Error;
use crate::files::copy_plain;
use braid_pool::uuid::Uuid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command to run in the new system (chroot).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BootStep {
    /// What it is for.
    pub says: String,
    /// The command.
    pub argv: Vec<String>,
}

/// The commands that the system in `root` wants, by which tools it has.
pub fn steps(root: &Path, has_esp: bool) -> Vec<BootStep> {
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
    if has("update-bootloader") && has_esp {
        steps.push(step("boot loader on the ESP", &["update-bootloader", "--reinit"]));
    } else if has("grub-install") && has_esp {
        steps.push(step("boot loader on the ESP", &["grub-install"]));
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

/// Makes a system's folder look as when it has booted, and runs a command in it.
/// It runs in a mount namespace of its own, so nothing stays mounted.
const CHROOT: &str = r#"
root=$1 esp=$2
shift 2
mount --bind "$root" "$root"
for name in dev proc sys run; do
    mkdir -p "$root/$name"
    mount --rbind "/$name" "$root/$name"
done
# What of it is on the new filesystem; the rest isn't needed.
chroot "$root" mount -a -t btrfs || :
if [ -n "$esp" ]; then
    mkdir -p "$root/boot/efi"
    mount --bind "$esp" "$root/boot/efi"
fi
exec chroot "$root" "$@"
"#;

/// Runs the steps in the system in `root`, a folder of the new filesystem's top level.
pub(super) fn finish(root: &Path, esp: Option<&Path>, steps: &[BootStep]) -> Result<(), Error> {
    for step in steps {
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-eu", "-c", CHROOT, "sh"])
            .args([root, esp.unwrap_or(Path::new(""))])
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

/// Rewrites files of the new system.
pub struct Changes {
    uuids: Vec<(String, String)>,
    filesystems: (Uuid, Uuid),
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

/// Larger files are no configuration.
const LARGEST: u64 = 4 << 20;

impl Changes {
    /// From the old filesystem and subvolumes to the new.
    pub fn new(from: Uuid, to: Uuid, ids: BTreeMap<u64, u64>) -> Changes {
        Changes {
            uuids: vec![(from.to_string(), to.to_string())],
            filesystems: (from, to),
            ids,
            rewritten: vec![],
            warnings: vec![],
        }
    }

    /// Copies what is on the old ESP to the new one and notes their serial numbers.
    pub fn copy_esp(&mut self, old: &Path, new: &Path) -> Result<(), Error> {
        copy_plain(old, new)?;
        match (filesystem_id(old)?, filesystem_id(new)?) {
            (Some(old), Some(new)) if old != new => self.uuids.push((old, new)),
            (Some(old), Some(_)) => self.warnings.push(format!(
                "both EFI system partitions have the serial number {old}; one of them needs another"
            )),
            _ => self.warnings.push(
                "the serial numbers of the EFI system partitions are unknown: look at etc/fstab"
                    .to_owned(),
            ),
        }
        Ok(())
    }

    /// The files of the system in `root`.
    pub fn rewrite_system(&mut self, root: &Path) -> Result<(), Error> {
        let path = root.join("etc/fstab");
        let text = fs::read_to_string(&path).map_err(|e| Error::io("reading", &path, e))?;
        let (mut new, warnings) = fstab::moved(&text, self.filesystems, &self.ids);
        self.warnings.extend(warnings);
        for (old, other) in self.uuids.iter().skip(1) {
            new = new.replace(&format!("UUID={old}"), &format!("UUID={other}"));
        }
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

/// Paths below `root` that a pattern means; symbolic links aren't followed.
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

/// What `UUID=` in fstab means for the filesystem mounted at `path`: blkid(8)
/// is asked, since FAT's number is nowhere in sysfs.
fn filesystem_id(path: &Path) -> Result<Option<String>, Error> {
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(path).map_err(|e| Error::io("looking at", path, e))?;
    let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
    let Ok(link) = fs::read_link(format!("/sys/dev/block/{major}:{minor}")) else {
        return Ok(None);
    };
    let Some(name) = link.file_name() else { return Ok(None) };
    let output = Command::new("blkid")
        .env("LC_ALL", "C")
        .args(["--probe", "--match-tag", "UUID", "--output", "value"])
        .arg(Path::new("/dev").join(name))
        .output()
        .map_err(|error| Error::Io { doing: "starting blkid".to_owned(), error })?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_replaced_everywhere_and_nothing_else() {
        assert_eq!(replaced(b"xoldoldy\xff", b"old", b"newer"), b"xnewernewery\xff");
        assert_eq!(replaced(b"", b"old", b"new"), b"");
        assert_eq!(replaced(b"ol", b"old", b"new"), b"ol");
    }
}
