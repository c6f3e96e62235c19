//! A rule as the firewall sees it.

use braid_rules::Conditions;

/// A rule as the firewall sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuledTraffic {
    /// Its number, used in the names of its counters.
    pub number: usize,
    /// What it matches.
    pub conditions: Conditions,
    /// What happens to its traffic.
    pub fate: Fate,
}

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They take the usual route.
    Tunnel,
    /// New ones get this mark, which determines how they leave.
    Marked(u32),
    /// They are refused, including existing ones.
    Refused,
}
