//! btrfs subvolumes through the kernel's own requests: no tool's output is parsed, and names may
//! contain anything but `/` and a zero byte.

#![allow(unsafe_code)]

mod edit;
pub(crate) mod ioctl;
mod list;
mod send;

pub use edit::{
    create, delete, filesystem, set_default, set_read_only, set_received, snapshot, sync,
};
pub use list::{Listed, default_subvolume, list, path_of};
pub use send::{SendKind, SendOrder, send};

use crate::error::Error;
use crate::shown::shown;
use braid_pool::step::quoted;
use braid_pool::uuid::Uuid;
use std::ffi::OsString;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The inode of every subvolume's root (`BTRFS_FIRST_FREE_OBJECTID`).
pub const ROOT_INODE: u64 = 256;
/// The id of the subvolume that holds all others (`BTRFS_FS_TREE_OBJECTID`).
pub const TOP_LEVEL: u64 = 5;
/// `BTRFS_SUPER_MAGIC`
const MAGIC: u64 = 0x9123_683e;

/// What the filesystem knows about one subvolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subvolume {
    /// Its number in this filesystem.
    pub id: u64,
    /// The number of the subvolume that holds it; 0 for the top level.
    pub parent_id: u64,
    /// Its name in the folder that holds it.
    pub name: OsString,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Its own UUID.
    pub uuid: Uuid,
    /// Of what it was a snapshot.
    pub parent_uuid: Option<Uuid>,
    /// Of what it is a complete replica. A truncated one and a writable
    /// snapshot of one have none.
    pub received_uuid: Option<Uuid>,
    /// The transaction that changed it last.
    pub changed_in: u64,
    /// The transaction that made it.
    pub made_in: u64,
    /// `changed_in` of what it is a replica of.
    pub sent_in: u64,
    /// When it was made.
    pub made_at: SystemTime,
}

impl Subvolume {
    /// The subvolume whose root is open as `root`.
    ///
    /// # Errors
    /// Not a subvolume's root, or the kernel is older than 4.18.
    pub fn of(root: &File) -> io::Result<Subvolume> {
        if root.metadata()?.ino() != ROOT_INODE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a subvolume"));
        }
        Subvolume::holding(root)
    }

    /// The subvolume that holds what is open as `file`.
    ///
    /// # Errors
    /// Not on btrfs, or the kernel is older than 4.18.
    pub fn holding(file: &File) -> io::Result<Subvolume> {
        let mut info: ioctl::SubvolumeInfo = ioctl::zeroed();
        // SAFETY: the request's own structure.
        unsafe { ioctl::call(file, ioctl::GET_SUBVOL_INFO, &mut info) }?;
        Ok(Subvolume {
            id: info.treeid,
            parent_id: info.parent_id,
            name: until_zero(&info.name),
            read_only: info.flags & ioctl::READ_ONLY != 0 || is_read_only(file)?,
            uuid: Uuid::from_bytes(info.uuid),
            parent_uuid: some_uuid(info.parent_uuid),
            received_uuid: some_uuid(info.received_uuid),
            changed_in: info.ctransid,
            made_in: info.otransid,
            sent_in: info.stransid,
            made_at: SystemTime::UNIX_EPOCH + Duration::new(info.otime.sec, info.otime.nsec),
        })
    }

    /// The UUID that replicas of it carry: where it was replicated from, or its own.
    pub fn series_uuid(&self) -> Uuid {
        self.received_uuid.unwrap_or(self.uuid)
    }
}

fn is_read_only(file: &File) -> io::Result<bool> {
    let mut flags = 0u64;
    // SAFETY: the request fills a u64.
    unsafe { ioctl::call(file, ioctl::SUBVOL_GETFLAGS, &mut flags) }?;
    Ok(flags & ioctl::READ_ONLY != 0)
}

/// Opens a folder as such; a symbolic link as the last part is refused.
///
/// # Errors
/// It isn't there or is no folder.
pub fn open_folder(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| Error::io("opening the folder", path, error))
}

/// Opens a subvolume's root and says what it is.
///
/// # Errors
/// There is none at `path`.
pub fn open(path: &Path) -> Result<(File, Subvolume), Error> {
    let root = open_folder(path)?;
    if !is_btrfs(&root) {
        return Err(Error::Refused(format!("{} is not on btrfs", shown(path).display())));
    }
    let inode = root.metadata().map_err(|e| Error::io("looking at", path, e))?.ino();
    if inode != ROOT_INODE {
        return Err(no_subvolume(path));
    }
    let subvolume = Subvolume::of(&root)
        .map_err(|error| Error::io("asking about the subvolume", path, error))?;
    Ok((root, subvolume))
}

/// With the command that converts it: names of other people's folders must be quoted for a shell,
/// too.
fn no_subvolume(path: &Path) -> Error {
    let path = shown(path).display().to_string();
    let [word, old] = [path.clone(), format!("{path}.old")].map(|path| quoted(&path));
    Error::Refused(format!(
        "{path} is a folder, not a subvolume: name the subvolume that it is in, or make it one: \
         mv {word} {old} && btrfs subvolume create {word} && cp -a --reflink=auto {old}/. {word}"
    ))
}

/// Whether there is a subvolume's root at `path`.
pub fn is_subvolume(path: &Path) -> bool {
    open(path).is_ok()
}

/// Whether an open file is on btrfs.
pub fn is_btrfs(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type as u64 == MAGIC)
}

fn some_uuid(bytes: [u8; ioctl::UUID_SIZE]) -> Option<Uuid> {
    (bytes != [0; ioctl::UUID_SIZE]).then(|| Uuid::from_bytes(bytes))
}

fn until_zero(bytes: &[u8]) -> OsString {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    OsString::from_vec(name.to_vec())
}

/// The best kind of stream that this kernel writes and applies.
pub(crate) fn best_kind() -> SendKind {
    let version = fs::read_to_string("/sys/fs/btrfs/features/send_stream_version")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1u32)
        .clamp(1, 2);
    SendKind { version, compressed: version >= 2 }
}
