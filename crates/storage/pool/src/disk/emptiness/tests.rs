use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

fn is_read(size: u64, at: u64) -> bool {
    places(size).iter().any(|place| place.start <= at && at < place.start + place.length)
}

#[test]
fn both_ends_and_every_copy_of_a_superblock_are_read() {
    for size in [100_000_000, 400 * MIB, 3 * TIB, 4_000_787_030_016, 22 * TIB] {
        let mut copies = vec![0, 511, 4 * MIB, size - 1, size - 512, size - 4 * MIB + 1];
        // md 0.90, 1.0; ZFS labels 2 and 3.
        copies.extend([(size & !0xffff) - 0x10000, size - 0x4000, size - 0x80000, size - 0x40000]);
        for start in [0, MIB] {
            copies.extend([64 * MIB, 256 * GIB].map(|mirror| start + mirror));
            copies.extend([1, 3, 5, 7, 9, 25, 27, 49].map(|group| start + group * 128 * MIB));
            copies.extend([1, 3, 5, 7, 9, 25, 27, 49].map(|group| start + group * 8 * MIB + 1024));
            let quarter = (size - start).div_ceil(4 * 4096) * 4096;
            copies.extend([1, 2, 3].map(|group| start + group * quarter));
            copies.extend([1, 2, 20].map(|group| start + group * TIB));
            copies.extend([1, 2, 20].map(|group| start + group * (TIB - 4096)));
            copies.push(start + 3 * GIB);
        }
        for at in copies.into_iter().filter(|at| *at < size) {
            assert!(is_read(size, at), "{at} of {size}");
        }
    }
}

#[test]
fn places_are_in_order_within_the_disk_and_soon_read() {
    for size in [0, 1, 512, 4096, 5_000_000, 100_000_000, 4_000_787_030_016, 1 << 60, u64::MAX] {
        let places = places(size);
        assert_eq!(places.is_empty(), size == 0);
        let bytes: u64 = places.iter().map(|place| place.length).sum();
        assert!(bytes <= 32 * MIB && places.len() < 700, "{size}: {bytes}, {}", places.len());
        assert!(places.iter().all(|place| place.start % 4096 == 0 && place.length > 0));
        assert!(places.windows(2).all(|two| two[0].start + two[0].length < two[1].start));
        assert!(places.iter().all(|place| place.start + place.length <= size));
    }
    let large = places(4 * TIB);
    let farthest = large.windows(2).map(|two| two[1].start - two[0].start).max();
    assert!(farthest <= Some(4 * TIB / 256 + MIB), "{farthest:?}");
    assert!(large.len() > 256);
}

#[test]
fn only_a_disk_that_is_blank_everywhere_is_empty() {
    let size = GIB;
    assert!(examine(size, |_| Reading::Zeroes).is_ok());
    assert!(examine(size, |_| Reading::Ones).is_ok());
    let says = |read: &dyn Fn(Extent) -> Reading| examine(size, read).unwrap_err().to_string();
    assert!(examine(0, |_| Reading::Zeroes).is_err());
    let all = places(size);
    // Whichever single place isn't.
    for odd in all.iter().step_by(11).chain(all.last()) {
        let is_odd = |place: Extent| place == *odd;
        let data = says(&|place| match is_odd(place) {
            true => Reading::of(place, &vec![7; place.length as usize]),
            false => Reading::Zeroes,
        });
        assert_eq!(data, format!("unknown content: data at byte {}", odd.start));
        let bad = says(&|place| match is_odd(place) {
            true => Reading::Unread { why: "Input/output error".to_owned() },
            false => Reading::Zeroes,
        });
        assert!(bad.contains(&format!("byte {}", odd.start)), "{bad}");
        assert!(bad.contains("could not be read: Input/output error"), "{bad}");
    }
    let mixed = says(&|place| if place.start == 0 { Reading::Ones } else { Reading::Zeroes });
    assert!(mixed.contains("all ones at byte 0"), "{mixed}");
    // A disk that gives fewer bytes than it says it has.
    let short = says(&|place| Reading::of(place, &[]));
    assert!(short.contains("could not be read"), "{short}");
}

#[test]
fn what_is_told_names_formats_before_guesses() {
    let place = Extent { start: MIB, length: 16 << 10 };
    let with = |at: usize, bytes: &[u8]| {
        let mut all = vec![0; place.length as usize];
        all[at..][..bytes.len()].copy_from_slice(bytes);
        Reading::of(place, &all)
    };
    let found = |at: u64, resemble, known| Reading::Bytes { at: MIB + at, resemble, known };
    assert_eq!(with(8192, b"XFSB"), found(8192, "an XFS superblock", true));
    assert_eq!(with(4096 + 0x40, b"_BHRfS_M"), found(4096, "a btrfs superblock", true));
    assert_eq!(with(4086, b"SWAPSPACE2"), found(3584, "a swap area", true));
    assert_eq!(with(1024 + 56, &[0x53, 0xef]), found(1024, "an ext superblock", true));
    assert_eq!(with(700, b"hello"), found(512, "data", false));
    assert_eq!(with(512, &[b'a'; 512]), found(512, "text", false));
    let noise: Vec<u8> =
        (0..512_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(
        with(1024, &noise),
        found(1024, "random bytes, as an encrypted disk has them,", false)
    );
    let told = examine(GIB, |place| match place.start {
        0 => with(700, b"hello"),
        n if n > GIB / 2 => with(0, b"XAGF"),
        _ => Reading::Zeroes,
    });
    let told = told.unwrap_err().to_string();
    assert!(told.starts_with("unknown content: an XFS allocation group at byte "), "{told}");
    assert!(told.contains(", data at byte "), "{told}");
}
