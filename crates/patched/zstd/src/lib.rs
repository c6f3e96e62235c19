//! Stands in for the crate `zstd` (see `[patch.crates-io]`), of which `rustic_core` needs whole
//! buffers in and out. There each gets a context of its own, a megabyte and more that is made,
//! cleared and given back for a file of some bytes. Here each thread has one of each kind, and
//! compression knows the size beforehand, by which it takes tables as large as the data need.

#![forbid(unsafe_code)]

pub mod stream;

pub use stream::decode_all;

use std::ops::RangeInclusive;

/// The levels that there are.
#[must_use]
pub fn compression_level_range() -> RangeInclusive<i32> {
    zstd_safe::min_c_level()..=zstd_safe::max_c_level()
}
