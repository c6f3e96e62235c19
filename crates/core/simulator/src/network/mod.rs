//! Links: two directions, an address translation between them, datagrams on them.

mod link;

pub(crate) use link::Link;

use braid_link_model::{DirectionModel, Packet, flip_bit};
use braid_tunnel::LinkConfig;
use braid_units::Rate;
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of IPv4 and UDP headers around a payload.
const HEADERS: usize = 28;

/// A link between a home and the concentrator.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// The home that has it.
    pub home: usize,
    /// Towards the home.
    pub down: DirectionModel,
    /// Towards the concentrator.
    pub up: DirectionModel,
    /// Largest IP packet that passes, in bytes; larger ones vanish silently.
    pub mtu: u16,
    /// The provider translates addresses: nothing comes in before something
    /// went out.
    pub nat: bool,
    /// How the home wants it used.
    pub config: LinkConfig,
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

impl Packet for Datagram {
    fn flip_bit(&mut self, rng: &mut Rng) {
        flip_bit(&mut self.bytes, rng);
    }
}

impl LinkSpec {
    /// A clean link of the first home: the same delay both ways, MTU 1500.
    pub fn clean(down: Rate, up: Rate, delay: Duration) -> Self {
        Self::new(DirectionModel::clean(down, delay), DirectionModel::clean(up, delay))
    }

    /// A link of the first home, MTU 1500.
    pub fn new(down: DirectionModel, up: DirectionModel) -> Self {
        Self { home: 0, down, up, mtu: 1500, nat: true, config: LinkConfig::default() }
    }
}
