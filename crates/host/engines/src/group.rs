//! A group: links joined by an engine.

use crate::{Device, Engine, Family, MacAddress, Numbers, Over};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::path::PathBuf;

/// Links joined by an engine, seen from one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name, also of its network device if the engine has one.
    pub name: Device,
    /// What joins the links.
    pub engine: Engine,
    /// What carries the links' traffic to the other end.
    pub over: Over,
    /// This end's addresses: on the group's device, or on `lo` if there is none.
    pub addresses: Vec<IpNet>,
    /// MTU of the group's device, bytes; by default what fits the links.
    pub mtu: Option<u16>,
    /// Networks that are reached through the group.
    pub routes: Vec<IpNet>,
    /// The other end's address inside, as next hop of `routes`.
    pub gateway: Option<IpAddr>,
    /// The links that exist now.
    pub links: Vec<GroupLink>,
    /// Numbers for the kernel's tables.
    pub numbers: Numbers,
    /// Folder for programs' files.
    pub state_dir: PathBuf,
}

/// One link of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLink {
    /// Its name, for people.
    pub name: String,
    /// Its number, from 1; it stays when other links come and go.
    pub number: u32,
    /// Its network device.
    pub device: Device,
    /// The device's MTU, bytes.
    pub mtu: u32,
    /// Its addresses and routers, at most one per IP version; empty for an Ethernet device that
    /// becomes a port.
    pub egresses: Vec<Egress>,
    /// The other end of a tunnel over this link.
    pub remote: Option<IpAddr>,
    /// Its share of the flows.
    pub weight: NonZeroU8,
    /// Used only when no other link works.
    pub standby: bool,
    /// Known not to pass traffic at the moment: no flow takes it, unless this holds for all.
    pub silent: bool,
    /// The other end's Ethernet address, for PPPoE without discovery.
    pub peer_mac: Option<MacAddress>,
}

/// How packets of one IP version leave by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// Our address there, with its network.
    pub source: IpNet,
    /// The router; `None` on a point-to-point link.
    pub gateway: Option<IpAddr>,
}

/// Something impossible in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The config key that it is about.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

impl Trouble {
    pub(crate) fn new(
        key: &'static str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Trouble {
        Trouble { key, what: what.into(), hint: hint.into() }
    }
}

impl Group {
    /// The link of this number.
    pub fn link(&self, number: u32) -> Option<&GroupLink> {
        self.links.iter().find(|link| link.number == number)
    }

    pub(crate) fn first_v4(&self) -> Option<Ipv4Addr> {
        self.addresses.iter().find_map(|net| match net.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    /// A file of this group alone.
    pub(crate) fn state_file(&self, name: &str) -> PathBuf {
        self.state_dir.join(format!("{}.{name}", self.name))
    }

    pub(crate) fn is_mptcp(&self) -> bool {
        matches!(self.engine, Engine::Mptcp(_))
    }
}

impl Egress {
    /// Whether the router is outside our networks, as with some providers.
    pub(crate) fn is_beyond(&self) -> bool {
        // IPv6 routers are link-local, and so always on the link.
        self.gateway.is_some_and(|ip| ip.is_ipv4() && !self.source.contains(&ip))
    }
}

impl GroupLink {
    /// A link of weight 1 with neither addresses nor a remote.
    pub fn new(number: u32, device: Device) -> GroupLink {
        GroupLink {
            name: device.to_string(),
            number,
            device,
            mtu: 1500,
            egresses: Vec::new(),
            remote: None,
            weight: NonZeroU8::MIN,
            standby: false,
            silent: false,
            peer_mac: None,
        }
    }

    /// Its egress for one IP version.
    pub fn egress(&self, family: Family) -> Option<&Egress> {
        self.egresses.iter().find(|egress| Family::of(egress.source.addr()) == family)
    }
}
