//! Exit statuses that tell scripts about pools' health.

use std::process::ExitCode;

/// From best to worst; the numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PoolHealth {
    /// All is well.
    Well = 0,
    /// Something should be repaired, or is being repaired; the data is safe for now.
    Attention = 10,
    /// Redundancy is lost or data is in danger.
    Danger = 11,
    /// Data can't be reached.
    Lost = 12,
}

impl From<PoolHealth> for ExitCode {
    fn from(health: PoolHealth) -> ExitCode {
        ExitCode::from(health as u8)
    }
}
