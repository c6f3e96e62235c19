//! Braid: link emulator, scenarios, traffic, reports.

pub mod emulator;
