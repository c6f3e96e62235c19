//! The state of the host around the pools, for the doctor.

use crate::block_device;
use crate::host_root::HostRoot;
use crate::inventory::Inventory;
use crate::tool;
use braid_pool::observed::{DriveTimeout, ObservedHost, ObservedSystemd};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Observes it. Error recovery is known only if the inventory was taken with SMART.
pub fn observe(host: &HostRoot, inventory: &Inventory) -> ObservedHost {
    let conf = mdadm_conf(host);
    let images = initramfs_images(host);
    ObservedHost {
        hostname: host.word("proc/sys/kernel/hostname").unwrap_or_default(),
        fstab: host.text("etc/fstab").unwrap_or_default(),
        crypttab: host.text("etc/crypttab").unwrap_or_default(),
        luks: crate::luks::volumes(host, inventory),
        header_backups: None,
        initramfs_stale: initramfs_stale(host, conf.as_ref().map(|(path, _)| path), &images),
        initramfs_command: images.first().and_then(|_| initramfs_command(host)),
        mdadm_conf: conf,
        btrfs_progs: btrfs_progs(host),
        kernel: kernel(host).unwrap_or_default(),
        lacks_md: lacks_md(host),
        lacks_dm_crypt: lacks_dm_crypt(host),
        send_stream_version: host.number("sys/fs/btrfs/features/send_stream_version"),
        timeouts: timeouts(host, inventory),
        systemd: systemd(host),
    }
}

/// Only if it is running: otherwise nothing would start its units.
fn systemd(host: &HostRoot) -> Option<ObservedSystemd> {
    const UNITS: &str = "etc/systemd/system";
    if !host.has("run/systemd/system") {
        return None;
    }
    let units = host.names(UNITS).into_iter().filter(|name| name.starts_with("braid-pool-"));
    let read = |name: String| {
        let text = host.bytes(Path::new(UNITS).join(&name)).ok()?;
        Some((name, String::from_utf8_lossy(&text).into_owned()))
    };
    let enabled = host.names(Path::new(UNITS).join("timers.target.wants"));
    Some(ObservedSystemd {
        units: units.filter_map(read).collect(),
        enabled: enabled.into_iter().collect(),
    })
}

/// Debian's place first.
fn mdadm_conf(host: &HostRoot) -> Option<(String, String)> {
    ["/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"]
        .into_iter()
        .find_map(|path| Some((path.to_owned(), host.text(path)?)))
}

/// Those of the running kernel, or else all, by the names of Debian, Fedora and openSUSE, Arch.
fn initramfs_images(host: &HostRoot) -> Vec<String> {
    let release = host.word("proc/sys/kernel/osrelease").unwrap_or_default();
    let all: Vec<String> = host
        .names("boot")
        .into_iter()
        .filter(|name| {
            name.starts_with("initrd.img-")
                || name.starts_with("initramfs-")
                || name.starts_with("initrd-")
        })
        .collect();
    let own: Vec<String> = all.iter().filter(|name| name.contains(&release)).cloned().collect();
    if own.is_empty() { all } else { own }
}

/// Whether an image was made before mdadm.conf was written; `None` without either.
fn initramfs_stale(host: &HostRoot, conf: Option<&String>, images: &[String]) -> Option<bool> {
    let conf = modified(&host.path(conf?))?;
    let oldest = images.iter().filter_map(|name| modified(&host.path("boot").join(name))).min()?;
    Some(oldest < conf)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

fn initramfs_command(host: &HostRoot) -> Option<Vec<String>> {
    const COMMANDS: [&[&str]; 3] = [
        &["update-initramfs", "-u"],
        &["dracut", "--force", "--regenerate-all"],
        &["mkinitcpio", "-P"],
    ];
    let is_there = |program: &str| {
        ["usr/sbin", "usr/bin", "sbin", "bin"]
            .iter()
            .any(|dir| host.has(format!("{dir}/{program}")))
    };
    let command = COMMANDS.into_iter().find(|command| is_there(command[0]))?;
    Some(command.iter().map(|word| (*word).to_owned()).collect())
}

/// `btrfs --version` says `btrfs-progs v6.2` (then, since 6.6, what it was built with).
fn btrfs_progs(host: &HostRoot) -> Option<(u32, u32)> {
    if !host.is_real() {
        return None;
    }
    let answer = tool::ask("btrfs", &["--version"], Duration::from_secs(5)).ok()?;
    let version = answer.out.lines().find_map(|line| line.trim().strip_prefix("btrfs-progs v"))?;
    two_numbers(version)
}

/// md may be built in, loaded, or a module of the running kernel. If the module lists can't be
/// read, it isn't known.
fn lacks_md(host: &HostRoot) -> bool {
    if !host.is_real() || host.has("proc/mdstat") || host.has("sys/module/md_mod") {
        return false;
    }
    !modules(host).iter().any(|text| text.contains("/md-mod.ko"))
}

/// As [`lacks_md`]; without any list only the absence of the device mapper can be known.
fn lacks_dm_crypt(host: &HostRoot) -> bool {
    if !host.is_real() || host.has("sys/module/dm_crypt") {
        return false;
    }
    let lists = modules(host);
    let has_mapper = host.text("proc/misc").is_some_and(|text| text.contains("device-mapper"));
    match lists.is_empty() {
        true => !has_mapper,
        false => !lists.iter().any(|text| text.contains("/dm-crypt.ko")),
    }
}

/// The lists of the running kernel's modules, and of what is built in.
fn modules(host: &HostRoot) -> Vec<String> {
    let release = host.word("proc/sys/kernel/osrelease").unwrap_or_default();
    let lists =
        ["modules.dep", "modules.builtin"].map(|list| format!("lib/modules/{release}/{list}"));
    lists.iter().filter_map(|list| std::fs::read_to_string(host.path(list)).ok()).collect()
}

fn kernel(host: &HostRoot) -> Option<(u32, u32)> {
    two_numbers(&host.word("proc/sys/kernel/osrelease")?)
}

/// The first two of `6.18.44-rc1`.
fn two_numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// For the disks that reported their error recovery; `device/timeout` is in seconds.
fn timeouts(host: &HostRoot, inventory: &Inventory) -> Vec<DriveTimeout> {
    let timeout = |(disk, recovery): (&String, &crate::smart::ErrorRecovery)| {
        let name = block_device::name_of(disk)?;
        let driver: u64 = host.number(format!("sys/block/{name}/device/timeout"))?;
        Some(DriveTimeout {
            disk: disk.clone(),
            error_recovery: recovery.limit,
            can_limit: recovery.can_limit,
            driver_timeout: Duration::from_secs(driver),
        })
    };
    inventory.error_recovery.iter().filter_map(timeout).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn an_initramfs_older_than_mdadm_conf_is_stale() {
        let dir = tempfile::tempdir().unwrap();
        let host = HostRoot::at(dir.path());
        write(dir.path(), "proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
        write(dir.path(), "etc/mdadm/mdadm.conf", "ARRAY /dev/md/data UUID=1\n");
        assert_eq!(observe(&host, &Inventory::default()).initramfs_stale, None);
        write(dir.path(), "boot/initrd.img-6.1.0-9-amd64", "");
        write(dir.path(), "usr/sbin/update-initramfs", "");
        let fresh = observe(&host, &Inventory::default());
        assert_eq!(fresh.initramfs_stale, Some(false));
        assert_eq!(fresh.kernel, (6, 1));
        assert_eq!(fresh.initramfs_command.unwrap(), ["update-initramfs", "-u"]);

        let image = fs::File::open(dir.path().join("boot/initrd.img-6.1.0-9-amd64")).unwrap();
        image.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
        // An image of a kernel that isn't used doesn't count.
        write(dir.path(), "boot/initrd.img-6.0.0-1-amd64", "");
        assert_eq!(observe(&host, &Inventory::default()).initramfs_stale, Some(true));
    }

    #[test]
    fn error_recovery_is_put_beside_the_drivers_patience() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "sys/block/sda/device/timeout", "30\n");
        let mut inventory = Inventory::default();
        let recovery = crate::smart::ErrorRecovery { limit: None, can_limit: true };
        inventory.error_recovery.insert("/dev/sda".to_owned(), recovery);
        let timeouts = observe(&HostRoot::at(dir.path()), &inventory).timeouts;
        assert_eq!(timeouts[0].driver_timeout, Duration::from_secs(30));
        assert_eq!(timeouts[0].error_recovery, None);
    }
}
