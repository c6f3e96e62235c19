use super::btrfs::{Allocator, closed_form};
use super::*;
use crate::layout::{MdLayout, Profile};
use proptest::prelude::*;

const GB: u64 = 1_000_000_000;
const TB: u64 = 1000 * GB;

fn usable(layout: &str, sizes: &[u64]) -> u64 {
    capacity(layout.parse().unwrap(), MdFilesystem::Ext4, sizes).unwrap().usable_bytes
}

/// Within 0.2 %, which headers take.
fn close(bytes: u64, expected: u64) -> bool {
    bytes <= expected && expected - bytes <= expected / 500
}

#[test]
fn the_facts_example_of_unequal_disks() {
    let sizes = [400 * GB, 100 * GB, 100 * GB];
    let raid1 = capacity("btrfs-raid1".parse().unwrap(), MdFilesystem::Ext4, &sizes).unwrap();
    assert!(close(raid1.usable_bytes, 200 * GB), "{raid1:?}");
    // A real fill reached 197 GB; `btrfs fi usage` said 299, `df` 99.
    assert!(raid1.fill_bytes.abs_diff(197 * GB) < 197 * GB * 3 / 100, "{raid1:?}");
    assert!(raid1.wasted_bytes[0].abs_diff(200 * GB) < 2 * GB, "{raid1:?}");
    assert_eq!(raid1.wasted_bytes[1..], [0, 0]);
}

#[test]
fn every_layout_of_equal_disks() {
    for (layout, n, disks) in [
        ("btrfs-single", 3, 3.0),
        ("btrfs-raid0", 3, 3.0),
        ("btrfs-raid1", 3, 1.5),
        ("btrfs-raid1c3", 3, 1.0),
        ("btrfs-raid1c4", 4, 1.0),
        ("btrfs-raid1c4", 6, 1.5),
        ("btrfs-raid10", 2, 1.0),
        ("btrfs-raid10", 4, 2.0),
        ("md-raid0", 3, 3.0),
        ("md-raid1", 3, 1.0),
        ("md-raid10-n2", 3, 1.5),
        ("md-raid10-f2", 2, 1.0),
        ("md-raid10-o2", 5, 2.5),
        ("md-raid10-n3", 6, 2.0),
        ("md-raid5", 4, 3.0),
        ("md-raid6", 4, 2.0),
        ("btrfs-raid5", 4, 3.0),
    ] {
        let bytes = usable(layout, &vec![4 * TB; n]);
        assert!(close(bytes, (disks * 4e12) as u64), "{layout} of {n}: {bytes}");
    }
}

#[test]
fn too_few_or_too_small_disks_give_nothing() {
    for (layout, sizes) in [
        ("btrfs-raid1", vec![TB]),
        ("btrfs-raid1c3", vec![TB; 2]),
        ("md-raid5", vec![TB; 2]),
        ("md-raid6", vec![TB; 3]),
        ("md-raid0", vec![TB]),
        ("btrfs-single", vec![]),
        ("btrfs-raid1", vec![TB, 1000]),
        ("md-raid1", vec![TB, 0]),
    ] {
        let found = capacity(layout.parse().unwrap(), MdFilesystem::Ext4, &sizes);
        assert_eq!(found, None, "{layout} {sizes:?}");
    }
}

#[test]
fn md_wastes_what_is_larger_than_the_smallest_and_raid0_nothing() {
    let sizes = [4 * TB, 2 * TB, 3 * TB];
    let raid5 = capacity("md-raid5".parse().unwrap(), MdFilesystem::Xfs, &sizes).unwrap();
    assert_eq!(raid5.wasted_bytes, [2 * TB, 0, TB]);
    let raid0 = capacity("md-raid0".parse().unwrap(), MdFilesystem::Xfs, &sizes).unwrap();
    assert_eq!(raid0.wasted_bytes, [0, 0, 0]);
    assert!(close(raid0.usable_bytes, 9 * TB));
}

#[test]
fn btrfs_raid10_stripes_over_all_that_have_room_so_it_may_waste_more_than_raid1() {
    let sizes = [4 * TB, TB, TB, TB];
    assert!(close(usable("btrfs-raid1", &sizes), 3 * TB));
    assert!(close(usable("btrfs-raid10", &sizes), 2 * TB));
    assert!(close(usable("btrfs-raid10", &[4 * TB, 4 * TB, TB, TB]), 5 * TB));
}

#[test]
fn a_fill_is_never_more_than_the_room() {
    for layout in Layout::ALL {
        for size in [GB, 10 * GB, 500 * GB, 20 * TB] {
            for filesystem in [MdFilesystem::Ext4, MdFilesystem::Xfs] {
                let all = capacity(layout, filesystem, &[size; 4]).unwrap();
                assert!(all.fill_bytes < all.usable_bytes, "{layout} of 4 × {size}: {all:?}");
                if size >= 500 * GB {
                    assert!(all.fill_bytes > all.usable_bytes / 100 * 97, "{layout}: {all:?}");
                }
            }
        }
    }
}

proptest! {
    /// The allocator, with chunks small beside the disks, reaches the closed form and never more.
    #[test]
    fn simulation_and_closed_form_agree(
        sizes in proptest::collection::vec(1u64..2000, 4..9),
        profile in prop_oneof![
            Just(Profile::Single), Just(Profile::Raid0), Just(Profile::Dup), Just(Profile::Raid1),
            Just(Profile::Raid1c3), Just(Profile::Raid1c4),
        ],
    ) {
        const MIB: u64 = 1 << 20;
        let free: Vec<u64> = sizes.iter().map(|size| size * 100 * MIB).collect();
        let limit = closed_form(profile, &free).unwrap();
        let mut allocator = Allocator::new(&free);
        let mut reached = 0;
        while let Some(room) = allocator.take(profile, 20 * MIB) {
            reached += room;
        }
        prop_assert!(reached <= limit, "{} > {}", reached, limit);
        // At the end each device may keep less than one stripe, at most a 2500th of all.
        let slack = free.len() as u64 * (20 * MIB).max(free.iter().sum::<u64>() / 2500);
        prop_assert!(limit - reached <= slack, "{} << {}", reached, limit);
    }

    /// On equal disks raid10 holds half of all, up to one disk's rounding; it never holds more than
    /// raid1.
    #[test]
    fn raid10_is_bounded_by_raid1(sizes in proptest::collection::vec(20u64..4000, 2..9)) {
        let sizes: Vec<u64> = sizes.iter().map(|size| size * GB).collect();
        let raid1 = usable("btrfs-raid1", &sizes);
        prop_assert!(usable("btrfs-raid10", &sizes) <= raid1);
        let equal = vec![sizes[0]; sizes.len()];
        let half = sizes[0] * sizes.len() as u64 / 2;
        prop_assert!(usable("btrfs-raid10", &equal).abs_diff(half) <= half / 50 + (2 << 30));
    }

    #[test]
    fn nothing_holds_more_than_its_disks(
        sizes in proptest::collection::vec(0u64..40_000_000_000_000, 1..12),
        index in 0usize..13,
    ) {
        let layout = Layout::ALL[index];
        if let Some(all) = capacity(layout, MdFilesystem::Xfs, &sizes) {
            prop_assert!(all.usable_bytes <= sizes.iter().sum::<u64>());
            prop_assert_eq!(all.wasted_bytes.len(), sizes.len());
            for (wasted, size) in all.wasted_bytes.iter().zip(&sizes) {
                prop_assert!(wasted <= size);
            }
        }
    }

    #[test]
    fn md_holds_n_times_the_smallest_over_the_copies(
        sizes in proptest::collection::vec(2 * GB..9 * TB, 2..9),
        copies in 2u8..4,
    ) {
        prop_assume!(sizes.len() >= copies as usize);
        let md = MdLayout::Raid10 { spread: crate::layout::Spread::Far, copies };
        let found = capacity(Layout::Md(md), MdFilesystem::Ext4, &sizes).unwrap();
        let expected = *sizes.iter().min().unwrap() as f64 * sizes.len() as f64 / f64::from(copies);
        let share = found.usable_bytes as f64 / expected;
        prop_assert!(share <= 1.0 && share > 0.997, "{}", share);
    }
}
