//! How willing a concentrator is to serve each home: see [`braid_tunnel::Change::SetRank`].

use braid_handshake::PublicKey;
use braid_wire::Service;
use std::collections::BTreeMap;

pub(super) const MOST: u8 = 0;
/// While it drains.
pub(super) const LEAST: u8 = Service::DRAINING;

#[derive(Default)]
pub(super) struct Willingness {
    /// Homes are asked to move to another concentrator.
    pub(super) draining: bool,
    /// From the fleet, for some homes.
    pub(super) ranks: BTreeMap<PublicKey, u8>,
}

impl Willingness {
    pub(super) fn rank(&self, home: &PublicKey) -> u8 {
        match self.draining {
            true => LEAST,
            false => self.ranks.get(home).copied().unwrap_or(MOST),
        }
    }
}
