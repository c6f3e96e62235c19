//! What the exit status of looking at pools tells a script.

use std::process::ExitCode;

/// From best to worst; the numbers stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PoolHealth {
    /// All is well.
    Well = 0,
    /// Something should be mended, or is being mended; the data is safe for now.
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
