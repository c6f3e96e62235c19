//! Braid: link emulator, scenarios, traffic, reports.
