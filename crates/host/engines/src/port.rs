//! What an engine joins.

use crate::group::Egress;
use crate::{Device, Family};
use std::num::NonZeroU8;

/// What an engine joins: a link, or the tunnel over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The link's name.
    pub(crate) link: String,
    pub(crate) number: u32,
    pub(crate) device: Device,
    pub(crate) mtu: u32,
    pub(crate) egresses: Vec<Egress>,
    pub(crate) weight: NonZeroU8,
    pub(crate) standby: bool,
    pub(crate) silent: bool,
}

impl Port {
    /// Its egress for one IP version.
    pub(crate) fn egress(&self, family: Family) -> Option<&Egress> {
        self.egresses.iter().find(|egress| Family::of(egress.source.addr()) == family)
    }

    /// The IP versions that it has.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.egresses.iter().map(|egress| Family::of(egress.source.addr())).collect()
    }
}

/// The ports that flows currently use: working ones if there are any, and of those the ones not on
/// standby.
pub(crate) fn flowing<'p>(ports: impl Iterator<Item = &'p Port>) -> Vec<&'p Port> {
    let ports: Vec<&Port> = ports.collect();
    let rank = |port: &Port| (port.silent, port.standby);
    let best = ports.iter().map(|port| rank(port)).min();
    ports.into_iter().filter(|port| Some(rank(port)) == best).collect()
}
