//! The number of partitions in a table, whatever the kernel shows: a kernel without support for
//! that table shows none. GPT by the UEFI specification (5.3), the MBR by its four entries at byte
//! 446.

use super::bytes::Block;
use super::read_at;
use std::io;
use std::path::Path;

const PAGE: u64 = 4096;
const GPT: [u8; 8] = *b"EFI PART";
/// An entry takes 128 bytes or a multiple, and there are 128 of them; larger tables are read only
/// in part.
const LONGEST_TABLE: u64 = 1 << 20;
const ENTRY_BYTES: std::ops::RangeInclusive<u32> = 128..=4096;
/// The MBR's offset, its entries' length, and the offset of the type in an entry.
const OLD_TABLE: usize = 446;
const OLD_ENTRY: usize = 16;
const OLD_KIND: usize = 4;
/// The type of the entry that protects a GPT.
const GUARD: u8 = 0xee;

/// Counts the partitions; `None` if there is neither table.
///
/// # Errors
/// When the device can't be read.
pub fn count(device: &Path, size_bytes: u64, sector_bytes: u32) -> io::Result<Option<u32>> {
    count_by(size_bytes, sector_bytes, |at, length| read_at(device, at, length))
}

/// The same for a device given completely by these bytes.
pub fn count_in(bytes: &[u8], sector_bytes: u32) -> Option<u32> {
    let part = |at: u64, length: usize| {
        let from = bytes.get(usize::try_from(at).ok()?..)?;
        Some(from.get(..length).unwrap_or(from).to_vec())
    };
    let read_at = |at, length| Ok(part(at, length).unwrap_or_default());
    count_by(bytes.len() as u64, sector_bytes, read_at).ok()?
}

fn count_by(
    size_bytes: u64,
    sector_bytes: u32,
    read_at: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<Option<u32>> {
    // As it must be read: page-aligned at both ends.
    let read = |at: u64, length: u64| -> io::Result<Vec<u8>> {
        let start = at / PAGE * PAGE;
        let before = (at - start) as usize;
        let mut bytes = read_at(start, (before as u64 + length).next_multiple_of(PAGE) as usize)?;
        bytes.drain(..before.min(bytes.len()));
        bytes.truncate(length as usize);
        Ok(bytes)
    };
    let sector = u64::from(sector_bytes.max(512));
    // The first one, and the backup in the last sector.
    for at in [sector, size_bytes.saturating_sub(sector)] {
        let header = read(at, sector)?;
        if Block(&header).array(0) == Some(GPT) {
            return gpt(read, &header, sector);
        }
    }
    let first = read(0, PAGE)?;
    if Block(&first).array(510) != Some([0x55, 0xaa]) {
        return Ok(None);
    }
    let kinds = (0..4).filter_map(|number| first.get(OLD_TABLE + number * OLD_ENTRY + OLD_KIND));
    Ok(Some(kinds.filter(|kind| ![0, GUARD].contains(kind)).count() as u32))
}

fn gpt(
    read: impl Fn(u64, u64) -> io::Result<Vec<u8>>,
    header: &[u8],
    sector: u64,
) -> io::Result<Option<u32>> {
    let header = Block(header);
    let (Some(at), Some(count), Some(length)) = (header.u64(72), header.u32(80), header.u32(84))
    else {
        return Ok(None);
    };
    if !ENTRY_BYTES.contains(&length) {
        return Ok(None);
    }
    let bytes = (u64::from(count) * u64::from(length)).min(LONGEST_TABLE);
    let table = read(at.saturating_mul(sector), bytes)?;
    // The type of an unused one is zero.
    let used =
        table.chunks(length as usize).filter(|entry| entry.iter().take(16).any(|byte| *byte != 0));
    Ok(Some(used.count() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const SIZE: u64 = 8 << 20;

    fn disk(parts: &[(u64, &[u8])]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        parts.iter().for_each(|(at, bytes)| file.as_file().write_all_at(bytes, *at).unwrap());
        file
    }

    fn header(entries_at: u64) -> Vec<u8> {
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(&GPT);
        header[72..80].copy_from_slice(&entries_at.to_le_bytes());
        header[80..84].copy_from_slice(&128_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        header
    }

    #[test]
    fn entries_are_counted_in_the_first_table_or_its_backup() {
        let entry = |number: u64| number * 128;
        let count =
            |disk: &tempfile::NamedTempFile, sector| count(disk.path(), SIZE, sector).unwrap();
        let two =
            disk(&[(512, &header(2)), (1024 + entry(0), &[7; 16]), (1024 + entry(5), &[7; 16])]);
        assert_eq!(count(&two, 512), Some(2));
        assert_eq!(count(&disk(&[(512, &header(2))]), 512), Some(0));
        let large_sectors = disk(&[(4096, &header(2)), (8192 + entry(9), &[7; 16])]);
        assert_eq!(count(&large_sectors, 4096), Some(1));
        let entries = SIZE / 512 - 33;
        let backup = disk(&[(SIZE - 512, &header(entries)), (entries * 512, &[7; 16])]);
        assert_eq!(count(&backup, 512), Some(1));
        let mut old = vec![0; 66];
        (old[4], old[64], old[65]) = (0x83, 0x55, 0xaa);
        assert_eq!(count(&disk(&[(446, &old)]), 512), Some(1));
        old[4] = GUARD;
        assert_eq!(count(&disk(&[(446, &old)]), 512), Some(0));
        assert_eq!(count(&disk(&[]), 512), None);
    }

    #[test]
    fn wild_numbers_are_survived() {
        for (at, count_field, length) in [(u64::MAX, 128, 128_u32), (2, u32::MAX, 4096), (2, 1, 0)]
        {
            let mut wild = header(at);
            wild[80..84].copy_from_slice(&count_field.to_le_bytes());
            wild[84..88].copy_from_slice(&length.to_le_bytes());
            let found = count(disk(&[(512, &wild)]).path(), SIZE, 512);
            assert!(found.is_err() || found.unwrap().unwrap_or(0) == 0);
        }
    }
}
