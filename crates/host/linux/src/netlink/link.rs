//! Network interfaces (`RTM_*LINK`).

use super::Netlink;
use super::message::{Request, attributes, string, u32_at};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `VETH_INFO_PEER` of linux/veth.h.
const VETH_INFO_PEER: u16 = 1;
/// `IFLA_INFO_KIND`, `IFLA_INFO_DATA` of linux/if_link.h.
pub(super) const INFO_KIND: u16 = 1;
pub(super) const INFO_DATA: u16 = 2;
const INFO_SLAVE_KIND: u16 = 4;
const INFO_SLAVE_DATA: u16 = 5;
/// `IFLA_BOND_SLAVE_STATE`, and its value for a backup port.
const BOND_SLAVE_STATE: u16 = 1;
const BACKUP: u8 = 1;
/// Positions in `struct rtnl_link_stats64`, in 64-bit words.
const STATS64_RX_PACKETS: usize = 0;
const STATS64_TX_PACKETS: usize = 1;
const STATS64_RX_BYTES: usize = 2;
const STATS64_TX_BYTES: usize = 3;
const STATS64_RX_DROPPED: usize = 6;
const STATS64_TX_DROPPED: usize = 7;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's interface index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Largest packet, bytes.
    pub mtu: u32,
    /// Set up by the administrator (`IFF_UP`).
    pub up: bool,
    /// A carrier is there and traffic can pass (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Has exactly one peer and therefore no gateway (PPP, TUN, raw-IP modems).
    pub point_to_point: bool,
    /// Index of the device that it is a port of (a bridge, a bond).
    pub master: Option<u32>,
    /// Its Ethernet address.
    pub hardware: Option<[u8; 6]>,
    /// A port that its bond holds in reserve (`BOND_STATE_BACKUP`).
    pub is_backup: bool,
    /// Driver kind (`veth`, `bridge`, `tun`, `wireguard`…); none for hardware.
    pub kind: Option<String>,
    /// Received packets that were dropped.
    pub received_dropped: u64,
    /// Packets dropped before they were sent; on a TUN device, because its reader was too slow.
    pub sent_dropped: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl Netlink {
    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP).fixed(&header(0, 0, 0));
        let mut links = Vec::new();
        self.query(request, |kind, body| {
            if kind == libc::RTM_NEWLINK {
                links.extend(parse(body));
            }
        })?;
        Ok(links)
    }

    /// The interface of this name.
    ///
    /// # Errors
    /// `NotFound` (ENODEV) when there is none.
    pub fn link(&mut self, name: &str) -> io::Result<Link> {
        let request = Request::new(libc::RTM_GETLINK, 0)
            .fixed(&header(0, 0, 0))
            .string(libc::IFLA_IFNAME, name);
        let mut found = None;
        self.query(request, |_, body| found = parse(body)).map_err(|error| naming(error, name))?;
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Brings an interface up.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub fn set_up(&mut self, name: &str) -> io::Result<()> {
        let index = self.link(name)?.index;
        let up = libc::IFF_UP as u32;
        self.change(Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, up, up)))
    }

    /// Takes an interface down.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub fn set_down(&mut self, name: &str) -> io::Result<()> {
        let index = self.link(name)?.index;
        self.change(Request::new(libc::RTM_NEWLINK, 0).fixed(&header(
            index,
            0,
            libc::IFF_UP as u32,
        )))
    }

    /// Sets the largest packet of an interface, bytes.
    ///
    /// # Errors
    /// `InvalidInput` when the device can't.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        let index = self.link(name)?.index;
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
        self.change(request.u32(libc::IFLA_MTU, mtu))
    }

    /// Sets the length of the device's transmit queue in packets (`txqueuelen`).
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub fn set_queue_length(&mut self, name: &str, packets: u32) -> io::Result<()> {
        let index = self.link(name)?.index;
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
        self.change(request.u32(libc::IFLA_TXQLEN, packets))
    }

    /// Makes an interface a port of a bridge (or of another device that takes
    /// ports).
    ///
    /// # Errors
    /// `NotFound` when one of them doesn't exist; the kernel's error when the bridge refuses it.
    pub fn set_bridge(&mut self, name: &str, bridge: &str) -> io::Result<()> {
        let bridge = self.link(bridge)?.index;
        let index = self.link(name)?.index;
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
        self.change(request.u32(libc::IFLA_MASTER, bridge))
    }

    /// Detaches a port from the device that it belongs to.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub fn release_port(&mut self, name: &str) -> io::Result<()> {
        let index = self.link(name)?.index;
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
        self.change(request.u32(libc::IFLA_MASTER, 0))
    }

    /// Creates a pair of virtual Ethernet interfaces: `name` here, `peer` in the given namespace
    /// (or here). Both are down.
    ///
    /// # Errors
    /// `AlreadyExists` when a name is taken.
    pub fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        namespace: Option<&dyn AsFd>,
    ) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWLINK, flags)
            .fixed(&header(0, 0, 0))
            .string(libc::IFLA_IFNAME, name)
            .nested(libc::IFLA_LINKINFO, |info| {
                info.attribute(INFO_KIND, b"veth").nested(INFO_DATA, |data| {
                    data.nested(VETH_INFO_PEER, |end| {
                        let end = end.fixed(&header(0, 0, 0)).string(libc::IFLA_IFNAME, peer);
                        match namespace {
                            Some(namespace) => {
                                end.u32(libc::IFLA_NET_NS_FD, namespace.as_fd().as_raw_fd() as u32)
                            }
                            None => end,
                        }
                    })
                })
            });
        self.change(request)
    }

    /// Deletes a virtual interface.
    ///
    /// # Errors
    /// `Unsupported` for hardware, `NotFound` when there is none of that name.
    pub fn delete_link(&mut self, name: &str) -> io::Result<()> {
        let index = self.link(name)?.index;
        self.change(Request::new(libc::RTM_DELLINK, 0).fixed(&header(index, 0, 0)))
    }

    /// Moves an interface into another namespace.
    ///
    /// # Errors
    /// `NotFound` when there is none of that name.
    pub fn move_to_namespace(&mut self, name: &str, namespace: &impl AsFd) -> io::Result<()> {
        let index = self.link(name)?.index;
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
        self.change(request.u32(libc::IFLA_NET_NS_FD, namespace.as_fd().as_raw_fd() as u32))
    }
}

/// Reads the body of an `RTM_NEWLINK` or `RTM_DELLINK`.
pub(super) fn parse(body: &[u8]) -> Option<Link> {
    let flags = u32_at(body, 8)? as libc::c_int;
    let mut link = Link {
        index: u32_at(body, 4)?,
        up: flags & libc::IFF_UP != 0,
        carrier: flags & libc::IFF_LOWER_UP != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
        point_to_point: flags & libc::IFF_POINTOPOINT != 0,
        ..Link::default()
    };
    for (kind, payload) in attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = string(payload),
            libc::IFLA_MTU => link.mtu = u32_at(payload, 0)?,
            libc::IFLA_ADDRESS => link.hardware = payload.try_into().ok(),
            libc::IFLA_MASTER => link.master = u32_at(payload, 0).filter(|&index| index != 0),
            libc::IFLA_LINKINFO => {
                let info = |wanted| {
                    attributes(payload).find(|(kind, _)| *kind == wanted).map(|(_, info)| info)
                };
                link.kind = info(INFO_KIND).map(string);
                link.is_backup = info(INFO_SLAVE_KIND).is_some_and(|name| string(name) == "bond")
                    && info(INFO_SLAVE_DATA).is_some_and(|data| {
                        attributes(data)
                            .any(|(kind, state)| kind == BOND_SLAVE_STATE && state == [BACKUP])
                    });
            }
            libc::IFLA_STATS64 => {
                link.received_dropped = counter(payload, STATS64_RX_DROPPED);
                link.sent_dropped = counter(payload, STATS64_TX_DROPPED);
                link.received_packets = counter(payload, STATS64_RX_PACKETS);
                link.sent_packets = counter(payload, STATS64_TX_PACKETS);
                link.received_bytes = counter(payload, STATS64_RX_BYTES);
                link.sent_bytes = counter(payload, STATS64_TX_BYTES);
            }
            _ => {}
        }
    }
    Some(link)
}

fn counter(statistics: &[u8], position: usize) -> u64 {
    let field = statistics.get(position * 8..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// `struct ifinfomsg`.
pub(super) fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn naming(error: io::Error, interface: &str) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENODEV) => {
            io::Error::new(io::ErrorKind::NotFound, format!("no network interface '{interface}'"))
        }
        _ => error,
    }
}
