#![allow(unsafe_code)]

use super::ioctl::{self, SearchArgs};
use super::{TOP_LEVEL, some_uuid};
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One subvolume of a filesystem's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub id: u64,
    /// The number of the subvolume that holds it.
    pub parent_id: u64,
    /// Its path from the top level.
    pub path: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Its own UUID.
    pub uuid: Uuid,
    /// Of what it was a snapshot.
    pub parent_uuid: Option<Uuid>,
    /// Of what it is a complete replica.
    pub received_uuid: Option<Uuid>,
}

/// All subvolumes below the top level, parents before children.
///
/// # Errors
/// As the kernel says; needs root.
pub fn list(file: &File) -> io::Result<Vec<Listed>> {
    let mut items = BTreeMap::new();
    search(file, ROOT_TREE, ROOT_ITEM, ROOT_ITEM, |key, data| {
        if let Some(item) = RootItem::read(data) {
            items.insert(key.objectid, item);
        }
    })?;
    let mut links = Vec::new();
    search(file, ROOT_TREE, ROOT_REF, ROOT_REF, |key, data| {
        let Some((folder, name)) = read_link(data) else { return };
        links.push(Link { parent: key.objectid, child: key.offset, folder, name });
    })?;
    let mut listed = vec![];
    let mut ready = vec![(TOP_LEVEL, PathBuf::new())];
    while let Some((parent, path)) = ready.pop() {
        for link in links.iter().filter(|link| link.parent == parent) {
            let Some(item) = items.get(&link.child) else { continue };
            let inside = folder_path(file, parent, link.folder)?;
            let path = path.join(inside).join(&link.name);
            ready.push((link.child, path.clone()));
            listed.push(Listed {
                id: link.child,
                parent_id: parent,
                path,
                read_only: item.flags & 1 != 0,
                uuid: item.uuid,
                parent_uuid: item.parent_uuid,
                received_uuid: item.received_uuid,
            });
        }
    }
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listed)
}

/// The path of subvolume `id` from the top level; empty for the top level itself.
///
/// # Errors
/// There is none of this number; needs root.
pub fn path_of(file: &File, id: u64) -> io::Result<PathBuf> {
    if id == TOP_LEVEL {
        return Ok(PathBuf::new());
    }
    list(file)?
        .into_iter()
        .find(|subvolume| subvolume.id == id)
        .map(|subvolume| subvolume.path)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no subvolume {id}")))
}

/// The number of the subvolume that is mounted when none is named.
///
/// # Errors
/// As the kernel says; needs root.
pub fn default_subvolume(file: &File) -> io::Result<u64> {
    let mut found = TOP_LEVEL;
    search(file, ROOT_TREE, DIR_ITEM, DIR_ITEM, |key, data| {
        // struct btrfs_dir_item: key of the target (17 bytes), transid (8),
        // data_len (2), name_len (2), type (1), name.
        if key.objectid == ROOT_TREE_DIR && data.get(30..37) == Some(b"default") {
            found = le64(data, 0).unwrap_or(found);
        }
    })?;
    Ok(found)
}

// Numbers of linux/btrfs_tree.h.
const ROOT_TREE: u64 = 1;
const ROOT_TREE_DIR: u64 = 6;
const DIR_ITEM: u32 = 84;
const ROOT_ITEM: u32 = 132;
const ROOT_REF: u32 = 156;
const FIRST_FREE: u64 = 256;
/// `BTRFS_LAST_FREE_OBJECTID`
const LAST_FREE: u64 = u64::MAX - 255;

struct Link {
    parent: u64,
    child: u64,
    folder: u64,
    name: OsString,
}

/// The parts of `struct btrfs_root_item` that matter here.
struct RootItem {
    flags: u64,
    uuid: Uuid,
    parent_uuid: Option<Uuid>,
    received_uuid: Option<Uuid>,
}

impl RootItem {
    fn read(data: &[u8]) -> Option<RootItem> {
        let uuid = |at: usize| data.get(at..at + 16).and_then(|bytes| bytes.try_into().ok());
        Some(RootItem {
            flags: le64(data, 208)?,
            uuid: Uuid::from_bytes(uuid(247)?),
            parent_uuid: some_uuid(uuid(263)?),
            received_uuid: some_uuid(uuid(279)?),
        })
    }
}

/// `struct btrfs_root_ref`: the folder's inode, a sequence, the name.
fn read_link(data: &[u8]) -> Option<(u64, OsString)> {
    let folder = le64(data, 0)?;
    let length = u16::from_le_bytes(data.get(16..18)?.try_into().ok()?);
    let name = data.get(18..18 + usize::from(length))?;
    Some((folder, OsString::from_vec(name.to_vec())))
}

/// The path of the folder with inode `folder` inside subvolume `tree`.
fn folder_path(file: &File, tree: u64, folder: u64) -> io::Result<PathBuf> {
    let mut args: ioctl::InoLookup = ioctl::zeroed();
    args.treeid = tree;
    args.objectid = folder;
    // SAFETY: the request's own structure.
    unsafe { ioctl::call(file, ioctl::INO_LOOKUP, &mut args) }?;
    Ok(PathBuf::from(super::until_zero(&args.name)))
}

struct Key {
    objectid: u64,
    kind: u32,
    offset: u64,
}

/// Passes all items of tree `tree` with a type in the range to `each`.
fn search(
    file: &File,
    tree: u64,
    first_kind: u32,
    last_kind: u32,
    mut each: impl FnMut(&Key, &[u8]),
) -> io::Result<()> {
    let mut from = Key { objectid: 0, kind: first_kind, offset: 0 };
    loop {
        let mut args: SearchArgs = ioctl::zeroed();
        args.key.tree_id = tree;
        args.key.min_objectid = from.objectid;
        args.key.max_objectid = LAST_FREE;
        args.key.min_type = from.kind;
        args.key.max_type = last_kind;
        args.key.min_offset = from.offset;
        args.key.max_offset = u64::MAX;
        args.key.max_transid = u64::MAX;
        args.key.nr_items = 4096;
        // SAFETY: the request's own structure.
        unsafe { ioctl::call(file, ioctl::TREE_SEARCH, &mut args) }?;
        if args.key.nr_items == 0 {
            return Ok(());
        }
        let mut at = 0;
        for _ in 0..args.key.nr_items {
            let Some((key, data)) = read_item(&args.buffer, &mut at) else { return Ok(()) };
            let wanted = (first_kind..=last_kind).contains(&key.kind);
            if wanted && (key.objectid >= FIRST_FREE || key.objectid < 10) {
                each(&key, data);
            }
            from = key;
        }
        // Keys are 136 bits: (objectid, type, offset); on to the next one.
        match (from.offset.checked_add(1), from.kind) {
            (Some(offset), _) => from.offset = offset,
            (None, kind) if kind < 255 => (from.kind, from.offset) = (kind + 1, 0),
            (None, _) => from = Key { objectid: from.objectid + 1, kind: 0, offset: 0 },
        }
    }
}

/// `struct btrfs_ioctl_search_header` (native endian) and the item's data.
fn read_item<'a>(buffer: &'a [u8], at: &mut usize) -> Option<(Key, &'a [u8])> {
    let header = buffer.get(*at..*at + 32)?;
    let word = |at: usize| header.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let half = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let key = Key { objectid: word(8)?, offset: word(16)?, kind: half(24)? };
    let length = half(28)? as usize;
    let data = buffer.get(*at + 32..*at + 32 + length)?;
    *at += 32 + length;
    Some((key, data))
}

fn le64(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}
