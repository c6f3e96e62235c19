//! Braid: link emulator, scenarios, traffic, reports.

pub mod cancel;
pub mod emulator;
pub mod scenario;
pub mod topology;
pub mod traffic;
