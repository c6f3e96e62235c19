//! The parts of a machine, and where they are on the host.

use crate::error::Unavailable;
use braid_units::ByteSize;
use std::path::{Path, PathBuf};

/// From Debian's package user-mode-linux.
const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";
/// A folder in memory, whose files are never written to a disk.
const SHARED_MEMORY: &str = "/dev/shm";
/// The first process mounts its working folders here; the host's own folder isn't changed.
const MOUNT_POINT: &str = "/mnt";

/// The library built from `preload/ptrace.rs`; empty if it isn't needed.
pub(crate) const PTRACE_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ptrace.so"));

/// The library built from `preload/clock.rs`; empty if there are no machines.
pub(crate) const CLOCK_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// The library built from `preload/record.rs`; empty if there are no machines.
pub(crate) const RECORD_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/record.so"));

/// The kernel and its modules.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) kernel: PathBuf,
    /// May be missing: then everything is built into the kernel.
    pub(crate) modules: PathBuf,
}

impl Parts {
    /// Debian's, or those in `BRAID_VM_KERNEL` and `BRAID_VM_MODULES`.
    pub(crate) fn find() -> Result<Self, Unavailable> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err(Unavailable::Architecture);
        }
        let of = |variable: &str, default: &str| {
            PathBuf::from(std::env::var_os(variable).unwrap_or_else(|| default.into()))
        };
        let kernel = of("BRAID_VM_KERNEL", KERNEL);
        if !kernel.is_file() {
            return Err(Unavailable::NoKernel { looked_for: kernel });
        }
        if !Path::new(MOUNT_POINT).is_dir() {
            return Err(Unavailable::NoFolder(MOUNT_POINT.into()));
        }
        Ok(Parts { kernel, modules: of("BRAID_VM_MODULES", MODULES) })
    }
}

/// A folder for a file of `size` that should be in memory if possible.
pub(crate) fn memory_folder(size: ByteSize) -> PathBuf {
    if free(Path::new(SHARED_MEMORY)).is_some_and(|free| free >= size.bytes()) {
        SHARED_MEMORY.into()
    } else {
        std::env::temp_dir()
    }
}

/// A folder that the machine also sees: not below /dev, on which its kernel mounts.
pub(crate) fn shared_folder() -> PathBuf {
    let folder = std::env::temp_dir();
    if folder.starts_with("/dev") { "/var/tmp".into() } else { folder }
}

/// Free space in the filesystem of `folder`, bytes.
fn free(folder: &Path) -> Option<u64> {
    let figures = rustix::fs::statvfs(folder).ok()?;
    Some(figures.f_bavail * figures.f_frsize)
}
