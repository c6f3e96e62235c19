//! Reading and rewriting the parts of IPv4 packets that a NAT touches
//! (RFC 791, 792, 768, 9293), with checksums adjusted in place (RFC 1624).

use braid_inner::checksum;
use std::net::{Ipv4Addr, SocketAddrV4};

/// How a NAT distinguishes flows, besides their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    /// ICMP echo; its identifier is used as the port.
    Echo,
}

/// One of a packet's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// The fields of an IPv4 header that matter here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) protocol: u8,
    pub(super) identification: u16,
    /// In units of eight bytes.
    pub(super) fragment_offset: u16,
    pub(super) more_fragments: bool,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Header {
    /// `None` unless `packet` begins with a whole IPv4 header.
    pub(super) fn read(packet: &[u8]) -> Option<Header> {
        let first = *packet.first()?;
        let length = usize::from(first & 0x0f) * 4;
        if first >> 4 != 4 || length < 20 || packet.len() < length {
            return None;
        }
        let fragment = read_u16(packet, 6)?;
        Some(Header {
            length,
            protocol: *packet.get(9)?,
            identification: read_u16(packet, 4)?,
            fragment_offset: fragment & 0x1fff,
            more_fragments: fragment & 0x2000 != 0,
            source: read_address(packet, 12)?,
            destination: read_address(packet, 16)?,
        })
    }

    pub(super) fn address(&self, side: Side) -> Ipv4Addr {
        match side {
            Side::Source => self.source,
            Side::Destination => self.destination,
        }
    }
}

/// The payload of an unfragmented packet or a first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// TCP, UDP or an ICMP echo.
    Flow(Protocol),
    /// An ICMP error; the packet it is about begins at this offset.
    Error { about: usize },
    /// Something without ports.
    Other,
}

pub(super) fn payload(packet: &[u8], header: &Header) -> Payload {
    match header.protocol {
        TCP => Payload::Flow(Protocol::Tcp),
        UDP => Payload::Flow(Protocol::Udp),
        ICMP => match packet.get(header.length) {
            Some(0 | 8) => Payload::Flow(Protocol::Echo),
            // Destination unreachable, time exceeded, parameter problem.
            Some(3 | 11 | 12) => Payload::Error { about: header.length + 8 },
            _ => Payload::Other,
        },
        _ => Payload::Other,
    }
}

/// An endpoint of a packet with ports; the identifier of an echo on both sides.
pub(super) fn endpoint(
    packet: &[u8],
    header: &Header,
    protocol: Protocol,
    side: Side,
) -> Option<SocketAddrV4> {
    let port = read_u16(packet, header.length + port_offset(protocol, side))?;
    Some(SocketAddrV4::new(header.address(side), port))
}

/// Replaces an endpoint and adjusts every checksum that is present; a packet quoted in an ICMP
/// error may be cut off before it.
pub(super) fn rewrite_endpoint(
    packet: &mut [u8],
    header: &Header,
    protocol: Protocol,
    side: Side,
    new: SocketAddrV4,
) {
    let Some(old) = endpoint(packet, header, protocol, side) else { return };
    rewrite_address(packet, header, side, *new.ip());
    write_u16(packet, header.length + port_offset(protocol, side), new.port());
    let field = header.length
        + match protocol {
            Protocol::Tcp => 16,
            Protocol::Udp => 6,
            Protocol::Echo => 2,
        };
    let Some(sum) = read_u16(packet, field) else { return };
    // UDP without a checksum stays that way.
    if protocol == Protocol::Udp && sum == 0 {
        return;
    }
    let mut adjusted = adjust(sum, &[old.port()], &[new.port()]);
    if protocol != Protocol::Echo {
        // The pseudo-header contains the address.
        adjusted = adjust(adjusted, &words(*old.ip()), &words(*new.ip()));
    }
    if protocol == Protocol::Udp && adjusted == 0 {
        adjusted = 0xffff;
    }
    write_u16(packet, field, adjusted);
}

/// Replaces an address and adjusts only the header's checksum: enough for a fragment that isn't the
/// first.
pub(super) fn rewrite_address(packet: &mut [u8], header: &Header, side: Side, new: Ipv4Addr) {
    let at = if side == Side::Source { 12 } else { 16 };
    if let Some(field) = packet.get_mut(at..at + 4) {
        field.copy_from_slice(&new.octets());
    }
    if let Some(sum) = read_u16(packet, 10) {
        write_u16(packet, 10, adjust(sum, &words(header.address(side)), &words(new)));
    }
}

/// Recomputes an ICMP message's checksum after its quoted packet changed.
pub(super) fn refresh_icmp_checksum(packet: &mut [u8], header: &Header) {
    let at = header.length + 2;
    write_u16(packet, at, 0);
    let message = packet.get(header.length..).unwrap_or_default();
    let sum = !checksum::sum(message);
    write_u16(packet, at, sum);
}

fn adjust(sum: u16, old: &[u16], new: &[u16]) -> u16 {
    old.iter().zip(new).fold(sum, |sum, (&old, &new)| checksum::update(sum, old, new))
}

fn words(address: Ipv4Addr) -> [u16; 2] {
    let [a, b, c, d] = address.octets();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

fn port_offset(protocol: Protocol, side: Side) -> usize {
    match (protocol, side) {
        (Protocol::Echo, _) => 4,
        (_, Side::Source) => 0,
        (_, Side::Destination) => 2,
    }
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let field: [u8; 2] = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(u16::from_be_bytes(field))
}

fn read_address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let field: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(Ipv4Addr::from(field))
}

fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
