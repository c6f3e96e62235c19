//! Known facts about the links, the other end and the host.

use crate::Feature;
use crate::words::words;
use braid_units::{Rate, Ratio};
use std::time::Duration;

/// A link, as far as known.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkFacts {
    /// Its name.
    pub name: String,
    /// Rate towards this host.
    pub down: Option<Rate>,
    /// Rate from this host.
    pub up: Option<Rate>,
    /// Round-trip time to the other end, idle.
    pub rtt: Option<Duration>,
    /// Share of packets lost.
    pub loss: Option<Ratio>,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// How the other end is reached.
    pub adjacency: Adjacency,
}

words! {
    /// How the other end is reached over a link.
    Adjacency {
        /// By Ethernet: a cable or switches.
        Ethernet = "ethernet",
        /// By routers: the Internet.
        Routed = "routed",
    }
}

words! {
    /// What the other end is.
    Peer {
        /// None: the links lead to the Internet in general.
        Nobody = "nobody",
        /// A Linux box of ours.
        Linux = "linux",
        /// A Linux box of ours with Braid.
        Braid = "braid",
        /// A RouterOS box of ours.
        RouterOs = "routeros",
        /// A switch that speaks LACP.
        Switch = "switch",
    }
}

/// The input of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The links.
    pub links: Vec<LinkFacts>,
    /// The other end.
    pub peer: Peer,
    /// What this host lacks.
    pub lacks: Vec<Feature>,
}

/// Assumed rate of a link if it is unknown, so that links can be compared.
pub const UNKNOWN_RATE: Rate = Rate::from_mbit(100);
/// Assumed round-trip time if it is unknown: that of an Ethernet.
const UNKNOWN_RTT: Duration = Duration::from_micros(500);

impl LinkFacts {
    pub(super) fn rate(&self) -> Rate {
        self.down.or(self.up).unwrap_or(UNKNOWN_RATE)
    }

    pub(super) fn round_trip(&self) -> Duration {
        self.rtt.unwrap_or(UNKNOWN_RTT)
    }

    pub(super) fn loss(&self) -> f64 {
        self.loss.map_or(0.0, Ratio::fraction)
    }
}

impl Facts {
    /// Rates of all links together.
    pub(super) fn sum(&self) -> Rate {
        self.links.iter().fold(Rate::ZERO, |sum, link| sum.saturating_add(link.rate()))
    }

    pub(super) fn fastest(&self) -> Rate {
        self.links.iter().map(LinkFacts::rate).max().unwrap_or(Rate::ZERO)
    }

    pub(super) fn slowest(&self) -> Rate {
        self.links.iter().map(LinkFacts::rate).min().unwrap_or(Rate::ZERO)
    }

    /// The rate with equal turns: every link as fast as the slowest.
    pub(super) fn even(&self) -> Rate {
        self.slowest().scaled(self.links.len() as f64)
    }

    /// Difference of the one-way delays, taken as half of that of the round trips.
    pub(super) fn delay_spread(&self) -> Duration {
        let times = || self.links.iter().map(LinkFacts::round_trip);
        let (low, high) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        (high - low) / 2
    }

    pub(super) fn worst_loss(&self) -> f64 {
        self.links.iter().map(LinkFacts::loss).fold(0.0, f64::max)
    }

    pub(super) fn all_ethernet(&self) -> bool {
        self.links.iter().all(|link| link.adjacency == Adjacency::Ethernet)
    }
}
