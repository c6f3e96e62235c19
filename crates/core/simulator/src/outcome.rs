use crate::captured::Captured;
use crate::traffic::FlowOutcome;
use braid_tunnel::{PeerReport, TunnelCounters};
use std::time::Duration;

/// What a simulation came to.
#[derive(Debug)]
pub struct Outcome {
    /// By traffic, in the scenario's order.
    pub flows: Vec<FlowOutcome>,
    /// Rules that were broken; empty if all is well.
    pub violations: Vec<String>,
    /// Most bytes that any peer held, by the tunnel's own count.
    pub memory_high_water: u64,
    /// The homes' reports (each of one peer) at the end.
    pub homes: Vec<PeerReport>,
    /// The concentrator's reports of the homes.
    pub concentrator: Vec<PeerReport>,
    /// The homes' and, last, the concentrator's counters.
    pub counters: Vec<TunnelCounters>,
    /// IP bytes that each link delivered: to the home, to the concentrator.
    pub link_bytes: Vec<(u64, u64)>,
    /// The same for two plays whose cores did the same: each datagram's time, link,
    /// length and kind, each packet delivered, each event, all counters.
    pub digest: u64,
    /// How often a tunnel's timer was due.
    pub wakes: u64,
    /// Datagrams recorded, if that was asked for.
    pub captured: Vec<Captured>,
}

impl Outcome {
    /// The longest stall of any flow.
    pub fn longest_stall(&self) -> Duration {
        self.flows.iter().map(|f| f.longest_stall).max().unwrap_or_default()
    }
}
