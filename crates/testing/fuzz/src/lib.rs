//! Fuzz targets for everything that reads bytes from outside, and a runner for
//! them on stable Rust.
//!
//! A [`Target`] is a plain function that takes arbitrary bytes and panics if the tested code is
//! wrong. Two things run them:
//! - [`Fuzzer`] mutates the seeds under `fuzz/corpus-seeds/<target>/`, unguided; the normal tests
//!   do that for a bounded number of inputs, the program `braid-fuzz` for a given time;
//! - the libFuzzer programs in `fuzz/`, which are guided by coverage.
//!
//! `.ci/fuzz [SECONDS]` runs both.

#![forbid(unsafe_code)]

mod fuzzer;
mod mutate;
mod seeds;
pub mod target;

pub use fuzzer::{Failure, Fuzzer};
pub use seeds::{SeedError, seeds, seeds_folder};
pub use target::{TARGETS, Target};
