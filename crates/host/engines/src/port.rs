//! What an engine joins.

use crate::group::Way;
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
    pub(crate) ways: Vec<Way>,
    pub(crate) weight: NonZeroU8,
    pub(crate) standby: bool,
    pub(crate) silent: bool,
}

impl Port {
    /// Its way for one IP version.
    pub(crate) fn way(&self, family: Family) -> Option<&Way> {
        self.ways.iter().find(|way| Family::of(way.source.addr()) == family)
    }

    /// The IP versions that it has.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.ways.iter().map(|way| Family::of(way.source.addr())).collect()
    }
}

/// The ports that flows take now: those that work before those that don't,
/// those in use before those on standby.
pub(crate) fn flowing<'p>(ports: impl Iterator<Item = &'p Port>) -> Vec<&'p Port> {
    let ports: Vec<&Port> = ports.collect();
    let rank = |port: &Port| (port.silent, port.standby);
    let best = ports.iter().map(|port| rank(port)).min();
    ports.into_iter().filter(|port| Some(rank(port)) == best).collect()
}
