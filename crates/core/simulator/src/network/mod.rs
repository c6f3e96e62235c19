//! Links: what they are and how they treat datagrams.

mod direction;
mod link;
mod trace;

pub(crate) use direction::{Direction, HEADERS};
pub(crate) use link::Link;
pub use trace::{Trace, TraceError};

use braid_tunnel::LinkConfig;
use braid_units::Rate;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A link between a home and the concentrator.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// The home that has it.
    pub home: usize,
    /// Towards the home.
    pub down: DirectionSpec,
    /// Towards the concentrator.
    pub up: DirectionSpec,
    /// Largest IP packet that passes, in bytes; larger ones vanish silently.
    pub mtu: u16,
    /// The provider translates addresses: nothing comes in before something
    /// went out.
    pub nat: bool,
    /// How the home wants it used.
    pub config: LinkConfig,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct DirectionSpec {
    /// How fast packets are serialised (IP bytes).
    pub capacity: Capacity,
    /// One-way delay after serialisation.
    pub delay: Duration,
    /// Added to the delay, uniform in zero to this, without reordering.
    pub jitter: Duration,
    /// Loss after serialisation.
    pub loss: Loss,
    /// Bytes that wait besides the packet being serialised; drop-tail.
    pub queue: u64,
    /// Share of the datagrams held back so that later ones pass them.
    pub reorder: f64,
    /// Share of the datagrams that arrive twice.
    pub duplicate: f64,
    /// Share of the datagrams in which a bit is flipped.
    pub corrupt: f64,
}

/// How fast a direction serialises.
#[derive(Clone, Debug)]
pub enum Capacity {
    /// At a constant rate.
    Rate(Rate),
    /// At the opportunities of a recording, from an offset, repeated.
    Trace(Arc<Trace>, Duration),
}

/// Which datagrams are lost, apart from those that don't fit the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// None.
    None,
    /// Each with this probability.
    Random(f64),
    /// In bursts: so many datagrams in the mean, so many of all lost.
    Burst {
        /// Share of all datagrams, 0 to 1.
        share: f64,
        /// Mean length of a burst in datagrams, at least 1.
        length: f64,
    },
}

/// A UDP datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its source, as the receiver sees it.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}

impl DirectionSpec {
    /// A clean direction with a queue of 100 ms, at least 30 KB.
    pub fn clean(rate: Rate, delay: Duration) -> Self {
        Self {
            capacity: Capacity::Rate(rate),
            delay,
            jitter: Duration::ZERO,
            loss: Loss::None,
            queue: rate.bytes_in(Duration::from_millis(100)).max(30_000),
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
        }
    }
}

impl LinkSpec {
    /// A clean link of the first home: the same delay both ways, MTU 1500.
    pub fn clean(down: Rate, up: Rate, delay: Duration) -> Self {
        Self {
            home: 0,
            down: DirectionSpec::clean(down, delay),
            up: DirectionSpec::clean(up, delay),
            mtu: 1500,
            nat: true,
            config: LinkConfig::default(),
        }
    }
}

impl Capacity {
    /// Bytes that pass between two moments after the start, if there is always
    /// something to send.
    pub fn bytes_between(&self, from: Duration, to: Duration) -> u64 {
        match self {
            Self::Rate(rate) => rate.bytes_in(to.saturating_sub(from)),
            Self::Trace(trace, offset) => {
                trace.bytes_before(*offset + to) - trace.bytes_before(*offset + from)
            }
        }
    }
}
