//! The devices of a btrfs and its chunks' profiles, from its chunk tree: so it is known before
//! mounting what is missing, and what it was meant to be. The format is that of the kernel's
//! include/uapi/linux/btrfs_tree.h.

use super::super::bytes::Block;
use super::super::read_at;
use super::AT;
use braid_pool::layout::Profile;
use braid_pool::observed::Purpose;
use braid_pool::uuid::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A device item of the chunk tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceItem {
    /// Number of the device.
    pub devid: u64,
    /// Its own UUID.
    pub uuid: Uuid,
    /// Its size as btrfs uses it.
    pub total_bytes: u64,
    /// Bytes occupied by chunks.
    pub allocated_bytes: u64,
}

/// Contents of the chunk tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkTree {
    /// All devices, by number.
    pub devices: Vec<DeviceItem>,
    /// The chunks' profiles, each once; empty if the tree is larger than what is read.
    pub profiles: Vec<(Purpose, Profile)>,
}

/// Reads it from the members present, by devid; `None` when the tree can't be read that way (parity
/// profiles, damage). `superblock` is the newest of them.
pub fn read(superblock: &[u8], members: &BTreeMap<u64, PathBuf>) -> Option<ChunkTree> {
    let block = Block(superblock);
    let tree = Tree {
        node_bytes: usize::try_from(block.u32(0x94)?).ok().filter(|size| NODES.contains(size))?,
        chunks: system_chunks(block)?,
        members,
    };
    let root = block.u64(0x58)?;
    let mut devices = Vec::new();
    tree.walk(root, &mut MOST_NODES.clone(), &mut |item| {
        // After the device items come chunks.
        if item.object > DEV_ITEMS {
            return Some(Walk::Ends);
        }
        if item.kind == DEV_ITEM {
            devices.push(device_item(item.node, item.at()?)?);
        }
        Some(Walk::GoesOn)
    })?;
    devices.sort_by_key(|device: &DeviceItem| device.devid);
    let mut profiles = BTreeSet::new();
    let whole = tree.walk(root, &mut MOST_NODES.clone(), &mut |item| {
        if item.kind == CHUNK_ITEM {
            profiles.extend(profile_of(item.node.u64(item.at()?.checked_add(24)?)?));
        }
        Some(Walk::GoesOn)
    });
    let profiles = whole.map_or_else(Vec::new, |_| profiles.into_iter().collect());
    Some(ChunkTree { devices, profiles })
}

/// From a chunk's `type`; `None` if it has no name here.
fn profile_of(flags: u64) -> Option<(Purpose, Profile)> {
    const DATA: u64 = 1;
    const SYSTEM: u64 = 1 << 1;
    const METADATA: u64 = 1 << 2;
    const MIXED: u64 = DATA | METADATA;
    let purpose = match flags & (DATA | SYSTEM | METADATA) {
        DATA => Purpose::Data,
        SYSTEM => Purpose::System,
        METADATA => Purpose::Metadata,
        MIXED => Purpose::Mixed,
        _ => return None,
    };
    let profile = match flags >> 3 & 0xff {
        0 => Profile::Single,
        1 => Profile::Raid0,
        2 => Profile::Raid1,
        4 => Profile::Dup,
        8 => Profile::Raid10,
        16 => Profile::Raid5,
        32 => Profile::Raid6,
        64 => Profile::Raid1c3,
        128 => Profile::Raid1c4,
        _ => return None,
    };
    Some((purpose, profile))
}

/// The superblock as it is on a device.
pub fn superblock(device: &std::path::Path) -> Option<Vec<u8>> {
    read_at(device, AT, super::LENGTH).ok()
}

/// Possible node sizes.
const NODES: std::ops::RangeInclusive<usize> = 4096..=65_536;
/// Device items are at the start of the tree: for them this is more than enough. With 16 KiB nodes
/// it holds some 30,000 chunks, 30 TB of data.
const MOST_NODES: u32 = 256;
const HEADER: usize = 101;
const KEY: usize = 17;
/// `BTRFS_DEV_ITEMS_OBJECTID`, `BTRFS_DEV_ITEM_KEY`.
const DEV_ITEMS: u64 = 1;
const DEV_ITEM: u8 = 216;
const CHUNK_ITEM: u8 = 228;
/// `BTRFS_BLOCK_GROUP_…`
const RAID0: u64 = 1 << 3;
const RAID10: u64 = 1 << 6;
const PARITY: u64 = 1 << 7 | 1 << 8;

struct Tree<'a> {
    node_bytes: usize,
    chunks: Vec<Chunk>,
    members: &'a BTreeMap<u64, PathBuf>,
}

/// A range of logical addresses and its place on devices.
struct Chunk {
    start: u64,
    length: u64,
    stripe_bytes: u64,
    flags: u64,
    sub_stripes: usize,
    /// Device and place on it.
    stripes: Vec<(u64, u64)>,
}

/// An item of a leaf.
struct Item<'a> {
    node: Block<'a>,
    object: u64,
    kind: u8,
    /// Where its key is.
    key_at: usize,
}

impl Item<'_> {
    /// Where it is in the node.
    fn at(&self) -> Option<usize> {
        HEADER.checked_add(usize::try_from(self.node.u32(self.key_at + KEY)?).ok()?)
    }
}

/// Whether to continue through the tree.
#[derive(PartialEq)]
enum Walk {
    GoesOn,
    Ends,
}

impl Tree<'_> {
    /// Visits all items in order, from a limited number of nodes.
    fn walk(
        &self,
        address: u64,
        left: &mut u32,
        see: &mut dyn FnMut(&Item<'_>) -> Option<Walk>,
    ) -> Option<Walk> {
        *left = left.checked_sub(1)?;
        let bytes = self.node(address)?;
        let node = Block(&bytes);
        let items = usize::try_from(node.u32(96)?).ok()?;
        let is_leaf = *bytes.get(100)? == 0;
        for item in 0..items.min(self.node_bytes / KEY) {
            let key_at = HEADER + item * if is_leaf { KEY + 8 } else { KEY + 16 };
            let walk = match is_leaf {
                true => {
                    let (object, kind) = (node.u64(key_at)?, *bytes.get(key_at + 8)?);
                    see(&Item { node, object, kind, key_at })?
                }
                false => self.walk(node.u64(key_at + KEY)?, left, see)?,
            };
            if walk == Walk::Ends {
                return Some(walk);
            }
        }
        Some(Walk::GoesOn)
    }

    /// The node at a logical address, from any copy that is present and valid.
    fn node(&self, address: u64) -> Option<Vec<u8>> {
        let chunk = self.chunks.iter().find(|chunk| chunk.holds(address))?;
        chunk.places(address)?.into_iter().find_map(|(devid, place)| {
            let bytes = read_at(self.members.get(&devid)?, place, self.node_bytes).ok()?;
            (Block(&bytes).u64(48)? == address && bytes.len() == self.node_bytes).then_some(bytes)
        })
    }
}

impl Chunk {
    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.length)
    }

    /// Where the copies of an address lie (fs/btrfs/volumes.c, `btrfs_map_block`).
    fn places(&self, address: u64) -> Option<Vec<(u64, u64)>> {
        let offset = address.checked_sub(self.start)?;
        let copies = match self.flags {
            flags if flags & PARITY != 0 => return None,
            flags if flags & RAID0 != 0 => 1,
            flags if flags & RAID10 != 0 => self.sub_stripes.max(1),
            _ => {
                let place = |(devid, at): &(u64, u64)| Some((*devid, at.checked_add(offset)?));
                return self.stripes.iter().map(place).collect();
            }
        };
        let (stripe, within) =
            (offset.checked_div(self.stripe_bytes)?, offset.checked_rem(self.stripe_bytes)?);
        let columns = (self.stripes.len() / copies) as u64;
        let column = usize::try_from(stripe.checked_rem(columns)?).ok()?;
        let row = stripe.checked_div(columns)?.checked_mul(self.stripe_bytes)?;
        let of_column = self.stripes.get(column * copies..(column + 1) * copies)?;
        let place =
            |(devid, at): &(u64, u64)| Some((*devid, at.checked_add(row)?.checked_add(within)?));
        of_column.iter().map(place).collect()
    }
}

/// `sys_chunk_array` of the superblock: keys, each with its chunk behind it.
fn system_chunks(block: Block<'_>) -> Option<Vec<Chunk>> {
    const ARRAY: usize = 0x32b;
    const CHUNK: usize = 48;
    const STRIPE: usize = 32;
    let size = usize::try_from(block.u32(0xa0)?).ok()?;
    let mut chunks = Vec::new();
    let mut at = ARRAY;
    while at < ARRAY.checked_add(size)? {
        let chunk = at + KEY;
        let count = usize::from(block.u16(chunk + 44)?);
        let stripe = |index: usize| {
            let stripe = chunk + CHUNK + index * STRIPE;
            Some((block.u64(stripe)?, block.u64(stripe + 8)?))
        };
        chunks.push(Chunk {
            start: block.u64(at + 9)?,
            length: block.u64(chunk)?,
            stripe_bytes: block.u64(chunk + 16)?,
            flags: block.u64(chunk + 24)?,
            sub_stripes: usize::from(block.u16(chunk + 46)?),
            stripes: (0..count).map(stripe).collect::<Option<_>>()?,
        });
        at = chunk + CHUNK + count * STRIPE;
    }
    Some(chunks)
}

/// `struct btrfs_dev_item`.
fn device_item(node: Block<'_>, at: usize) -> Option<DeviceItem> {
    Some(DeviceItem {
        devid: node.u64(at)?,
        total_bytes: node.u64(at.checked_add(8)?)?,
        allocated_bytes: node.u64(at.checked_add(16)?)?,
        uuid: Uuid::from_bytes(node.array(at.checked_add(66)?)?),
    })
}
