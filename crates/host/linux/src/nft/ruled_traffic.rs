//! A rule as the firewall sees it.

use braid_rules::Conditions;

/// A rule as the firewall sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuledTraffic {
    /// Its number, which its counters are named by.
    pub number: usize,
    /// What it matches.
    pub conditions: Conditions,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They go as everything else does.
    Tunnel,
    /// New ones get this mark, by which they leave.
    Marked(u32),
    /// They are refused, also those that were there before.
    Refused,
}
