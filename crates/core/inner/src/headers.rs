//! Where the headers of a packet are: one bounded walk over Ethernet, VLAN
//! tags, IPv4/IPv6 and extension headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// IP packets (TUN).
    L3,
    /// Ethernet frames (TAP).
    L2,
}

/// The headers of one packet, as far as they could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Always present on a frame of at least 14 bytes in [`Layer::L2`].
    pub ethernet: Option<Ethernet>,
    /// Present when an IP header could be read whole.
    pub ip: Option<Ip>,
}

/// The Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Source MAC address.
    pub src: [u8; 6],
    /// Destination MAC address.
    pub dst: [u8; 6],
    /// VLAN id of the outermost tag (802.1Q, 802.1ad).
    pub vlan: Option<u16>,
    /// EtherType after all tags; below 0x0600 it is an 802.3 length.
    pub ethertype: u16,
    /// Bytes of the header, tags counted.
    pub len: usize,
}

/// The IP header and where it leads. Offsets count from the packet's first
/// byte and are at most the length of the bytes parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Which IP.
    pub version: IpVersion,
    /// Source address.
    pub src: IpAddr,
    /// Destination address, as in the fixed header.
    pub dst: IpAddr,
    /// The byte of DSCP and ECN.
    pub traffic_class: u8,
    /// The transport protocol: what follows the last extension header walked.
    /// In an IPv6 fragment the Next Header of the Fragment header, so that it
    /// is the same in every fragment.
    pub protocol: u8,
    /// Fragment or whole packet.
    pub fragment: Fragment,
    /// Where the IP header starts.
    pub start: usize,
    /// Where the transport header starts.
    pub transport: usize,
    /// Where the packet ends by its own length field, or the end of the bytes
    /// when the field claims more than there is.
    pub end: usize,
}

/// Which IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Whether a packet is a piece of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// A whole packet; also an IPv6 atomic fragment (RFC 6946).
    Whole,
    /// The fragment at offset 0.
    First,
    /// A fragment at another offset: no transport header.
    Later,
}

pub(crate) mod protocol {
    pub const ICMP: u8 = 1;
    pub const IGMP: u8 = 2;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AH: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DCCP: u8 = 33;
    pub const SCTP: u8 = 132;
    pub const UDP_LITE: u8 = 136;
}

pub(crate) mod ethertype {
    pub const IPV4: u16 = 0x0800;
    pub const IPV6: u16 = 0x86dd;
    pub const VLAN: u16 = 0x8100;
    pub const QINQ: u16 = 0x88a8;
    pub const OLD_QINQ: u16 = 0x9100;
}

/// Tags walked in one frame; more is nobody's network.
const MAX_VLAN_TAGS: usize = 4;
/// Extension headers walked in one packet. Linux itself allows 8 each of
/// hop-by-hop and destination options, but real packets carry one or two.
const MAX_EXTENSION_HEADERS: usize = 8;

impl Headers {
    /// Reads what can be read; never fails: what is cut off or unknown is
    /// simply absent. [`check`](crate::check) is the strict reader.
    pub fn parse(bytes: &[u8], layer: Layer) -> Headers {
        match layer {
            Layer::L3 => Headers { ethernet: None, ip: Ip::parse(bytes, 0) },
            Layer::L2 => match Ethernet::parse(bytes) {
                None => Headers { ethernet: None, ip: None },
                Some(ethernet) => {
                    let ip = match ethernet.ethertype {
                        ethertype::IPV4 | ethertype::IPV6 => Ip::parse(bytes, ethernet.len)
                            .filter(|ip| ip.version.ethertype() == ethernet.ethertype),
                        _ => None,
                    };
                    Headers { ethernet: Some(ethernet), ip }
                }
            },
        }
    }

    /// Source and destination port of TCP, UDP, UDP-Lite, SCTP and DCCP; none
    /// in fragments.
    pub fn ports(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        let ip = self.ip.as_ref().filter(|ip| ip.fragment == Fragment::Whole)?;
        match ip.protocol {
            protocol::TCP
            | protocol::UDP
            | protocol::UDP_LITE
            | protocol::SCTP
            | protocol::DCCP => Some((be16(bytes, ip.transport)?, be16(bytes, ip.transport + 2)?)),
            _ => None,
        }
    }

    /// Where the payload of a TCP or UDP packet starts, which is the length of
    /// all its headers. `None` for other protocols, fragments and cut-off
    /// headers.
    pub fn payload_start(&self, bytes: &[u8]) -> Option<usize> {
        let ip = self.ip.as_ref().filter(|ip| ip.fragment == Fragment::Whole)?;
        let len = match ip.protocol {
            protocol::TCP => usize::from(*bytes.get(ip.transport + 12)? >> 4) * 4,
            protocol::UDP => 8,
            _ => return None,
        };
        let shortest = if ip.protocol == protocol::TCP { 20 } else { 8 };
        let start = ip.transport + len;
        (len >= shortest && start <= ip.end).then_some(start)
    }
}

impl Ethernet {
    fn parse(bytes: &[u8]) -> Option<Ethernet> {
        let (&dst, rest) = bytes.split_first_chunk::<6>()?;
        let (&src, _) = rest.split_first_chunk::<6>()?;
        let mut ethertype = be16(bytes, 12)?;
        let mut len = 14;
        let mut vlan = None;
        for _ in 0..MAX_VLAN_TAGS {
            if !matches!(ethertype, ethertype::VLAN | ethertype::QINQ | ethertype::OLD_QINQ) {
                break;
            }
            let (Some(tag), Some(next)) = (be16(bytes, len), be16(bytes, len + 2)) else { break };
            vlan = vlan.or(Some(tag & 0x0fff));
            ethertype = next;
            len += 4;
        }
        Some(Ethernet { src, dst, vlan, ethertype, len })
    }
}

impl Ip {
    fn parse(bytes: &[u8], start: usize) -> Option<Ip> {
        match bytes.get(start)? >> 4 {
            4 => Ip::parse_v4(bytes, start),
            6 => Ip::parse_v6(bytes, start),
            _ => None,
        }
    }

    fn parse_v4(bytes: &[u8], start: usize) -> Option<Ip> {
        let header = bytes.get(start..)?.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        if header_len < 20 || bytes.len() < start + header_len {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // Flags and offset: bit 0x2000 is "more fragments".
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let transport = start + header_len;
        Some(Ip {
            version: IpVersion::V4,
            src: IpAddr::V4(Ipv4Addr::new(header[12], header[13], header[14], header[15])),
            dst: IpAddr::V4(Ipv4Addr::new(header[16], header[17], header[18], header[19])),
            traffic_class: header[1],
            protocol: header[9],
            fragment: Fragment::new(fragment & 0x1fff != 0, fragment & 0x2000 != 0),
            start,
            transport,
            end: end_by_field(bytes, start, total).max(transport),
        })
    }

    fn parse_v6(bytes: &[u8], start: usize) -> Option<Ip> {
        let header = bytes.get(start..)?.first_chunk::<40>()?;
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (_, addresses) = header.split_at(8);
        let (&src, dst) = addresses.split_first_chunk::<16>()?;
        let &dst = dst.first_chunk::<16>()?;
        let end = end_by_field(bytes, start, 40 + payload);
        let walk = walk_extensions(bytes.get(..end)?, header[6], start + 40);
        Some(Ip {
            version: IpVersion::V6,
            src: IpAddr::V6(Ipv6Addr::from(src)),
            dst: IpAddr::V6(Ipv6Addr::from(dst)),
            traffic_class: header[0] << 4 | header[1] >> 4,
            protocol: walk.protocol,
            fragment: walk.fragment,
            start,
            transport: walk.transport,
            end,
        })
    }

    /// Six bits of DSCP (RFC 2474).
    pub fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }
}

impl IpVersion {
    /// The EtherType of this IP.
    pub fn ethertype(self) -> u16 {
        match self {
            IpVersion::V4 => ethertype::IPV4,
            IpVersion::V6 => ethertype::IPV6,
        }
    }
}

impl Fragment {
    fn new(offset: bool, more: bool) -> Fragment {
        match (offset, more) {
            (false, false) => Fragment::Whole,
            (false, true) => Fragment::First,
            (true, _) => Fragment::Later,
        }
    }
}

struct Walk {
    protocol: u8,
    transport: usize,
    fragment: Fragment,
}

/// RFC 8200, section 4. Stops at the first header that isn't an extension, at
/// a Fragment header of a real fragment, and where the bytes end.
fn walk_extensions(bytes: &[u8], mut next: u8, mut at: usize) -> Walk {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            break;
        }
        let Some(header) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        if next == FRAGMENT {
            let field = u16::from_be_bytes([header[2], header[3]]);
            let fragment = Fragment::new(field & 0xfff8 != 0, field & 1 != 0);
            next = header[0];
            at += 8;
            if fragment != Fragment::Whole {
                return Walk { protocol: next, transport: at, fragment };
            }
        } else {
            let len = (usize::from(header[1]) + 1) * 8;
            if bytes.len() < at + len {
                break;
            }
            next = header[0];
            at += len;
        }
    }
    Walk { protocol: next, transport: at, fragment: Fragment::Whole }
}

fn end_by_field(bytes: &[u8], start: usize, len: usize) -> usize {
    (start + len).min(bytes.len())
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&field| u16::from_be_bytes(field))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&field| u32::from_be_bytes(field))
}
