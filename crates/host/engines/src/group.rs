//! A group: links that become one by an engine.

use crate::{Device, Engine, Family, MacAddress, Numbers, Over};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::path::PathBuf;

/// Links that become one by an engine, seen from one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name, and that of its network device where the engine has one.
    pub name: Device,
    /// What joins the links.
    pub engine: Engine,
    /// What carries the links' traffic to the other end.
    pub over: Over,
    /// This end's addresses: of the group's device, or of `lo` where there is none.
    pub addresses: Vec<IpNet>,
    /// MTU of the group's device, bytes; by default what fits the links.
    pub mtu: Option<u16>,
    /// Networks that are reached through the group.
    pub routes: Vec<IpNet>,
    /// The other end's address inside, as next hop of `routes`.
    pub gateway: Option<IpAddr>,
    /// The links that are there now.
    pub links: Vec<GroupLink>,
    /// Numbers for the kernel's tables.
    pub numbers: Numbers,
    /// Where files for programs go.
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
    /// Its addresses and routers, at most one for each IP version; none for an
    /// Ethernet device that becomes a port.
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
    /// The router; none on a link with just one other end.
    pub gateway: Option<IpAddr>,
}

/// Something about a group that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The config's key that it is about.
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
    /// Whether the router is in none of our networks, as some providers have it.
    pub(crate) fn is_beyond(&self) -> bool {
        // IPv6's are link-local, and so always near.
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
