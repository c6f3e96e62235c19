//! `braid pool` in a second kernel: where this one may lack something (md), and where the power is cut.

mod every_cut;
mod machine;
mod md_in_vm;
mod power_cuts;
mod recorded;
mod replicate_cuts;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
