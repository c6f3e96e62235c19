use braid_disks::superblock::{bcachefs, btrfs, md, partitions};
use std::collections::BTreeMap;

/// A disk's first page, and the offset of a superblock or a table in it; also with valid magic
/// numbers.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn superblock(data: &[u8]) {
    let mut page = vec![0; 4096];
    let length = data.len().min(page.len());
    page[..length].copy_from_slice(&data[..length]);
    examine(&page);
    // A small disk with its table anywhere on it.
    for sector in [512, 4096] {
        let mut disk = data.to_vec();
        let _ = partitions::count_in(&disk, sector);
        disk.resize(disk.len().max(sector as usize + 8), 0);
        disk[sector as usize..][..8].copy_from_slice(b"EFI PART");
        let _ = partitions::count_in(&disk, sector);
    }
    for (place, mark) in [
        (0, &0xa92b_4efc_u32.to_le_bytes()[..]),
        (0x30, &65_536_u64.to_le_bytes()),
        (0x40, b"_BHRfS_M"),
    ] {
        page[place..place + mark.len()].copy_from_slice(mark);
        examine(&page);
    }
}

fn examine(page: &[u8]) {
    let _ = (btrfs::parse(page), bcachefs::parse(page), md::parse(page));
    // Without members, only the page itself can be followed.
    let _ = btrfs::devices::read(page, &BTreeMap::new());
}
