//! What is played.

use std::ops::Range;

/// The scenario to play.
pub struct Scenario {
    pub homes: usize,
    pub concentrators: usize,
    /// Capacity of each concentrator.
    pub capacity: u32,
    /// Where each further site begins: those that fail together share one.
    pub sites: Vec<usize>,
    pub stand_ins: usize,
    /// The outages.
    pub events: Vec<Outage>,
    pub seconds: u64,
}

/// Some concentrators fail for a while.
#[derive(Clone)]
pub struct Outage {
    pub name: &'static str,
    pub concentrators: Range<usize>,
    /// In seconds.
    pub times: Range<u64>,
    /// They restart without state.
    pub die: bool,
}
