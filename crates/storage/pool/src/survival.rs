//! How many disks can be lost.

use crate::layout::{Layout, MdLayout, Spread};
use serde::Serialize;

/// Losses that are survived whichever disks fail, and those that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Survival {
    /// Of the data.
    pub data: usize,
    /// Of the metadata: up to this many the filesystem can still be mounted, though files may have
    /// holes.
    pub metadata: usize,
    /// Of the data, when the right disks fail.
    pub data_maybe: usize,
}

/// What `layout` survives on `disks` disks.
pub fn survival(layout: Layout, disks: usize) -> Survival {
    match layout {
        Layout::Btrfs(profile) => {
            let data = profile.losses_survived().min(disks.saturating_sub(1));
            let metadata = profile.metadata_beside(disks).losses_survived();
            // Each chunk's devices are chosen anew, so with more than a few chunks every further
            // loss hits one.
            Survival { data, metadata, data_maybe: data }
        }
        Layout::Md(md) => {
            let data = md.losses_survived(disks).min(disks.saturating_sub(1));
            let data_maybe = match md {
                MdLayout::Raid10 { spread, copies } => data.max(best_case(spread, copies, disks)),
                _ => data,
            };
            Survival { data, metadata: data, data_maybe }
        }
    }
}

/// How many members of a RAID10 can be lost at best. Copies of a chunk lie on `copies` neighbours
/// (near: counted over the whole stripe; far and offset: rotated by one each), so a loss needs
/// `copies` neighbours in a ring, or, for near when they divide the members, one whole group.
fn best_case(spread: Spread, copies: u8, disks: usize) -> usize {
    let copies = usize::from(copies).max(1);
    if spread == Spread::Near && disks.is_multiple_of(copies) {
        return disks / copies * (copies - 1);
    }
    // In a ring of n, no `copies` neighbours in a row may be lost: one of each `copies` has to
    // stay.
    disks - disks.div_ceil(copies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MdLayout;

    fn of(layout: &str, disks: usize) -> (usize, usize, usize) {
        let Survival { data, metadata, data_maybe } = survival(layout.parse().unwrap(), disks);
        (data, metadata, data_maybe)
    }

    #[test]
    fn data_metadata_and_what_may_be() {
        for (layout, disks, expected) in [
            ("btrfs-single", 1, (0, 0, 0)),
            ("btrfs-single", 3, (0, 1, 0)),
            ("btrfs-raid0", 3, (0, 1, 0)),
            ("btrfs-raid1", 2, (1, 1, 1)),
            ("btrfs-raid1c3", 3, (2, 2, 2)),
            ("btrfs-raid1c4", 5, (3, 3, 3)),
            ("btrfs-raid10", 4, (1, 1, 1)),
            ("md-raid0", 2, (0, 0, 0)),
            ("md-raid1", 3, (2, 2, 2)),
            ("md-raid10-n2", 4, (1, 1, 2)),
            ("md-raid10-n2", 5, (1, 1, 2)),
            ("md-raid10-f2", 2, (1, 1, 1)),
            ("md-raid10-f2", 4, (1, 1, 2)),
            ("md-raid10-n3", 6, (2, 2, 4)),
            ("md-raid5", 4, (1, 1, 1)),
            ("md-raid6", 4, (2, 2, 2)),
        ] {
            assert_eq!(of(layout, disks), expected, "{layout} of {disks}");
        }
    }

    /// The best case by brute force: the largest set of members whose loss leaves a copy of every
    /// chunk.
    #[test]
    fn the_best_case_is_what_the_placement_of_copies_allows() {
        for disks in 2usize..=7 {
            for copies in 2u8..=3.min(disks as u8) {
                for spread in [Spread::Near, Spread::Far, Spread::Offset] {
                    let md = MdLayout::Raid10 { spread, copies };
                    let best = (0u32..1 << disks)
                        .filter(|lost| survives(spread, copies.into(), disks, *lost))
                        .map(u32::count_ones)
                        .max();
                    let found = survival(Layout::Md(md), disks).data_maybe;
                    assert_eq!(Some(found as u32), best, "{md} of {disks}");
                }
            }
        }
    }

    /// Places of a chunk's copies as md(4) describes them.
    fn survives(spread: Spread, copies: usize, disks: usize, lost: u32) -> bool {
        (0..disks * copies).all(|chunk| {
            (0..copies).any(|copy| {
                let member = match spread {
                    Spread::Near => (chunk * copies + copy) % disks,
                    Spread::Far | Spread::Offset => (chunk + copy) % disks,
                };
                lost >> member & 1 == 0
            })
        })
    }
}
