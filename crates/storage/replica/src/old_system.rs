//! A system to be cloned, as described to the other end.

use crate::exact_path::ExactPath;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the new end wants to know of the old system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Any path on its filesystem.
    pub from: ExactPath,
    /// The subvolume that holds it, if it can't be found out.
    pub root: Option<ExactPath>,
    /// Subvolumes to leave out.
    pub skip: Vec<ExactPath>,
    /// Filesystems of other kinds to transfer: their mount points or devices.
    pub beside: Vec<ExactPath>,
    /// Whether to find those named in its fstab.
    pub find_beside: bool,
    /// The disk, at the new end, that a BIOS should be able to boot.
    pub boot_disk: Option<ExactPath>,
}

/// The old system, as far as the new end needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OldSystem {
    /// Its filesystem.
    pub filesystem: Uuid,
    /// What `PARTUUID=` names it by.
    pub partition: Option<String>,
    /// The subvolumes to transfer, parents first.
    pub parts: Vec<Part>,
    /// The one that holds it.
    pub root: ExactPath,
    /// The one that is mounted when none is named.
    pub default: ExactPath,
    /// What has to be run in it to make it boot.
    pub boot: Vec<BootStep>,
    /// It is on an encrypted device.
    pub encrypted: bool,
    /// How full the btrfs is.
    pub used_bytes: u64,
    /// The filesystems of other kinds that were asked for, in their order.
    pub beside: Vec<Identity>,
    /// Those that its fstab names, if that was asked.
    pub found: Vec<OldBeside>,
    /// What its fstab names but isn't transferred.
    pub warnings: Vec<String>,
}

/// Work for the end where the old system is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloneWork {
    /// Describe it.
    Look(Asked),
    /// Snapshot these subvolumes and send the snapshots.
    Send {
        /// Any path on its filesystem.
        from: ExactPath,
        /// Which.
        parts: Vec<Part>,
        /// Maximum bytes per second.
        limit: Option<u64>,
    },
    /// Send what is in a filesystem of another kind, as tar(1) packs it.
    Files {
        /// Any path on the system's filesystem.
        from: ExactPath,
        /// Where the other one is mounted, or its device.
        path: ExactPath,
    },
    /// Delete the snapshots that were made for it.
    Clean {
        /// Any path on its filesystem.
        from: ExactPath,
    },
}

/// One subvolume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number on the old filesystem.
    pub id: u64,
    /// Its path from the top level, which itself has an empty one.
    pub path: ExactPath,
    /// Whether it is read-only.
    pub read_only: bool,
}

impl Part {
    /// Whether it holds files of the boot loader that belong to the system in `root`.
    pub fn is_for_boot(&self, root: &Path) -> bool {
        let inside = match self.path.as_path().strip_prefix(root) {
            Ok(inside) => inside,
            // Beside it, as `@boot` is beside `@`.
            Err(_) => self.path.as_path(),
        };
        let first = inside.components().next().and_then(|part| part.as_os_str().to_str());
        !self.read_only && matches!(first, Some("boot" | "@boot"))
    }
}

/// A command to run in the new system (chroot).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootStep {
    /// What it is for.
    pub says: String,
    /// The command.
    pub argv: Vec<String>,
}

/// How a filesystem's device is identified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// What `UUID=` in fstab means.
    pub filesystem: Option<String>,
    /// What `PARTUUID=` means.
    pub partition: Option<String>,
}

/// One of the old system's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldBeside {
    /// Where the system mounts it.
    pub at: String,
    /// The filesystem's kind, as fstab has it.
    pub kind: String,
    /// Its device.
    pub device: PathBuf,
    /// The device's size.
    pub size_bytes: u64,
}
