use crate::luks::LuksVolume;
use crate::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of the host around the pools, for the doctor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedHost {
    /// Its name, as md compares it with an array's homehost.
    pub hostname: String,
    /// Text of mdadm.conf, with its path: `/etc/mdadm/mdadm.conf` (Debian) or `/etc/mdadm.conf`.
    pub mdadm_conf: Option<(String, String)>,
    /// Text of `/etc/fstab`.
    pub fstab: String,
    /// Text of `/etc/crypttab`.
    #[serde(default)]
    pub crypttab: String,
    /// The folder with a folder for each pool's LUKS header backups, if given.
    #[serde(default)]
    pub header_backups: Option<String>,
    /// The LUKS volumes on its disks, if these were observed.
    #[serde(default)]
    pub luks: Vec<LuksVolume>,
    /// The running kernel has no md, not even as a module.
    #[serde(default)]
    pub lacks_md: bool,
    /// The running kernel has no dm-crypt, not even as a module.
    #[serde(default)]
    pub lacks_dm_crypt: bool,
    /// The initramfs is older than mdadm.conf; `None` if there is none that would include it.
    pub initramfs_stale: Option<bool>,
    /// The command that rebuilds it: `update-initramfs -u` or `dracut --force`…
    pub initramfs_command: Option<Vec<String>>,
    /// Version of btrfs-progs: (6, 2).
    pub btrfs_progs: Option<(u32, u32)>,
    /// Version of the kernel: (6, 18).
    pub kernel: (u32, u32),
    /// `/sys/fs/btrfs/features/send_stream_version`.
    pub send_stream_version: Option<u32>,
    /// Error recovery of the disks, by path of the whole disk.
    pub timeouts: Vec<DriveTimeout>,
    /// Braid's units for pools; `None` where systemd doesn't run.
    pub systemd: Option<ObservedSystemd>,
}

/// Braid's units for pools in systemd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSystemd {
    /// Contents of those in `/etc/systemd/system`, by name.
    pub units: BTreeMap<String, String>,
    /// Names of the timers that are enabled at boot.
    pub enabled: BTreeSet<String>,
}

/// How long a disk tries to read a bad sector, and how long the kernel waits for it: when the disk
/// takes longer, the kernel resets it and md kicks it out although it would have recovered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveTimeout {
    /// Path of the whole disk.
    pub disk: String,
    /// SCT error recovery control for reads; `None` when the disk has none or it is off (then it
    /// may take minutes).
    pub error_recovery: Option<Duration>,
    /// Whether the disk could have it.
    pub can_limit: bool,
    /// `/sys/block/…/device/timeout`.
    pub driver_timeout: Duration,
}

impl ObservedHost {
    /// The ARRAY line of mdadm.conf that names this array by its UUID.
    pub fn array_line(&self, uuid: Uuid) -> Option<&str> {
        let uuid = uuid.in_mdadm_form();
        let (_, text) = self.mdadm_conf.as_ref()?;
        text.lines().find(|line| {
            let line = line.trim_start().to_ascii_lowercase();
            line.starts_with("array") && line.contains(&uuid)
        })
    }
}
