//! Sets of bytes as ascending, disjoint ranges `low..high`.

/// Adds `low..high` to the ranges.
pub fn insert(ranges: &mut Vec<(u32, u32)>, low: u32, high: u32) {
    // Nearly always the last range grows.
    if let Some(last) = ranges.last_mut()
        && last.1 == low
    {
        last.1 = high;
        return;
    }
    let start = ranges.partition_point(|r| r.1 < low);
    let end = ranges.partition_point(|r| r.0 <= high);
    if start == end {
        ranges.insert(start, (low, high));
    } else {
        let merged = (ranges[start].0.min(low), ranges[end - 1].1.max(high));
        ranges.drain(start + 1..end);
        ranges[start] = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against the plain way: a set of numbers.
        #[test]
        fn what_was_inserted_is_there_in_order_and_apart(
            parts in prop::collection::vec((0u32..60, 1u32..12), 0..30),
        ) {
            let (mut ranges, mut plain) = (Vec::new(), BTreeSet::new());
            for (low, len) in parts {
                insert(&mut ranges, low, low + len);
                plain.extend(low..low + len);
            }
            prop_assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0), "{ranges:?}");
            let found: Vec<u32> = ranges.iter().flat_map(|r| r.0..r.1).collect();
            prop_assert_eq!(found, plain.into_iter().collect::<Vec<_>>());
        }
    }
}
