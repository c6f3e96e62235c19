//! btrfs' ioctls, by the kernel's include/uapi/linux/btrfs.h.

#![allow(unsafe_code)]

use braid_pool::observed::BtrfsErrors;
use braid_pool::uuid::Uuid;
use std::fs::File;
use std::io;
use std::mem::{self, size_of};
use std::os::fd::AsRawFd;

/// What the kernel knows about one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// UUID of the device.
    pub uuid: Uuid,
    /// What chunks occupy.
    pub allocated_bytes: u64,
    /// The size that btrfs uses.
    pub total_bytes: u64,
    /// Its path as the kernel was told; `None` when the device is missing.
    pub path: Option<String>,
}

/// The running scrub of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubProgress {
    /// The device.
    pub devid: u64,
    /// Data and metadata that were read.
    pub scrubbed_bytes: u64,
    /// Errors that it could not correct.
    pub uncorrectable: u64,
    /// Errors that it corrected.
    pub corrected: u64,
}

/// A running or paused balance, counted in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceProgress {
    /// It is paused.
    pub paused: bool,
    /// Chunks that fit the filters, as estimated at the start.
    pub expected: u64,
    /// Chunks looked at.
    pub considered: u64,
    /// Chunks moved.
    pub completed: u64,
}

/// The state of the last `replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceProgress {
    /// What it does.
    pub state: ReplaceState,
    /// How much is done, in thousandths.
    pub per_mille: u64,
    /// Writes to the new device that failed.
    pub write_errors: u64,
    /// Reads that no copy could answer.
    pub uncorrectable_read_errors: u64,
}

/// `BTRFS_IOCTL_DEV_REPLACE_STATE_…`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceState {
    /// There never was one.
    NeverStarted,
    /// It runs.
    Started,
    /// It ended well.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It waits for the filesystem to be mounted with all devices.
    Suspended,
}

/// UUID of the filesystem that an open file or directory is in.
///
/// # Errors
/// The kernel's error, also when it is no btrfs.
pub fn filesystem_uuid(on: &File) -> io::Result<Uuid> {
    let mut args: FsInfo = zeroed();
    call(on, FS_INFO, &mut args)?;
    Ok(Uuid::from_bytes(args.fsid))
}

/// One device of the filesystem.
///
/// # Errors
/// The kernel's error, such as that no device has this number or that it is no btrfs.
pub fn device_info(on: &File, devid: u64) -> io::Result<DeviceInfo> {
    let mut args: DevInfo = zeroed();
    args.devid = devid;
    call(on, DEV_INFO, &mut args)?;
    let end = args.path.iter().position(|byte| *byte == 0).unwrap_or(args.path.len());
    let path = args.path.get(..end).filter(|path| !path.is_empty());
    Ok(DeviceInfo {
        uuid: Uuid::from_bytes(args.uuid),
        allocated_bytes: args.bytes_used,
        total_bytes: args.total_bytes,
        // Since 6.x the kernel writes this for a missing device; earlier it left the field empty.
        path: path
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .filter(|p| p.starts_with('/')),
    })
}

/// Error counters of one device.
///
/// # Errors
/// The kernel's error, such as that no device has this number or that it is no btrfs.
pub fn device_errors(on: &File, devid: u64) -> io::Result<BtrfsErrors> {
    let mut args: DevStats = zeroed();
    args.devid = devid;
    args.nr_items = args.values.len() as u64;
    call(on, GET_DEV_STATS, &mut args)?;
    let [write, read, flush, corruption, generation] = args.values;
    Ok(BtrfsErrors { write, read, flush, corruption, generation })
}

/// Progress of the scrub of one device; `None` when none runs.
///
/// # Errors
/// The kernel's error, such as that no device has this number, that it is no btrfs, or that
/// only root may ask.
pub fn scrub_progress(on: &File, devid: u64) -> io::Result<Option<ScrubProgress>> {
    let mut args: ScrubArgs = zeroed();
    args.devid = devid;
    match call(on, SCRUB_PROGRESS, &mut args) {
        Ok(()) => Ok(Some(ScrubProgress {
            devid,
            scrubbed_bytes: args.progress[DATA_BYTES].saturating_add(args.progress[TREE_BYTES]),
            uncorrectable: args.progress[UNCORRECTABLE],
            corrected: args.progress[CORRECTED],
        })),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stops the scrub of a filesystem; `false` when none ran.
///
/// # Errors
/// The kernel's error, such as that it is no btrfs or that only root may do that.
pub fn cancel_scrub(on: &File) -> io::Result<bool> {
    match call(on, SCRUB_CANCEL, &mut ()) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Progress of a balance; `None` when there is none.
///
/// # Errors
/// The kernel's error, such as that it is no btrfs or that only root may ask.
pub fn balance_progress(on: &File) -> io::Result<Option<BalanceProgress>> {
    const RUNNING: u64 = 1;
    let mut args: BalanceArgs = zeroed();
    match call(on, BALANCE_PROGRESS, &mut args) {
        Ok(()) => Ok(Some(BalanceProgress {
            paused: args.state & RUNNING == 0,
            expected: args.stat[0],
            considered: args.stat[1],
            completed: args.stat[2],
        })),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The state of the last `replace`.
///
/// # Errors
/// The kernel's error, such as that it is no btrfs or that only root may ask.
pub fn replace_progress(on: &File) -> io::Result<ReplaceProgress> {
    const STATUS: u64 = 1;
    let mut args: DevReplace = zeroed();
    args.cmd = STATUS;
    call(on, DEV_REPLACE, &mut args)?;
    let [state, per_mille, _, _, write_errors, uncorrectable_read_errors, ..] = args.status;
    let state = match state {
        1 => ReplaceState::Started,
        2 => ReplaceState::Finished,
        3 => ReplaceState::Cancelled,
        4 => ReplaceState::Suspended,
        _ => ReplaceState::NeverStarted,
    };
    Ok(ReplaceProgress { state, per_mille, write_errors, uncorrectable_read_errors })
}

const MAGIC: u32 = 0x94;
const SCRUB_CANCEL: libc::Ioctl = libc::_IO(MAGIC, 28);
const SCRUB_PROGRESS: libc::Ioctl = libc::_IOWR::<ScrubArgs>(MAGIC, 29);
const DEV_INFO: libc::Ioctl = libc::_IOWR::<DevInfo>(MAGIC, 30);
const FS_INFO: libc::Ioctl = libc::_IOR::<FsInfo>(MAGIC, 31);
const BALANCE_PROGRESS: libc::Ioctl = libc::_IOR::<BalanceArgs>(MAGIC, 34);
const GET_DEV_STATS: libc::Ioctl = libc::_IOWR::<DevStats>(MAGIC, 52);
const DEV_REPLACE: libc::Ioctl = libc::_IOWR::<DevReplace>(MAGIC, 53);

/// Data that may be all zeroes or any other bytes.
///
/// # Safety
/// Only for types made of integers, without padding.
unsafe trait Plain {}

// SAFETY: it has no bytes at all.
unsafe impl Plain for () {}

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident of $size:literal { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        struct $name { $($field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $size);
        const _: () = assert!($(size_of::<$type>() +)* 0 == $size, "no padding");
        // SAFETY: integers only, and the fields' sizes add up to the whole.
        unsafe impl Plain for $name {}
    )*};
}

layout! {
    /// `struct btrfs_ioctl_fs_info_args`
    FsInfo of 1024 { max_id: u64, num_devices: u64, fsid: [u8; 16], rest: [u64; 124], }
    /// `struct btrfs_ioctl_dev_info_args`
    DevInfo of 4096 {
        devid: u64, uuid: [u8; 16], bytes_used: u64, total_bytes: u64, unused: [u64; 379], path: [u8; 1024],
    }
    /// `struct btrfs_ioctl_get_dev_stats`; its padding overshoots 1 KiB.
    DevStats of 1032 { devid: u64, nr_items: u64, flags: u64, values: [u64; 5], unused: [u64; 121], }
    /// `struct btrfs_ioctl_scrub_args` with `struct btrfs_scrub_progress`
    ScrubArgs of 1024 {
        devid: u64, start: u64, end: u64, flags: u64, progress: [u64; 15], unused: [u64; 109],
    }
    /// `struct btrfs_ioctl_balance_args`: the filters of data, metadata, system (`struct
    /// btrfs_balance_args`, 136 bytes each), then `struct btrfs_balance_progress`.
    BalanceArgs of 1024 { flags: u64, state: u64, filters: [u64; 51], stat: [u64; 3], unused: [u64; 72], }
    /// `struct btrfs_ioctl_dev_replace_args`: the union is as long as its parameters of a start
    /// (2072 bytes).
    DevReplace of 2600 { cmd: u64, result: u64, status: [u64; 259], spare: [u64; 64], }
}

/// Places in `struct btrfs_scrub_progress`.
const DATA_BYTES: usize = 2;
const TREE_BYTES: usize = 3;
const UNCORRECTABLE: usize = 11;
const CORRECTED: usize = 12;

fn zeroed<T: Plain>() -> T {
    // SAFETY: a `Plain` may have any bytes.
    unsafe { mem::zeroed() }
}

fn call<T: Plain>(on: &File, request: libc::Ioctl, args: &mut T) -> io::Result<()> {
    // SAFETY: each request is made from the type that it is called with, of the size that the
    // kernel reads and writes; whatever it writes is valid in a `Plain`.
    let result = unsafe { libc::ioctl(on.as_raw_fd(), request, std::ptr::from_mut(args)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
