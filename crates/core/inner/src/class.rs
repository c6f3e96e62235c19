//! What a packet is worth, told by looking at it alone. How much of a class is
//! sent, and how that changes over time, is the scheduler's business.

use crate::headers::{Fragment, Headers, Ip, be16, protocol};
use ipnet::IpNet;
use std::ops::RangeInclusive;

/// How a packet wants to be treated.
///
/// The first rule that fits decides:
///
/// | rule | class |
/// |---|---|
/// | ICMP, ICMPv6 (with neighbour discovery), IGMP | `Precious` |
/// | ARP, RARP, LLDP, EAPOL, slow protocols, PPPoE discovery, 802.3 LLC (STP) | `Precious` |
/// | DSCP EF, VOICE-ADMIT, CS5, CS6, AF41, AF42, AF43 | `Realtime` |
/// | a fragment | `Bulk` |
/// | TCP SYN, RST; FIN with at most 128 bytes | `Precious` |
/// | UDP of DHCP (67, 68, 546, 547), NTP (123) | `Precious` |
/// | DNS (53, 853, 5353) by UDP, at most 1232 bytes; by TCP, 1 to 512 bytes | `Precious` |
/// | UDP in an IP packet of at most 400 bytes; UDP that looks like RTP | `Realtime` |
/// | TCP without payload | `PureAck` |
/// | TCP with at most 128 bytes | `Interactive` |
/// | anything else | `Bulk` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Losing it costs seconds: worth a copy on a second path.
    Precious,
    /// Late is lost: voice, video calls, games.
    Realtime,
    /// A TCP acknowledgement without payload.
    PureAck,
    /// Small TCP segments: keystrokes, requests.
    Interactive,
    /// The rest.
    Bulk,
}

/// Longest UDP/IP packet taken for real-time traffic, in bytes: 20 ms of any
/// voice codec and most game updates stay below.
const REALTIME_PACKET: usize = 400;
/// Longest TCP payload of an interactive segment, in bytes.
const INTERACTIVE_PAYLOAD: usize = 128;
/// DNS over UDP stays below (DNS flag day 2020).
const DNS_UDP_PAYLOAD: usize = 1232;
/// A DNS question or usual answer over TCP or TLS stays below.
const DNS_TCP_PAYLOAD: usize = 512;

const DNS_PORTS: [u16; 3] = [53, 853, 5353];
const DHCP_PORTS: [u16; 4] = [67, 68, 546, 547];
const NTP_PORT: u16 = 123;
/// IPsec NAT traversal: random bytes that may look like RTP.
const IPSEC_NAT_PORT: u16 = 4500;

impl Class {
    /// The class of a packet; see the table above.
    pub fn of(bytes: &[u8], headers: &Headers) -> Class {
        match (&headers.ip, &headers.ethernet) {
            (Some(ip), _) => of_ip(bytes, headers, ip),
            (None, Some(ethernet)) => of_ethertype(ethernet.ethertype),
            (None, None) => Class::Bulk,
        }
    }
}

fn of_ip(bytes: &[u8], headers: &Headers, ip: &Ip) -> Class {
    match ip.protocol {
        protocol::ICMP | protocol::ICMPV6 | protocol::IGMP => Class::Precious,
        _ if realtime_dscp(ip.dscp()) => Class::Realtime,
        _ if ip.fragment != Fragment::Whole => Class::Bulk,
        protocol::TCP => of_tcp(bytes, headers, ip),
        protocol::UDP => of_udp(bytes, headers, ip),
        _ => Class::Bulk,
    }
}

/// EF, VOICE-ADMIT (RFC 5865), CS5, CS6, AF41..AF43 (RFC 4594).
fn realtime_dscp(dscp: u8) -> bool {
    matches!(dscp, 46 | 44 | 40 | 48 | 34 | 36 | 38)
}

fn of_tcp(bytes: &[u8], headers: &Headers, ip: &Ip) -> Class {
    const FIN: u16 = 0x01;
    const SYN: u16 = 0x02;
    const RST: u16 = 0x04;
    let Some(field) = be16(bytes, ip.transport + 12) else { return Class::Bulk };
    let header_len = usize::from(field >> 12) * 4;
    let payload = ip.end.saturating_sub(ip.transport + header_len);
    if field & (SYN | RST) != 0 || field & FIN != 0 && payload <= INTERACTIVE_PAYLOAD {
        return Class::Precious;
    }
    match payload {
        0 => Class::PureAck,
        1..=DNS_TCP_PAYLOAD if either_port(bytes, headers, &DNS_PORTS) => Class::Precious,
        1..=INTERACTIVE_PAYLOAD => Class::Interactive,
        _ => Class::Bulk,
    }
}

fn of_udp(bytes: &[u8], headers: &Headers, ip: &Ip) -> Class {
    let payload = ip.end.saturating_sub(ip.transport + 8);
    if either_port(bytes, headers, &DHCP_PORTS)
        || either_port(bytes, headers, &[NTP_PORT])
        || payload <= DNS_UDP_PAYLOAD && either_port(bytes, headers, &DNS_PORTS)
    {
        Class::Precious
    } else if ip.end - ip.start <= REALTIME_PACKET || looks_like_rtp(bytes, headers, ip) {
        Class::Realtime
    } else {
        Class::Bulk
    }
}

fn either_port(bytes: &[u8], headers: &Headers, wanted: &[u16]) -> bool {
    headers.ports(bytes).is_some_and(|(src, dst)| wanted.contains(&src) || wanted.contains(&dst))
}

/// RFC 3550, section 5.1, as calls send it: version 2, no padding, no CSRC; a
/// payload type of the table or the dynamic range (0..=34, 96..=127); one
/// datagram. RFC 9443 keeps QUIC, STUN and DTLS away from these first bytes.
fn looks_like_rtp(bytes: &[u8], headers: &Headers, ip: &Ip) -> bool {
    const LONGEST_DATAGRAM: usize = 1500;
    let Some(field) = be16(bytes, ip.transport + 8) else { return false };
    ip.end - ip.start <= LONGEST_DATAGRAM
        && field & 0xef00 == 0x8000
        && matches!(field & 0x7f, 0..=34 | 96..=127)
        && !either_port(bytes, headers, &[IPSEC_NAT_PORT])
}

fn of_ethertype(ethertype: u16) -> Class {
    match ethertype {
        // ARP, RARP, slow protocols (LACP), PPPoE discovery, EAPOL, LLDP.
        0x0806 | 0x8035 | 0x8809 | 0x8863 | 0x888e | 0x88cc => Class::Precious,
        0..0x0600 => Class::Precious,
        _ => Class::Bulk,
    }
}

/// Number of a class that the user named in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassIndex(pub u16);

/// One line of the config: packets that fit all conditions given belong to
/// `class`. A condition on ports fits only packets that have ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// DSCP, 0..=63.
    pub dscp: Option<u8>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Source ports.
    pub src_port: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub dst_port: Option<RangeInclusive<u16>>,
    /// Source prefix.
    pub src: Option<IpNet>,
    /// Destination prefix.
    pub dst: Option<IpNet>,
    /// The class of what fits.
    pub class: ClassIndex,
}

/// The rules of a config, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRules(pub Vec<ClassRule>);

impl ClassRule {
    /// Fits every IP packet; a start for narrower rules.
    pub fn any(class: ClassIndex) -> ClassRule {
        ClassRule {
            dscp: None,
            protocol: None,
            src_port: None,
            dst_port: None,
            src: None,
            dst: None,
            class,
        }
    }

    /// Whether an IP packet fits; other frames never do.
    pub fn fits(&self, bytes: &[u8], headers: &Headers) -> bool {
        let Some(ip) = &headers.ip else { return false };
        let ports = || headers.ports(bytes);
        self.dscp.is_none_or(|dscp| dscp == ip.dscp())
            && self.protocol.is_none_or(|protocol| protocol == ip.protocol)
            && self.src.is_none_or(|prefix| prefix.contains(&ip.src))
            && self.dst.is_none_or(|prefix| prefix.contains(&ip.dst))
            && self
                .src_port
                .as_ref()
                .is_none_or(|range| ports().is_some_and(|(src, _)| range.contains(&src)))
            && self
                .dst_port
                .as_ref()
                .is_none_or(|range| ports().is_some_and(|(_, dst)| range.contains(&dst)))
    }
}

impl ClassRules {
    /// The class of the first rule that fits.
    pub fn class_of(&self, bytes: &[u8], headers: &Headers) -> Option<ClassIndex> {
        self.0.iter().find(|rule| rule.fits(bytes, headers)).map(|rule| rule.class)
    }
}
