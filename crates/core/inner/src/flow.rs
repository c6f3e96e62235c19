//! Which packets belong together: flow keys for ordering and fair queueing,
//! and the transmit hash policies of the kernel's bonding driver.

use crate::headers::{Fragment, Headers, Ip, Layer, be16, be32, protocol};
use siphasher::sip::SipHasher13;
use std::net::IpAddr;

/// Flow hash of a packet: the [`FlowKey`] through SipHash-1-3, so that nobody
/// outside can aim at a bucket without knowing `key`.
pub fn flow_hash(bytes: &[u8], layer: Layer, key: &HashKey) -> u64 {
    flow_key(bytes, &Headers::parse(bytes, layer)).hash(key)
}

/// The flow that a packet belongs to.
///
/// All fragments of a packet, and nothing but fragments, get
/// [`Selector::None`] in place of their ports: a later fragment has none, and
/// the pieces must stay together.
pub fn flow_key(bytes: &[u8], headers: &Headers) -> FlowKey {
    match (&headers.ip, &headers.ethernet) {
        (Some(ip), _) => FlowKey::Ip {
            src: ip.src,
            dst: ip.dst,
            protocol: ip.protocol,
            selector: Selector::of(bytes, headers, ip),
        },
        (None, Some(ethernet)) => FlowKey::Ethernet {
            src: ethernet.src,
            dst: ethernet.dst,
            vlan: ethernet.vlan,
            ethertype: if ethernet.ethertype < 0x0600 { 0 } else { ethernet.ethertype },
        },
        (None, None) => FlowKey::Unreadable,
    }
}

/// Secret key of the flow hash; make one at random per start.
#[derive(Clone, Copy)]
pub struct HashKey(u64, u64);

/// What all packets of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKey {
    /// An IP packet, bare or in a frame.
    Ip {
        /// Source address.
        src: IpAddr,
        /// Destination address.
        dst: IpAddr,
        /// Transport protocol number.
        protocol: u8,
        /// What tells flows of one protocol between two hosts apart.
        selector: Selector,
    },
    /// A frame of another protocol (ARP, PPPoE, ...).
    Ethernet {
        /// Source MAC address.
        src: [u8; 6],
        /// Destination MAC address.
        dst: [u8; 6],
        /// Outermost VLAN id.
        vlan: Option<u16>,
        /// EtherType; 0 for 802.3 frames, which have a length there.
        ethertype: u16,
    },
    /// Neither an IP packet nor a whole Ethernet header.
    Unreadable,
}

/// What tells flows of one protocol between two hosts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Nothing: the flow is the 3-tuple (fragments, other protocols).
    None,
    /// TCP, UDP, UDP-Lite, SCTP, DCCP.
    Ports {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
    /// Security parameter index of ESP and AH.
    Spi(u32),
    /// Key of GRE (RFC 2890).
    GreKey(u32),
    /// Identifier of ICMP and ICMPv6 echo.
    Echo(u16),
}

/// Transmit hash policies of the kernel's bonding driver, with the formulas of
/// Documentation/networking/bonding.rst (`xmit_hash_policy`) and, where that
/// leaves byte order open, the values of a little-endian kernel.
///
/// Without MAC addresses ([`Layer::L3`]), `Layer2` takes the last byte of both
/// IP addresses instead of the last byte of both MACs: still one value for a
/// pair of hosts. In `Layer23` the MACs then simply count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BondingHash {
    /// MAC addresses and EtherType.
    Layer2,
    /// And IP addresses.
    Layer23,
    /// IP addresses and ports (ICMP echo: type, code and identifier).
    Layer34,
}

impl HashKey {
    /// From 16 random bytes.
    pub fn new(bytes: [u8; 16]) -> HashKey {
        let value = u128::from_le_bytes(bytes);
        HashKey(value as u64, (value >> 64) as u64)
    }
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl FlowKey {
    /// That of the answers, where the flow can be told by it: its own for those of ESP,
    /// AH and GRE, which have a number for each direction.
    pub fn reversed(self) -> FlowKey {
        match self {
            FlowKey::Ip { src, dst, protocol, selector } => {
                let selector = match selector {
                    Selector::Ports { src, dst } => Selector::Ports { src: dst, dst: src },
                    other => other,
                };
                FlowKey::Ip { src: dst, dst: src, protocol, selector }
            }
            FlowKey::Ethernet { src, dst, vlan, ethertype } => {
                FlowKey::Ethernet { src: dst, dst: src, vlan, ethertype }
            }
            FlowKey::Unreadable => self,
        }
    }

    /// Keyed hash of the key.
    pub fn hash(&self, key: &HashKey) -> u64 {
        let mut text = Serialised::new();
        match *self {
            FlowKey::Ip { src, dst, protocol, selector } => {
                // The lengths differ between the variants of each part or its
                // tag does, so no two keys serialise alike.
                text.push([selector.tag(), protocol]);
                match src {
                    IpAddr::V4(address) => text.push(address.octets()),
                    IpAddr::V6(address) => text.push(address.octets()),
                }
                match dst {
                    IpAddr::V4(address) => text.push(address.octets()),
                    IpAddr::V6(address) => text.push(address.octets()),
                }
                text.push(selector.value().to_be_bytes());
            }
            FlowKey::Ethernet { src, dst, vlan, ethertype } => {
                text.push([0x80]);
                text.push(src);
                text.push(dst);
                text.push(vlan.unwrap_or(u16::MAX).to_be_bytes());
                text.push(ethertype.to_be_bytes());
            }
            FlowKey::Unreadable => text.push([0x81]),
        }
        SipHasher13::new_with_keys(key.0, key.1).hash(text.bytes())
    }
}

/// A [`FlowKey`] as bytes, on the stack.
struct Serialised {
    buffer: [u8; 40],
    len: usize,
}

impl Serialised {
    fn new() -> Serialised {
        Serialised { buffer: [0; 40], len: 0 }
    }

    fn push<const N: usize>(&mut self, part: [u8; N]) {
        if let Some(room) = self.buffer.get_mut(self.len..self.len + N) {
            room.copy_from_slice(&part);
            self.len += N;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

impl Selector {
    fn of(bytes: &[u8], headers: &Headers, ip: &Ip) -> Selector {
        if ip.fragment != Fragment::Whole {
            return Selector::None;
        }
        let at = ip.transport;
        let found = match ip.protocol {
            protocol::ESP => be32(bytes, at).map(Selector::Spi),
            protocol::AH => be32(bytes, at + 4).map(Selector::Spi),
            protocol::GRE => gre_key(bytes, at).map(Selector::GreKey),
            protocol::ICMP | protocol::ICMPV6 => echo_identifier(bytes, ip).map(Selector::Echo),
            _ => headers.ports(bytes).map(|(src, dst)| Selector::Ports { src, dst }),
        };
        found.unwrap_or(Selector::None)
    }

    fn tag(self) -> u8 {
        match self {
            Selector::None => 0,
            Selector::Ports { .. } => 1,
            Selector::Spi(_) => 2,
            Selector::GreKey(_) => 3,
            Selector::Echo(_) => 4,
        }
    }

    fn value(self) -> u32 {
        match self {
            Selector::None => 0,
            Selector::Ports { src, dst } => u32::from(src) << 16 | u32::from(dst),
            Selector::Spi(value) | Selector::GreKey(value) => value,
            Selector::Echo(identifier) => u32::from(identifier),
        }
    }
}

/// RFC 2890: flags C 0x8000 (checksum, 4 bytes), K 0x2000 (key); version 0.
/// Version 1 is PPTP (RFC 2637), whose key field holds length and call id: the
/// call id alone tells the flow.
fn gre_key(bytes: &[u8], at: usize) -> Option<u32> {
    let flags = be16(bytes, at)?;
    if flags & 0x2000 == 0 {
        return None;
    }
    match flags & 7 {
        0 => be32(bytes, at + if flags & 0x8000 != 0 { 8 } else { 4 }),
        1 => be16(bytes, at + 6).map(u32::from),
        _ => None,
    }
}

fn echo_identifier(bytes: &[u8], ip: &Ip) -> Option<u16> {
    let kind = *bytes.get(ip.transport)?;
    let echo = match ip.protocol {
        protocol::ICMP => matches!(kind, 0 | 8),
        _ => matches!(kind, 128 | 129),
    };
    be16(bytes, ip.transport + 4).filter(|_| echo)
}

impl BondingHash {
    /// The policy's hash of a packet; the slave is this modulo their number.
    pub fn hash(self, bytes: &[u8], headers: &Headers) -> u32 {
        let macs = match (&headers.ethernet, &headers.ip) {
            (Some(ethernet), _) => {
                u32::from(ethernet.src[5] ^ ethernet.dst[5]) ^ u32::from(ethernet.ethertype)
            }
            (None, Some(ip)) => {
                let hosts = match self {
                    BondingHash::Layer2 => last_byte(ip.src) ^ last_byte(ip.dst),
                    BondingHash::Layer23 | BondingHash::Layer34 => 0,
                };
                u32::from(hosts) ^ u32::from(ip.version.ethertype())
            }
            (None, None) => 0,
        };
        match (self, &headers.ip) {
            (BondingHash::Layer2, _) | (_, None) => macs,
            (BondingHash::Layer23, Some(ip)) => mix(macs, ip),
            // The lowest bit goes: clients like even ports.
            (BondingHash::Layer34, Some(ip)) => mix(port_word(bytes, headers, ip), ip) >> 1,
        }
    }
}

fn mix(hash: u32, ip: &Ip) -> u32 {
    let hash = hash ^ address_word(ip.src) ^ address_word(ip.dst);
    let hash = hash ^ hash >> 16;
    hash ^ hash >> 8
}

/// The first four bytes of the transport header where they are ports; for
/// ICMP type, code and echo identifier; 0 in fragments.
fn port_word(bytes: &[u8], headers: &Headers, ip: &Ip) -> u32 {
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
    let icmp = matches!(ip.protocol, protocol::ICMP | protocol::ICMPV6);
    let field = if icmp && ip.fragment == Fragment::Whole {
        word(ip.transport).map(|[kind, code, ..]| {
            let [high, low] = echo_identifier(bytes, ip).unwrap_or(0).to_be_bytes();
            [kind, code, high, low]
        })
    } else {
        headers.ports(bytes).and_then(|_| word(ip.transport))
    };
    u32::from_le_bytes(field.unwrap_or([0; 4]))
}

/// An IPv6 address is folded by XOR of its words (`ipv6_addr_hash`).
fn address_word(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => u32::from_le_bytes(address.octets()),
        IpAddr::V6(address) => {
            let value = u128::from_le_bytes(address.octets());
            let half = (value as u64) ^ (value >> 64) as u64;
            (half as u32) ^ (half >> 32) as u32
        }
    }
}

fn last_byte(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    }
}
