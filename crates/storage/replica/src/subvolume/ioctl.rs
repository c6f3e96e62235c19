//! The kernel's btrfs requests on subvolumes, as `linux/btrfs.h` has them.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

/// A structure that an ioctl may read and fill: plain old data, any bit
/// pattern of which is valid.
///
/// # Safety
/// `repr(C)`, laid out as the kernel's, made of integers (and pointers that
/// only the kernel follows), without padding that matters.
pub(crate) unsafe trait Plain {}

/// All zero.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` types are made of integers and nullable pointers.
    unsafe { mem::zeroed() }
}

/// One request on an open file; `argument` is read and possibly filled.
///
/// # Safety
/// `request` must be one whose argument has `T`'s layout and whose pointers,
/// if it has any, are valid while the call lasts.
pub(crate) unsafe fn call<T: Plain>(
    file: &File,
    request: Request,
    argument: &mut T,
) -> io::Result<()> {
    // SAFETY: `argument` outlives the call; the rest is the caller's promise.
    let result = unsafe {
        libc::ioctl(file.as_raw_fd(), request.0 as libc::Ioctl, std::ptr::from_mut(argument))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request's number.
#[derive(Clone, Copy)]
pub(crate) struct Request(u64);

const MAGIC: u64 = 0x94;
const WRITE: u64 = 1;
const READ: u64 = 2;

/// `_IOC` of asm-generic/ioctl.h, which x86, Arm and RISC-V share.
const fn request<T>(direction: u64, number: u64) -> Request {
    Request((direction << 30) | ((mem::size_of::<T>() as u64) << 16) | (MAGIC << 8) | number)
}

pub(crate) const SYNC: Request = request::<()>(0, 8);
pub(crate) const TREE_SEARCH: Request = request::<SearchArgs>(READ | WRITE, 17);
pub(crate) const INO_LOOKUP: Request = request::<InoLookup>(READ | WRITE, 18);
pub(crate) const DEFAULT_SUBVOL: Request = request::<u64>(WRITE, 19);
pub(crate) const SNAP_CREATE_V2: Request = request::<VolumeArgs>(WRITE, 23);
pub(crate) const SUBVOL_CREATE_V2: Request = request::<VolumeArgs>(WRITE, 24);
pub(crate) const SUBVOL_GETFLAGS: Request = request::<u64>(READ, 25);
pub(crate) const SUBVOL_SETFLAGS: Request = request::<u64>(WRITE, 26);
pub(crate) const FS_INFO: Request = request::<FsInfo>(READ, 31);
pub(crate) const SET_RECEIVED_SUBVOL: Request = request::<ReceivedArgs>(READ | WRITE, 37);
pub(crate) const SEND: Request = request::<SendArgs>(WRITE, 38);
pub(crate) const GET_SUBVOL_INFO: Request = request::<SubvolumeInfo>(READ, 60);
pub(crate) const SNAP_DESTROY_V2: Request = request::<VolumeArgs>(WRITE, 63);
pub(crate) const ENCODED_WRITE: Request = request::<EncodedArgs>(WRITE, 64);
/// `BTRFS_IOC_CLONE_RANGE`, which is the VFS's `FICLONERANGE`.
pub(crate) const CLONE_RANGE: Request = request::<CloneRange>(WRITE, 13);

/// `BTRFS_SUBVOL_RDONLY`.
pub(crate) const READ_ONLY: u64 = 1 << 1;

pub(crate) const UUID_SIZE: usize = 16;

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
pub(crate) struct VolumeArgs {
    pub fd: i64,
    pub transid: u64,
    pub flags: u64,
    pub unused: [u64; 4],
    /// Zero-terminated, or eight bytes of an id.
    pub name: [u8; 4040],
}

/// `struct btrfs_ioctl_timespec`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Timespec {
    pub sec: u64,
    pub nsec: u32,
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C)]
pub(crate) struct SubvolumeInfo {
    pub treeid: u64,
    pub name: [u8; 256],
    pub parent_id: u64,
    pub dirid: u64,
    pub generation: u64,
    pub flags: u64,
    pub uuid: [u8; UUID_SIZE],
    pub parent_uuid: [u8; UUID_SIZE],
    pub received_uuid: [u8; UUID_SIZE],
    pub ctransid: u64,
    pub otransid: u64,
    pub stransid: u64,
    pub rtransid: u64,
    pub ctime: Timespec,
    pub otime: Timespec,
    pub stime: Timespec,
    pub rtime: Timespec,
    pub reserved: [u64; 8],
}

/// `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
pub(crate) struct InoLookup {
    pub treeid: u64,
    pub objectid: u64,
    pub name: [u8; 4080],
}

/// `struct btrfs_ioctl_search_key`.
#[repr(C)]
pub(crate) struct SearchKey {
    pub tree_id: u64,
    pub min_objectid: u64,
    pub max_objectid: u64,
    pub min_offset: u64,
    pub max_offset: u64,
    pub min_transid: u64,
    pub max_transid: u64,
    pub min_type: u32,
    pub max_type: u32,
    pub nr_items: u32,
    pub unused: u32,
    pub unused_more: [u64; 4],
}

pub(crate) const SEARCH_BUFFER: usize = 4096 - mem::size_of::<SearchKey>();

/// `struct btrfs_ioctl_search_args`.
#[repr(C)]
pub(crate) struct SearchArgs {
    pub key: SearchKey,
    pub buffer: [u8; SEARCH_BUFFER],
}

/// `struct btrfs_ioctl_fs_info_args`, of which only the first part is read.
#[repr(C)]
pub(crate) struct FsInfo {
    pub max_id: u64,
    pub num_devices: u64,
    pub fsid: [u8; UUID_SIZE],
    pub nodesize: u32,
    pub sectorsize: u32,
    pub clone_alignment: u32,
    pub csum_type: u16,
    pub csum_size: u16,
    pub flags: u64,
    pub generation: u64,
    pub metadata_uuid: [u8; UUID_SIZE],
    pub reserved: [u8; 944],
}

/// `struct btrfs_ioctl_received_subvol_args`.
#[repr(C)]
pub(crate) struct ReceivedArgs {
    pub uuid: [u8; UUID_SIZE],
    pub stransid: u64,
    pub rtransid: u64,
    pub stime: Timespec,
    pub rtime: Timespec,
    pub flags: u64,
    pub reserved: [u64; 16],
}

/// `struct btrfs_ioctl_send_args`.
#[repr(C)]
pub(crate) struct SendArgs {
    pub send_fd: i64,
    pub clone_sources_count: u64,
    pub clone_sources: *const u64,
    pub parent_root: u64,
    pub flags: u64,
    pub version: u32,
    pub reserved: [u8; 28],
}

/// `struct btrfs_ioctl_encoded_io_args`.
#[repr(C)]
pub(crate) struct EncodedArgs {
    pub iov: *const libc::iovec,
    pub iovcnt: libc::c_ulong,
    pub offset: i64,
    pub flags: u64,
    pub len: u64,
    pub unencoded_len: u64,
    pub unencoded_offset: u64,
    pub compression: u32,
    pub encryption: u32,
    pub reserved: [u8; 64],
}

/// `struct btrfs_ioctl_clone_range_args`.
#[repr(C)]
pub(crate) struct CloneRange {
    pub src_fd: i64,
    pub src_offset: u64,
    pub src_length: u64,
    pub dest_offset: u64,
}

/// Implements it for several structures, with their sizes as in C.
macro_rules! plain {
    ($($type:ty = $size:expr),* $(,)?) => { $(
        // SAFETY: repr(C), integers and pointers for the kernel only.
        unsafe impl Plain for $type {}
        const _: () = assert!(mem::size_of::<$type>() == $size);
    )* };
}

plain! {
    () = 0,
    u64 = 8,
    VolumeArgs = 4096,
    SubvolumeInfo = 504,
    InoLookup = 4096,
    SearchArgs = 4096,
    FsInfo = 1024,
    ReceivedArgs = 200,
    SendArgs = 72,
    // Two words of the processor's in it.
    EncodedArgs = 112 + 2 * mem::size_of::<usize>(),
    CloneRange = 32,
}
const _: () = assert!(mem::size_of::<Timespec>() == 16);
const _: () = assert!(mem::size_of::<SearchKey>() == 104);
