//! What bytes look like, for people to read. It decides nothing: that they aren't blank is enough.

/// What was found at a place.
pub(super) struct Resemblance {
    /// Offset of the sector in it.
    pub(super) at: usize,
    pub(super) what: &'static str,
    /// Recognised by a magic number.
    pub(super) known: bool,
}

const SECTOR: usize = 512;

/// Magic numbers: their format, their offset in a sector, their bytes.
const MAGICS: &[(&str, usize, &[u8])] = &[
    ("a btrfs superblock", 0x40, b"_BHRfS_M"),
    ("an XFS superblock", 0, b"XFSB"),
    ("an XFS allocation group", 0, b"XAGF"),
    ("an XFS allocation group", 0, b"XAGI"),
    ("an XFS allocation group", 0, b"XAFL"),
    ("an NTFS boot sector", 3, b"NTFS    "),
    ("an NTFS file record", 0, b"FILE0"),
    ("an exFAT boot sector", 3, b"EXFAT   "),
    ("a FAT boot sector", 0x52, b"FAT32   "),
    ("a FAT boot sector", 0x36, b"FAT1"),
    ("a GUID partition table", 0, b"EFI PART"),
    ("a LUKS header", 0, b"LUKS\xba\xbe"),
    ("a LUKS header", 0, b"SKUL\xba\xbe"),
    ("an LVM label", 0, b"LABELONE"),
    ("LVM metadata", 4, b" LVM2 x[5A%r0N*>"),
    ("an md superblock", 0, b"\xfc\x4e\x2b\xa9"),
    ("an md superblock", 0, b"\xa9\x2b\x4e\xfc"),
    ("an md bitmap", 0, b"bitm"),
    (
        "a bcache superblock",
        24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    ("DDF RAID metadata", 0, b"\xde\x11\xde\x11"),
    ("Intel RAID metadata", 0, b"Intel Raid ISM Cfg Sig. "),
    ("DRBD metadata", 60, b"\x83\x74\x02\x6b"),
    ("DRBD metadata", 60, b"\x83\x74\x02\x6c"),
    ("DRBD metadata", 60, b"\x83\x74\x02\x6d"),
    ("a BSD disk label", 0, b"\x57\x45\x56\x82"),
    ("a BSD disk label", 64, b"\x57\x45\x56\x82"),
    ("a ZFS uberblock", 0, b"\x0c\xb1\xba\x00\x00\x00\x00\x00"),
    ("a swap area", 502, b"SWAPSPACE2"),
    ("a tar archive", 257, b"ustar"),
];

pub(super) fn of(bytes: &[u8]) -> Resemblance {
    let sectors = || bytes.chunks(SECTOR).enumerate();
    let known = sectors().find_map(|(number, sector)| {
        let magic = MAGICS
            .iter()
            .find(|(_, at, magic)| sector.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
        let what = magic.map(|(what, ..)| *what);
        let what = what.or_else(|| is_ext(sector).then_some("an ext superblock"));
        Some(Resemblance { at: number * SECTOR, what: what?, known: true })
    });
    known.unwrap_or_else(|| {
        let is_blank =
            |sector: &[u8]| [0, 0xff].iter().any(|value| sector.iter().all(|byte| byte == value));
        let first = sectors().find(|(_, sector)| !is_blank(sector)).or_else(|| sectors().next());
        let (number, sector) = first.unwrap_or((0, &[]));
        Resemblance { at: number * SECTOR, what: looks(sector), known: false }
    })
}

/// `s_magic` of ext2, 3, 4, and fields with values that random bytes wouldn't have: fs/ext4/ext4.h,
/// `struct ext4_super_block`.
fn is_ext(sector: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = sector.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let has_magic = sector.get(56..58) == Some(&[0x53, 0xef]);
    let log_block_size = number(24).unwrap_or(u32::MAX);
    has_magic && log_block_size <= 6 && number(76).is_some_and(|revision| revision <= 1)
}

fn looks(sector: &[u8]) -> &'static str {
    let printable = |byte: &&u8| matches!(byte, 0x20..=0x7e | b'\t' | b'\n' | b'\r' | 0x80..);
    let mut seen = [false; 256];
    sector.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let different = seen.iter().filter(|seen| **seen).count();
    let texts = sector.iter().filter(printable).count();
    // 512 random bytes have about 221 different values; programs and tables have far fewer.
    if different > 190 {
        "random bytes, as an encrypted disk has them,"
    } else if texts == sector.len() && seen.iter().take(0x80).any(|seen| *seen) {
        "text"
    } else {
        "data"
    }
}
