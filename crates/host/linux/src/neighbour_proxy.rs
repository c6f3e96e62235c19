//! Answers IPv6 neighbour solicitations for whole prefixes that are routed
//! elsewhere (RFC 4861; as a proxy, section 7.2.8): many providers expect a
//! server's /64 or /56 on the wire instead of routing it to the server, and the
//! kernel's own proxy wants every single address listed.

#![allow(unsafe_code)]

use crate::netlink::Netlink;
use crate::sys;
use ipnet::Ipv6Net;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Tells the neighbours on a device that some prefixes are reached through us.
pub struct NeighbourProxy {
    device: String,
    index: u32,
    hardware: [u8; 6],
    prefixes: Vec<Ipv6Net>,
    /// Receives packets sent to addresses that aren't ours.
    ear: OwnedFd,
    mouth: OwnedFd,
}

impl NeighbourProxy {
    /// Starts listening; [`Self::answer_all`] answers. Nothing is changed on the host, and dropping
    /// this ends it.
    ///
    /// # Errors
    /// `NotFound` without such a device; `Unsupported` when it isn't Ethernet; `PermissionDenied`
    /// without `CAP_NET_RAW`.
    pub fn open(
        netlink: &mut Netlink,
        device: &str,
        prefixes: Vec<Ipv6Net>,
    ) -> io::Result<NeighbourProxy> {
        let link = netlink.link(device)?;
        let no_ethernet = || {
            let what = "it is not an Ethernet device: there is no neighbour discovery";
            io::Error::new(io::ErrorKind::Unsupported, what)
        };
        Ok(NeighbourProxy {
            device: device.to_owned(),
            index: link.index,
            hardware: link.hardware.ok_or_else(no_ethernet)?,
            prefixes,
            ear: ear(link.index)?,
            mouth: mouth(device)?,
        })
    }

    /// Whether it still matches this device, which may have been recreated or have a new address,
    /// and these prefixes.
    pub fn is_for(&self, netlink: &mut Netlink, device: &str, prefixes: &[Ipv6Net]) -> bool {
        let same = |link: crate::netlink::Link| {
            (link.index, link.hardware) == (self.index, Some(self.hardware))
        };
        self.device == device && self.prefixes == prefixes && netlink.link(device).is_ok_and(same)
    }

    /// Answers all pending solicitations; returns how many there were.
    ///
    /// # Errors
    /// Those of the sockets, such as `NetworkDown`; it may be called again.
    pub fn answer_all(&self) -> io::Result<usize> {
        let mut answered = 0;
        let mut packet = [0; LONGEST];
        loop {
            // SAFETY: pointer and length describe `packet`.
            let read = sys::check_len(unsafe {
                libc::recv(
                    self.ear.as_raw_fd(),
                    packet.as_mut_ptr().cast(),
                    packet.len(),
                    libc::MSG_DONTWAIT,
                )
            });
            let packet = match read {
                Ok(len) => packet.get(..len).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(answered),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let Some(asked) = solicitation(packet) else { continue };
            if self.prefixes.iter().any(|prefix| prefix.contains(&asked.target)) {
                self.answer(&asked)?;
                answered += 1;
            }
        }
    }

    fn answer(&self, asked: &Solicitation) -> io::Result<()> {
        let message = advertisement(asked, self.hardware);
        // SAFETY: all-zero is a valid sockaddr_in6.
        let mut to: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        to.sin6_addr.s6_addr = asked.answer_to().octets();
        to.sin6_scope_id = self.index;
        // SAFETY: both pointers and lengths describe what outlives the call.
        sys::check_len(unsafe {
            libc::sendto(
                self.mouth.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                libc::MSG_DONTWAIT,
                (&raw const to).cast(),
                std::mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t,
            )
        })
        .map(drop)
    }
}

impl AsFd for NeighbourProxy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }
}

/// Longer than any solicitation that is answered; longer packets are truncated.
const LONGEST: usize = 256;
const IPV6_HEADER: usize = 40;
/// Type, code, checksum, reserved or flags, target.
const MESSAGE: usize = 24;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// "Target link-layer address".
const OPTION_TARGET: u8 = 2;
/// The flag "solicited". Not "override": a host that really has the address takes precedence (RFC
/// 4861, section 7.2.8).
const SOLICITED: u8 = 0x40;
/// Only neighbours can send with this hop limit, as routers decrement it.
const HOP_LIMIT: u8 = 255;

/// A neighbour asks who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Its own address; unspecified if it checks whether `target` is free (duplicate address
    /// detection).
    pub from: Ipv6Addr,
    /// The address that is looked for.
    pub target: Ipv6Addr,
}

impl Solicitation {
    /// A host that checks whether an address is free has no address to answer to.
    fn answer_to(&self) -> Ipv6Addr {
        if self.from.is_unspecified() { ALL_NODES } else { self.from }
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Parses a packet from the wire, if it is a solicitation (RFC 4861, 7.1.1).
pub fn solicitation(packet: &[u8]) -> Option<Solicitation> {
    let (header, message) = packet.split_at_checked(IPV6_HEADER)?;
    let &[next_header, hop_limit] = header.get(6..8)?.first_chunk()?;
    let &[kind, code] = message.first_chunk()?;
    let address = |at: usize, bytes: &[u8]| -> Option<Ipv6Addr> {
        Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
    };
    let asks = header.first()? >> 4 == 6
        && i32::from(next_header) == libc::IPPROTO_ICMPV6
        && (hop_limit, kind, code) == (HOP_LIMIT, SOLICITATION, 0);
    let asked = Solicitation { from: address(8, header)?, target: address(8, message)? };
    (asks && !asked.target.is_multicast() && !asked.from.is_multicast()).then_some(asked)
}

/// The answer without its checksum, which the kernel fills in.
pub fn advertisement(asked: &Solicitation, hardware: [u8; 6]) -> [u8; MESSAGE + 8] {
    let mut message = [0; MESSAGE + 8];
    message[0] = ADVERTISEMENT;
    message[4] = if asked.from.is_unspecified() { 0 } else { SOLICITED };
    message[8..24].copy_from_slice(&asked.target.octets());
    message[24] = OPTION_TARGET;
    message[25] = 1;
    message[26..].copy_from_slice(&hardware);
    message
}

/// Solicitations are sent to multicast groups derived from the address, which an IPv6 socket would
/// have to join one by one.
fn ear(index: u32) -> io::Result<OwnedFd> {
    // With protocol 0 it receives nothing until it is bound, so nothing from other devices.
    let fd = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    hear_solicitations_only(&fd)?;
    // SAFETY: all-zero is a valid sockaddr_ll and packet_mreq.
    let (mut address, mut all): (libc::sockaddr_ll, libc::packet_mreq) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    all.mr_ifindex = index as libc::c_int;
    all.mr_type = libc::PACKET_MR_ALLMULTI as libc::c_ushort;
    // SAFETY: pointer and length describe `all`.
    sys::check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const all).cast(),
            std::mem::size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    })?;
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_IPV6 as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: pointer and length describe `address`.
    sys::check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            std::mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(fd)
}

/// A concentrator's whole traffic passes here, so the kernel filters what we read.
fn hear_solicitations_only(fd: &OwnedFd) -> io::Result<()> {
    let step = |code: u32, k: u32, jump_false: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_false,
        k,
    };
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let mut program = [
        step(LOAD_BYTE, 6, 0),
        step(IF_EQUAL, libc::IPPROTO_ICMPV6 as u32, 3),
        step(LOAD_BYTE, IPV6_HEADER as u32, 0),
        step(IF_EQUAL, u32::from(SOLICITATION), 1),
        step(RETURN, LONGEST as u32, 0),
        step(RETURN, 0, 0),
    ];
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: `filter` points to `program`; the kernel copies both.
    sys::check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            std::mem::size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

fn mouth(device: &str) -> io::Result<OwnedFd> {
    let fd =
        sys::socket(libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::IPPROTO_ICMPV6)?;
    sys::set_option_bytes(
        fd.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        device.as_bytes(),
    )?;
    for name in [libc::IPV6_UNICAST_HOPS, libc::IPV6_MULTICAST_HOPS] {
        sys::set_option(&fd, libc::IPPROTO_IPV6, name, HOP_LIMIT.into())?;
    }
    // It only sends: every type is filtered out (RFC 3542, section 3.2).
    sys::set_option_bytes(fd.as_raw_fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, &[0xff; 32])?;
    Ok(fd)
}

/// Of linux/icmpv6.h.
const ICMP6_FILTER: libc::c_int = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: &str, target: &str) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
        packet.extend(from.parse::<Ipv6Addr>().unwrap().octets());
        packet.extend("ff02::1:ff00:7".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend(target.parse::<Ipv6Addr>().unwrap().octets());
        packet
    }

    #[test]
    fn only_whole_solicitations_of_neighbours_are_heard() {
        let whole = packet("fe80::1", "2001:db8::7");
        let asked = solicitation(&whole).unwrap();
        assert_eq!(asked.target, "2001:db8::7".parse::<Ipv6Addr>().unwrap());
        assert_eq!(asked.answer_to(), "fe80::1".parse::<Ipv6Addr>().unwrap());
        for len in 0..whole.len() {
            assert_eq!(solicitation(&whole[..len]), None, "{len} bytes");
        }
        for (at, what) in [(0, "version"), (6, "next header"), (7, "hop limit"), (40, "type")] {
            let mut other = whole.clone();
            other[at] ^= 0x10;
            assert_eq!(solicitation(&other), None, "{what}");
        }
        assert_eq!(solicitation(&packet("fe80::1", "ff02::1")), None);
    }

    #[test]
    fn the_answer_names_target_and_hardware_and_overrides_nobody() {
        let asked = solicitation(&packet("fe80::1", "2001:db8::7")).unwrap();
        let answer = advertisement(&asked, [2, 0, 0, 0, 0, 9]);
        assert_eq!((answer[0], answer[4]), (136, 0x40));
        assert_eq!(answer[8..24], asked.target.octets());
        assert_eq!(answer[24..], [2, 1, 2, 0, 0, 0, 0, 9]);
        let checks_whether_free = solicitation(&packet("::", "2001:db8::7")).unwrap();
        assert_eq!(checks_whether_free.answer_to(), ALL_NODES);
        assert_eq!(advertisement(&checks_whether_free, [0; 6])[4], 0);
    }
}
