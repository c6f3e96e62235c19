#![allow(unsafe_code)]

use super::ioctl::{self, VolumeArgs};
use braid_pool::uuid::Uuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

/// Makes a snapshot of the subvolume open as `source`, named `name` in the
/// folder `into`. When it returns, the snapshot is on the disk.
///
/// # Errors
/// As the kernel says; `AlreadyExists` when the name is taken.
pub fn snapshot(source: &File, into: &File, name: &OsStr, read_only: bool) -> io::Result<()> {
    let mut args = named(name)?;
    args.fd = i64::from(source.as_raw_fd());
    args.flags = if read_only { ioctl::READ_ONLY } else { 0 };
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(into, ioctl::SNAP_CREATE_V2, &mut args) }
}

/// Makes an empty subvolume `name` in the folder `into`.
///
/// # Errors
/// As the kernel says.
pub fn create(into: &File, name: &OsStr) -> io::Result<()> {
    let mut args = named(name)?;
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(into, ioctl::SUBVOL_CREATE_V2, &mut args) }
}

/// Deletes the subvolume `name` in the folder `into`; one that holds other
/// subvolumes stays (`DirectoryNotEmpty`).
///
/// # Errors
/// As the kernel says.
pub fn delete(into: &File, name: &OsStr) -> io::Result<()> {
    let mut args = named(name)?;
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(into, ioctl::SNAP_DESTROY_V2, &mut args) }
}

/// Makes a subvolume read-only or writable.
///
/// # Errors
/// As the kernel says.
pub fn set_read_only(root: &File, read_only: bool) -> io::Result<()> {
    let mut flags = 0u64;
    // SAFETY: the request fills a u64.
    unsafe { ioctl::call(root, ioctl::SUBVOL_GETFLAGS, &mut flags) }?;
    flags = if read_only { flags | ioctl::READ_ONLY } else { flags & !ioctl::READ_ONLY };
    // SAFETY: the request reads a u64.
    unsafe { ioctl::call(root, ioctl::SUBVOL_SETFLAGS, &mut flags) }
}

/// Records in a subvolume that it is a complete replica of `uuid` as of its transaction `sent_in`;
/// it must still be writable.
///
/// # Errors
/// As the kernel says.
pub fn set_received(root: &File, uuid: Uuid, sent_in: u64) -> io::Result<()> {
    let mut args: ioctl::ReceivedArgs = ioctl::zeroed();
    args.uuid = uuid.bytes();
    args.stransid = sent_in;
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(root, ioctl::SET_RECEIVED_SUBVOL, &mut args) }
}

/// Makes the subvolume `id` the one that is mounted when none is named.
/// `file` is any of that filesystem.
///
/// # Errors
/// As the kernel says.
pub fn set_default(file: &File, id: u64) -> io::Result<()> {
    let mut id = id;
    // SAFETY: the request reads a u64.
    unsafe { ioctl::call(file, ioctl::DEFAULT_SUBVOL, &mut id) }
}

/// Writes everything to disk that isn't there yet.
///
/// # Errors
/// As the kernel says.
pub fn sync(file: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument; a pointer to nothing is ignored.
    unsafe { ioctl::call(file, ioctl::SYNC, &mut ()) }
}

/// The UUID of the filesystem that holds `file`.
///
/// # Errors
/// As the kernel says.
pub fn filesystem(file: &File) -> io::Result<Uuid> {
    let mut info: ioctl::FsInfo = ioctl::zeroed();
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(file, ioctl::FS_INFO, &mut info) }?;
    Ok(Uuid::from_bytes(info.fsid))
}

fn named(name: &OsStr) -> io::Result<VolumeArgs> {
    let bytes = name.as_bytes();
    let no_name = matches!(bytes, b"" | b"." | b"..");
    if no_name || bytes.len() > 255 || bytes.contains(&b'/') || bytes.contains(&0) {
        let text = format!("{name:?} can't be a subvolume's name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut args: VolumeArgs = ioctl::zeroed();
    if let Some(place) = args.name.get_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
    Ok(args)
}
