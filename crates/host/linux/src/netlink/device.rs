//! Virtual devices that engines ask for (linux/if_link.h, linux/if_tunnel.h).

use super::link::{INFO_DATA, INFO_KIND, header};
use super::message::Request;
use super::{Netlink, octets};
use braid_engines::{Bonding, Device, DeviceKind, LacpRate, Monitor, PrimaryReselect};
use std::io;
use std::net::IpAddr;

const BOND_MODE: u16 = 1;
const BOND_MIIMON: u16 = 3;
const BOND_UPDELAY: u16 = 4;
const BOND_DOWNDELAY: u16 = 5;
const BOND_ARP_INTERVAL: u16 = 7;
const BOND_ARP_IP_TARGET: u16 = 8;
const BOND_ARP_VALIDATE: u16 = 9;
const BOND_PRIMARY: u16 = 11;
const BOND_PRIMARY_RESELECT: u16 = 12;
const BOND_XMIT_HASH_POLICY: u16 = 14;
const BOND_RESEND_IGMP: u16 = 15;
const BOND_NUM_PEER_NOTIF: u16 = 16;
const BOND_MIN_LINKS: u16 = 18;
const BOND_PACKETS_PER_SLAVE: u16 = 20;
const BOND_AD_LACP_RATE: u16 = 21;
/// `BOND_ARP_VALIDATE_ALL`.
const ARP_VALIDATE_ALL: u32 = 3;

const GRE_LINK: u16 = 1;
const GRE_IFLAGS: u16 = 2;
const GRE_OFLAGS: u16 = 3;
const GRE_IKEY: u16 = 4;
const GRE_OKEY: u16 = 5;
const GRE_LOCAL: u16 = 6;
const GRE_REMOTE: u16 = 7;
const GRE_TTL: u16 = 8;
const GRE_FLAGS: u16 = 13;
/// `IP6_TNL_F_IGN_ENCAP_LIMIT` of linux/ip6_tunnel.h. Otherwise each packet has an option (RFC
/// 2473, 4.1.1) that costs 8 bytes and, with a limit of 0, forbids further tunnels.
const NO_ENCAPSULATION_LIMIT: u32 = 1;
/// `GRE_KEY`: the header has a key.
const GRE_HAS_KEY: u16 = 0x2000;

const VXLAN_ID: u16 = 1;
const VXLAN_GROUP: u16 = 2;
const VXLAN_LINK: u16 = 3;
const VXLAN_LOCAL: u16 = 4;
const VXLAN_TTL: u16 = 5;
const VXLAN_PORT: u16 = 15;
const VXLAN_GROUP6: u16 = 16;
const VXLAN_LOCAL6: u16 = 17;

/// TTL of the outer packets, the usual default (recommended in RFC 1700).
const TTL: u8 = 64;

impl Netlink {
    /// Creates a device of this kind, down. A WireGuard device gets its keys by [`super::Generic`]
    /// afterwards.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; EOPNOTSUPP when the kernel has no such kind;
    /// `NotFound` when its underlying device doesn't exist.
    pub fn add_device(&mut self, device: &Device, kind: &DeviceKind) -> io::Result<()> {
        let fill: Box<dyn FnOnce(Request) -> Request> = match kind {
            DeviceKind::Bond(bonding) => Box::new(|data| bond(data, bonding)),
            DeviceKind::Gretap { local, remote, key, via } => {
                let via = match via {
                    Some(via) => Some(self.link(via.as_str())?.index),
                    None => None,
                };
                Box::new(move |data| gretap(data, *local, *remote, *key, via))
            }
            DeviceKind::Vxlan { id, local, remote, port, via } => {
                let via = self.link(via.as_str())?.index;
                Box::new(move |data| {
                    let data = data.u32(VXLAN_ID, *id).u32(VXLAN_LINK, via);
                    let data = data.attribute(VXLAN_PORT, &port.to_be_bytes());
                    let data = data.attribute(VXLAN_TTL, &[TTL]);
                    let (own, other) = match local.is_ipv6() {
                        true => (VXLAN_LOCAL6, VXLAN_GROUP6),
                        false => (VXLAN_LOCAL, VXLAN_GROUP),
                    };
                    data.attribute(own, &octets(*local)).attribute(other, &octets(*remote))
                })
            }
            DeviceKind::WireGuard { .. } => Box::new(|data| data),
        };
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWLINK, flags)
            .fixed(&header(0, 0, 0))
            .string(libc::IFLA_IFNAME, device.as_str())
            .nested(libc::IFLA_LINKINFO, |info| {
                info.attribute(INFO_KIND, kind.word().as_bytes()).nested(INFO_DATA, fill)
            });
        self.change(request)
    }

    /// Sets the port that a bond prefers.
    ///
    /// # Errors
    /// `NotFound` when one of them doesn't exist; the kernel's error when the port isn't part of
    /// the bond.
    pub fn set_bond_primary(&mut self, bond: &str, port: &str) -> io::Result<()> {
        let (bond, port) = (self.link(bond)?.index, self.link(port)?.index);
        let request = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(bond, 0, 0)).nested(
            libc::IFLA_LINKINFO,
            |info| {
                info.attribute(INFO_KIND, b"bond")
                    .nested(INFO_DATA, |data| data.u32(BOND_PRIMARY, port))
            },
        );
        self.change(request)
    }
}

fn bond(data: Request, bonding: &Bonding) -> Request {
    let mut data = data.attribute(BOND_MODE, &[bonding.mode.number()]);
    data = match &bonding.monitor {
        Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => data
            .u32(BOND_MIIMON, *interval_ms)
            .u32(BOND_UPDELAY, *up_delay_ms)
            .u32(BOND_DOWNDELAY, *down_delay_ms),
        Monitor::Arp { interval_ms, targets, validate } => {
            let data =
                data.u32(BOND_ARP_INTERVAL, *interval_ms).nested(BOND_ARP_IP_TARGET, |list| {
                    targets
                        .iter()
                        .zip(0_u16..)
                        .fold(list, |list, (target, index)| list.attribute(index, &target.octets()))
                });
            match validate {
                true => data.u32(BOND_ARP_VALIDATE, ARP_VALIDATE_ALL),
                false => data,
            }
        }
    };
    if bonding.mode.hashes() {
        data = data.attribute(BOND_XMIT_HASH_POLICY, &[bonding.hash.number()]);
    }
    if bonding.mode.has_active_port() {
        let reselect = match bonding.primary_reselect {
            PrimaryReselect::Always => 0,
            PrimaryReselect::Better => 1,
            PrimaryReselect::Failure => 2,
        };
        data = data.attribute(BOND_PRIMARY_RESELECT, &[reselect]);
    }
    data = match bonding.mode {
        braid_engines::BondMode::Ieee8023ad => data
            .attribute(BOND_AD_LACP_RATE, &[u8::from(bonding.lacp_rate == LacpRate::Fast)])
            .u32(BOND_MIN_LINKS, bonding.min_links),
        braid_engines::BondMode::BalanceRr => {
            data.u32(BOND_PACKETS_PER_SLAVE, bonding.packets_per_port)
        }
        _ => data,
    };
    data.u32(BOND_RESEND_IGMP, bonding.resend_igmp.into())
        .attribute(BOND_NUM_PEER_NOTIF, &[bonding.peer_notifications])
}

fn gretap(data: Request, local: IpAddr, remote: IpAddr, key: u32, via: Option<u32>) -> Request {
    let data = data
        .attribute(GRE_LOCAL, &octets(local))
        .attribute(GRE_REMOTE, &octets(remote))
        .attribute(GRE_TTL, &[TTL])
        .attribute(GRE_IFLAGS, &GRE_HAS_KEY.to_be_bytes())
        .attribute(GRE_OFLAGS, &GRE_HAS_KEY.to_be_bytes())
        .attribute(GRE_IKEY, &key.to_be_bytes())
        .attribute(GRE_OKEY, &key.to_be_bytes());
    let data = match local.is_ipv6() {
        true => data.u32(GRE_FLAGS, NO_ENCAPSULATION_LIMIT),
        false => data,
    };
    match via {
        Some(index) => data.u32(GRE_LINK, index),
        None => data,
    }
}
