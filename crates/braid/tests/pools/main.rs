//! `braid pool` as a user types it: on loop devices, and in a second kernel for what this one may lack (md) and where
//! the power is cut.

mod changes;
mod every_cut;
mod faults;
mod findings;
mod host;
mod machine;
mod md_in_vm;
mod power_cuts;
mod recorded;
mod replicate_cuts;
mod stale;
mod terminal;
mod upkeep;
mod walks;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
