//! What `braid pool` does to disks, recorded in a second kernel, and the power cut at any of its
//! steps.

mod every_cut;
mod recorded;
mod replicate_cuts;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
