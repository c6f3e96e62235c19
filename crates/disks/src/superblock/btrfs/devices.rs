//! The devices that a btrfs has, of its chunk tree: so those that are missing are known before it is mounted.
//! The format is that of the kernel's include/uapi/linux/btrfs_tree.h.

use super::super::bytes::Block;
use super::super::read_at;
use super::AT;
use braid_pool::uuid::Uuid;
use std::collections::BTreeMap;
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
    /// What chunks occupy of it.
    pub allocated_bytes: u64,
}

/// Reads them from the members that are there, by devid; `None` when the tree can't be read that way (parity
/// profiles, damage). `superblock` is the newest of them.
pub fn read(superblock: &[u8], members: &BTreeMap<u64, PathBuf>) -> Option<Vec<DeviceItem>> {
    let block = Block(superblock);
    let tree = Tree {
        node_bytes: usize::try_from(block.u32(0x94)?).ok().filter(|size| NODES.contains(size))?,
        chunks: system_chunks(block)?,
        members,
    };
    let mut devices = Vec::new();
    let mut left = MOST_NODES;
    tree.collect(block.u64(0x58)?, &mut left, &mut devices)?;
    devices.sort_by_key(|device: &DeviceItem| device.devid);
    Some(devices)
}

/// The superblock as it is on a device.
pub fn superblock(device: &std::path::Path) -> Option<Vec<u8>> {
    read_at(device, AT, super::LENGTH).ok()
}

/// Sizes of a node that there can be.
const NODES: std::ops::RangeInclusive<usize> = 4096..=65_536;
/// Device items are at the tree's begin: of any real tree this is more than enough.
const MOST_NODES: u32 = 256;
const HEADER: usize = 101;
const KEY: usize = 17;
/// `BTRFS_DEV_ITEMS_OBJECTID`, `BTRFS_DEV_ITEM_KEY`.
const DEV_ITEMS: u64 = 1;
const DEV_ITEM: u8 = 216;
/// `BTRFS_BLOCK_GROUP_…`
const RAID0: u64 = 1 << 3;
const RAID10: u64 = 1 << 6;
const PARITY: u64 = 1 << 7 | 1 << 8;

struct Tree<'a> {
    node_bytes: usize,
    chunks: Vec<Chunk>,
    members: &'a BTreeMap<u64, PathBuf>,
}

/// A range of logical addresses and where it lies.
struct Chunk {
    start: u64,
    length: u64,
    stripe_bytes: u64,
    flags: u64,
    sub_stripes: usize,
    /// Device and place on it.
    stripes: Vec<(u64, u64)>,
}

impl Tree<'_> {
    fn collect(&self, address: u64, left: &mut u32, devices: &mut Vec<DeviceItem>) -> Option<()> {
        *left = left.checked_sub(1)?;
        let bytes = self.node(address)?;
        let node = Block(&bytes);
        let items = usize::try_from(node.u32(96)?).ok()?;
        let is_leaf = *bytes.get(100)? == 0;
        for item in 0..items.min(self.node_bytes / KEY) {
            let at = HEADER + item * if is_leaf { KEY + 8 } else { KEY + 16 };
            let (object, kind) = (node.u64(at)?, *bytes.get(at + 8)?);
            match is_leaf {
                // What comes behind the device items are chunks.
                _ if object > DEV_ITEMS => break,
                true if kind == DEV_ITEM => {
                    let place = usize::try_from(node.u32(at + KEY)?).ok()?;
                    devices.push(device_item(node, HEADER.checked_add(place)?)?);
                }
                true => {}
                false => self.collect(node.u64(at + KEY)?, left, devices)?,
            }
        }
        Some(())
    }

    /// The node at a logical address, of any copy that is there and is it.
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
