//! The superblock of an md member: version 1.x by include/uapi/linux/raid/md_p.h (`struct
//! mdp_superblock_1`), and 0.90 (`mdp_super_t`).

use super::bytes::Block;
use super::read_at;
use braid_pool::layout::MdLayout;
use braid_pool::uuid::Uuid;
use std::io;
use std::path::Path;

/// What it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdSuper {
    /// `1.2`, `1.1`, `1.0`, `0.90`.
    pub version: &'static str,
    /// UUID of the array.
    pub array: Uuid,
    /// `alpha:data`; empty with 0.90, which has none.
    pub name: String,
    /// Level and layout; `None` for those that Braid doesn't know.
    pub layout: Option<MdLayout>,
    /// Number of members of the complete array.
    pub raid_disks: u32,
    /// Stripe unit.
    pub chunk_bytes: u64,
    /// Bytes used on each member.
    pub member_bytes: u64,
    /// Counts changes of the array's state; lower than the others' on a member that missed some.
    pub events: u64,
    /// What this member is.
    pub role: Role,
    /// When it was written, in seconds since 1970.
    pub updated: u64,
    /// A write-intent bitmap is there.
    pub bitmap: bool,
}

/// Place of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds data, in this slot.
    Active(u32),
    /// Is being rebuilt in this slot, and so far holds a part of the data.
    Recovering(u32),
    /// Waits for another member to fail.
    Spare,
    /// Was kicked out.
    Faulty,
    /// A write journal.
    Journal,
}

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;
const LENGTH: usize = 4096;
/// `role` of a spare, a faulty member, a journal.
const SPARE: u16 = 0xffff;
const FAULTY: u16 = 0xfffe;
const JOURNAL: u16 = 0xfffd;
/// `mdp_superblock_1.feature_map`: a bitmap is present.
const FEATURE_BITMAP: u32 = 1;
/// A member that was still being rebuilt.
const FEATURE_RECOVERY_OFFSET: u32 = 1 << 1;
/// `mdp_super_t.state`: a bitmap is present.
const STATE_BITMAP_0: u32 = 1 << 8;
/// `mdp_disk_t.state` bits of 0.90.
const DISK_FAULTY: u32 = 1;
const DISK_ACTIVE: u32 = 1 << 1;

/// Reads the superblock of a device of `size_bytes`, wherever its version puts it; `None` when
/// there is none.
///
/// # Errors
/// When the device can't be opened or read.
pub fn read(device: &Path, size_bytes: u64) -> io::Result<Option<MdSuper>> {
    let places = [
        ("1.2", Some(4096)),
        ("1.1", Some(0)),
        ("1.0", place_of_1_0(size_bytes)),
        ("0.90", place_of_0_90(size_bytes)),
    ];
    for (version, place) in places {
        let Some(place) = place.filter(|place| place + LENGTH as u64 <= size_bytes) else {
            continue;
        };
        let bytes = read_page(device, place)?;
        let found = match version {
            "0.90" => parse_0_90(&bytes),
            _ => parse_1(&bytes, version),
        };
        // A copy at another place of this device belongs to a device inside it, such as its last
        // partition.
        if let Some((superblock, own_place)) = found
            && own_place.is_none_or(|own| own == place / SECTOR)
        {
            return Ok(Some(superblock));
        }
    }
    Ok(None)
}

/// Parses a page that may be of any version, wherever it was found.
pub fn parse(bytes: &[u8]) -> Option<MdSuper> {
    let found = parse_1(bytes, "1.2").or_else(|| parse_0_90(bytes));
    found.map(|(superblock, _)| superblock)
}

/// Parses version 1.x, which says at which sector it lies.
fn parse_1(bytes: &[u8], version: &'static str) -> Option<(MdSuper, Option<u64>)> {
    let block = Block(bytes);
    if block.u32(0)? != MAGIC || block.u32(4)? != 1 {
        return None;
    }
    let number = block.u32(160)? as usize;
    let features = block.u32(8)?;
    let role = match block.u16(256 + number.checked_mul(2)?).unwrap_or(SPARE) {
        SPARE => Role::Spare,
        FAULTY => Role::Faulty,
        JOURNAL => Role::Journal,
        place if features & FEATURE_RECOVERY_OFFSET != 0 => Role::Recovering(u32::from(place)),
        place => Role::Active(u32::from(place)),
    };
    let superblock = MdSuper {
        version,
        array: Uuid::from_bytes(block.array(16)?),
        name: block.text(32, 32)?,
        // 40 bits of seconds, the rest microseconds.
        updated: block.u64(192)? & 0xff_ffff_ffff,
        layout: layout(block.u32(72)?, block.u32(76)?),
        member_bytes: block.u64(80)?.saturating_mul(SECTOR),
        chunk_bytes: u64::from(block.u32(88)?) * SECTOR,
        raid_disks: block.u32(92)?,
        events: block.u64(200)?,
        bitmap: features & FEATURE_BITMAP != 0,
        role,
    };
    Some((superblock, Some(block.u64(144)?)))
}

/// Parses version 0.90: words of 32 bits in the byte order of the machine that wrote it, here
/// little-endian.
fn parse_0_90(bytes: &[u8]) -> Option<(MdSuper, Option<u64>)> {
    let block = Block(bytes);
    let word = |index: usize| block.u32(index * 4);
    if word(0)? != MAGIC || word(1)? != 0 || word(2)? != 90 {
        return None;
    }
    let uuid = [word(5)?, word(13)?, word(14)?, word(15)?];
    let mut raw = [0; 16];
    for (place, value) in raw.chunks_exact_mut(4).zip(uuid) {
        // mdadm and blkid write each word as a number; sysfs shows its bytes in memory order.
        place.copy_from_slice(&value.to_be_bytes());
    }
    // This member's descriptor: number, major, minor, raid_disk, state.
    let this = |field: usize| word(992 + field);
    let state = this(4)?;
    let role = match state {
        state if state & DISK_FAULTY != 0 => Role::Faulty,
        state if state & DISK_ACTIVE != 0 => Role::Active(this(3)?),
        _ => Role::Spare,
    };
    let superblock = MdSuper {
        version: "0.90",
        array: Uuid::from_bytes(raw),
        name: String::new(),
        layout: layout(word(7)?, word(64)?),
        raid_disks: word(10)?,
        chunk_bytes: u64::from(word(65)?),
        member_bytes: u64::from(word(8)?).saturating_mul(1024),
        events: u64::from(word(40)?) << 32 | u64::from(word(39)?),
        updated: u64::from(word(32)?),
        bitmap: word(33)? & STATE_BITMAP_0 != 0,
        role,
    };
    Some((superblock, None))
}

fn layout(level: u32, layout: u32) -> Option<MdLayout> {
    MdLayout::from_kernel(&format!("raid{level}"), layout)
}

/// 8 KiB from the end, rounded down to 4 KiB.
fn place_of_1_0(size_bytes: u64) -> Option<u64> {
    let sectors = (size_bytes / SECTOR).checked_sub(16)?;
    Some((sectors & !7) * SECTOR)
}

/// The last whole 64 KiB block but one.
fn place_of_0_90(size_bytes: u64) -> Option<u64> {
    const RESERVED: u64 = 64 << 10;
    (size_bytes & !(RESERVED - 1)).checked_sub(RESERVED)
}

/// The offsets are multiples of 4096 unless the device's size isn't.
fn read_page(device: &Path, place: u64) -> io::Result<Vec<u8>> {
    let start = place & !(LENGTH as u64 - 1);
    let mut bytes = read_at(device, start, 2 * LENGTH)?;
    bytes.drain(..((place - start) as usize).min(bytes.len()));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_was_still_being_filled_is_not_yet_one_with_data() {
        let mut bytes = vec![0; LENGTH];
        let mut put =
            |at: usize, value: u32| bytes[at..][..4].copy_from_slice(&value.to_le_bytes());
        put(0, MAGIC);
        put(4, 1);
        put(256, 3);
        assert_eq!(parse_1(&bytes, "1.2").unwrap().0.role, Role::Active(3));
        bytes[8] = 2;
        assert_eq!(parse_1(&bytes, "1.2").unwrap().0.role, Role::Recovering(3));
    }
}
