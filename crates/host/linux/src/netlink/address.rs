//! Addresses of interfaces (`RTM_*ADDR`).

use super::message::{Request, attributes, u32_at};
use super::{Netlink, family, ip, octets};
use ipnet::IpNet;
use std::io;
use std::time::Duration;

/// `IFA_FLAGS` of linux/if_addr.h and what is read of it.
const IFA_FLAGS: u16 = 8;
const FLAG_NO_DAD: u32 = 0x02;
const FLAG_TEMPORARY: u32 = 0x01;
const FLAG_DAD_FAILED: u32 = 0x08;
const FLAG_DEPRECATED: u32 = 0x20;
const FLAG_TENTATIVE: u32 = 0x40;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's number.
    pub interface: u32,
    /// The address and the length of its network's prefix.
    pub net: IpNet,
    /// Routable beyond the link (`scope global`).
    pub global: bool,
    /// May be used to send from: neither tentative nor deprecated, duplicate
    /// or a temporary one (RFC 8981).
    pub preferred: bool,
    /// Remaining lifetime of an address from DHCP or a router advertisement. `None` for a permanent
    /// one.
    pub valid_for: Option<Duration>,
}

impl Netlink {
    /// All addresses of the namespace.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let request = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP).fixed(&[0; 8]);
        let mut addresses = Vec::new();
        self.query(request, |kind, body| {
            if kind == libc::RTM_NEWADDR {
                addresses.extend(parse(body));
            }
        })?;
        Ok(addresses)
    }

    /// Adds an address to an interface, usable at once (no duplicate address detection).
    ///
    /// # Errors
    /// `AlreadyExists` when the interface has it.
    pub fn add_address(&mut self, interface: u32, net: IpNet) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = address(libc::RTM_NEWADDR, flags, interface, net);
        self.change(request.u32(IFA_FLAGS, FLAG_NO_DAD))
    }

    /// Removes an address from an interface.
    ///
    /// # Errors
    /// `AddrNotAvailable` when the interface doesn't have it.
    pub fn delete_address(&mut self, interface: u32, net: IpNet) -> io::Result<()> {
        self.change(address(libc::RTM_DELADDR, 0, interface, net))
    }
}

/// Reads the body of an `RTM_NEWADDR` or `RTM_DELADDR`.
pub(super) fn parse(body: &[u8]) -> Option<Address> {
    let header = body.first_chunk::<8>()?;
    let (mut address, mut local, mut flags) = (None, None, u32::from(header[2]));
    let mut valid_for = None;
    for (kind, payload) in attributes(body.get(8..)?) {
        match kind {
            libc::IFA_ADDRESS => address = ip(payload),
            libc::IFA_LOCAL => local = ip(payload),
            IFA_FLAGS => flags = u32_at(payload, 0)?,
            // struct ifa_cacheinfo: seconds preferred, seconds valid; all bits set for a permanent
            // address.
            libc::IFA_CACHEINFO => {
                let seconds = u32_at(payload, 4).filter(|seconds| *seconds != u32::MAX);
                valid_for = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            }
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the address of the other end.
    let net = IpNet::new(local.or(address)?, header[1]).ok()?;
    let unusable = FLAG_TENTATIVE | FLAG_DEPRECATED | FLAG_DAD_FAILED | FLAG_TEMPORARY;
    // IFA_F_TEMPORARY and IFA_F_SECONDARY are the same bit; for IPv4 it is harmless.
    let unusable = if net.addr().is_ipv4() { FLAG_DEPRECATED } else { unusable };
    Some(Address {
        interface: u32_at(body, 4)?,
        net,
        global: header[3] == libc::RT_SCOPE_UNIVERSE,
        preferred: flags & unusable == 0,
        valid_for,
    })
}

fn address(kind: u16, flags: libc::c_int, interface: u32, net: IpNet) -> Request {
    // struct ifaddrmsg: family, prefix length, flags, scope, interface.
    let mut header = [0; 8];
    header[0] = family(net.addr());
    header[1] = net.prefix_len();
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let octets = octets(net.addr());
    Request::new(kind, flags)
        .fixed(&header)
        .attribute(libc::IFA_LOCAL, &octets)
        .attribute(libc::IFA_ADDRESS, &octets)
}
