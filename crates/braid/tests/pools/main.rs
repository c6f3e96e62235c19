//! `braid pool` as a user types it, on loop devices.

mod at_once;
mod backup;
mod beside_others;
mod changes;
mod destroyed;
mod faults;
mod findings;
mod host;
mod looks;
mod page;
mod served;
mod stale;
mod terminal;
mod unknown_content;
mod upkeep;
mod walks;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
