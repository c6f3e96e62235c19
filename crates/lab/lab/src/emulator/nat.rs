use super::ipv4::{self, Header, Payload, Protocol, Side};
use braid_units::Time;
use fastrand::Rng;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// RFC 4787, requirement 5: at least two minutes.
const UDP_TIMEOUT: Duration = Duration::from_secs(120);
/// RFC 5382, requirement 5: at least two hours and four minutes.
const TCP_TIMEOUT: Duration = Duration::from_secs(7440);
/// RFC 5508, requirement 2: at least a minute.
const ECHO_TIMEOUT: Duration = Duration::from_secs(60);
/// Half of the ports, so that a random search finds a free one quickly.
const MAX_MAPPINGS: usize = 32_768;
/// Maximum number of peers that may answer through one mapping.
const MAX_PEERS: usize = 1024;
/// First fragments remembered for those that follow.
const MAX_FRAGMENTS: usize = 256;
/// Public ports are chosen above the system ports (RFC 6335).
const FIRST_PORT: u16 = 1024;

/// The provider's translation of a link's IPv4 packets between the home's private address and a
/// public one: endpoint-independent mapping, address- and port-dependent filtering (RFC 4787), so
/// that only hosts to which the home has written get in. It translates TCP, UDP and ICMP echo with
/// their fragments and related ICMP errors; any other protocol is refused. IPv6 passes unchanged.
#[derive(Debug)]
pub struct Nat {
    private: Ipv4Addr,
    public: Ipv4Addr,
    mappings: HashMap<(Protocol, u16), Mapping>,
    /// From the public port to the private one.
    public_ports: HashMap<(Protocol, u16), u16>,
    /// Packets whose first fragment passed.
    fragments: VecDeque<FragmentKey>,
    rng: Rng,
}

#[derive(Debug)]
struct Mapping {
    public_port: u16,
    used: Time,
    peers: HashMap<SocketAddrV4, Time>,
}

#[derive(Debug, PartialEq, Eq)]
struct FragmentKey {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    identification: u16,
}

/// Why a packet doesn't pass the NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatRefusal {
    /// Neither IPv4 nor IPv6, or truncated.
    #[error("not a whole IP packet")]
    Malformed,
    /// A source that isn't the link's, or a destination that isn't the NAT's.
    #[error("an address that doesn't belong to the link")]
    ForeignAddress,
    /// A protocol without ports.
    #[error("a protocol that can't be translated")]
    Protocol,
    /// Nobody inside has written to the sender recently.
    #[error("no mapping")]
    NoMapping,
}

impl Nat {
    /// A NAT between `private` and `public`, its ports drawn from `seed`.
    pub fn new(private: Ipv4Addr, public: Ipv4Addr, seed: u64) -> Self {
        Nat {
            private,
            public,
            mappings: HashMap::new(),
            public_ports: HashMap::new(),
            fragments: VecDeque::new(),
            rng: Rng::with_seed(seed),
        }
    }

    /// The public address.
    pub fn public_address(&self) -> Ipv4Addr {
        self.public
    }

    /// Forgets every mapping and takes another public address.
    pub fn rebind(&mut self, public: Ipv4Addr) {
        self.public = public;
        self.mappings.clear();
        self.public_ports.clear();
        self.fragments.clear();
    }

    /// Translates a packet that leaves the home.
    ///
    /// # Errors
    /// The packet must be dropped; it may have been changed.
    pub fn outbound(&mut self, now: Time, packet: &mut [u8]) -> Result<(), NatRefusal> {
        let Some(header) = self.header(packet)? else { return Ok(()) };
        if header.source != self.private {
            return Err(NatRefusal::ForeignAddress);
        }
        if header.fragment_offset > 0 {
            self.later_fragment(&header)?;
            ipv4::rewrite_address(packet, &header, Side::Source, self.public);
            return Ok(());
        }
        match ipv4::payload(packet, &header) {
            Payload::Flow(protocol) => {
                let (inside, peer) = endpoints(packet, &header, protocol, Side::Source)?;
                let port = self.map(now, protocol, inside.port(), peer);
                self.first_fragment(&header);
                let outside = SocketAddrV4::new(self.public, port);
                ipv4::rewrite_endpoint(packet, &header, protocol, Side::Source, outside);
                Ok(())
            }
            Payload::Error { about } => {
                self.translate_quoted(packet, &header, about, Side::Destination)?;
                ipv4::rewrite_address(packet, &header, Side::Source, self.public);
                Ok(())
            }
            Payload::Other => Err(NatRefusal::Protocol),
        }
    }

    /// Translates a packet that comes from outside.
    ///
    /// # Errors
    /// The packet must be dropped; it may have been changed.
    pub fn inbound(&mut self, now: Time, packet: &mut [u8]) -> Result<(), NatRefusal> {
        let Some(header) = self.header(packet)? else { return Ok(()) };
        if header.destination != self.public {
            return Err(NatRefusal::ForeignAddress);
        }
        if header.fragment_offset > 0 {
            self.later_fragment(&header)?;
            ipv4::rewrite_address(packet, &header, Side::Destination, self.private);
            return Ok(());
        }
        match ipv4::payload(packet, &header) {
            Payload::Flow(protocol) => {
                let (outside, peer) = endpoints(packet, &header, protocol, Side::Destination)?;
                let port = self.admit(now, protocol, outside.port(), peer)?;
                self.first_fragment(&header);
                let inside = SocketAddrV4::new(self.private, port);
                ipv4::rewrite_endpoint(packet, &header, protocol, Side::Destination, inside);
                Ok(())
            }
            Payload::Error { about } => {
                self.translate_quoted(packet, &header, about, Side::Source)?;
                ipv4::rewrite_address(packet, &header, Side::Destination, self.private);
                Ok(())
            }
            Payload::Other => Err(NatRefusal::Protocol),
        }
    }

    /// `None` for IPv6.
    fn header(&self, packet: &[u8]) -> Result<Option<Header>, NatRefusal> {
        if packet.first().is_some_and(|first| first >> 4 == 6) {
            return Ok(None);
        }
        Header::read(packet).map(Some).ok_or(NatRefusal::Malformed)
    }

    /// The public port of a flow from inside; creates a mapping for a new flow.
    fn map(&mut self, now: Time, protocol: Protocol, inside: u16, peer: SocketAddrV4) -> u16 {
        let key = (protocol, inside);
        let expired =
            self.mappings.get(&key).is_some_and(|m| now.since(m.used) > timeout(protocol));
        if expired {
            self.forget(key);
        }
        if !self.mappings.contains_key(&key) {
            self.make_room(now);
            let public_port = self.free_port(protocol);
            self.public_ports.insert((protocol, public_port), inside);
            let mapping = Mapping { public_port, used: now, peers: HashMap::new() };
            self.mappings.insert(key, mapping);
        }
        let Some(mapping) = self.mappings.get_mut(&key) else { return inside };
        mapping.used = now;
        if mapping.peers.len() >= MAX_PEERS && !mapping.peers.contains_key(&peer) {
            forget_oldest(&mut mapping.peers, |&used| used);
        }
        mapping.peers.insert(peer, now);
        mapping.public_port
    }

    /// The private port behind a public one, if `peer` may use it.
    fn admit(
        &mut self,
        now: Time,
        protocol: Protocol,
        outside: u16,
        peer: SocketAddrV4,
    ) -> Result<u16, NatRefusal> {
        let inside = *self.public_ports.get(&(protocol, outside)).ok_or(NatRefusal::NoMapping)?;
        let mapping = self.mappings.get_mut(&(protocol, inside)).ok_or(NatRefusal::NoMapping)?;
        let used = mapping.peers.get_mut(&peer).ok_or(NatRefusal::NoMapping)?;
        if now.since(*used) > timeout(protocol) {
            return Err(NatRefusal::NoMapping);
        }
        *used = now;
        mapping.used = now;
        Ok(inside)
    }

    /// Translates the packet quoted in an ICMP error, which travelled in the opposite direction:
    /// `side` is where it has the inner host.
    fn translate_quoted(
        &mut self,
        packet: &mut [u8],
        header: &Header,
        about: usize,
        side: Side,
    ) -> Result<(), NatRefusal> {
        let quoted = packet.get_mut(about..).ok_or(NatRefusal::Malformed)?;
        let inner = Header::read(quoted).ok_or(NatRefusal::Malformed)?;
        let Payload::Flow(protocol) = ipv4::payload(quoted, &inner) else {
            return Err(NatRefusal::Protocol);
        };
        let ours = ipv4::endpoint(quoted, &inner, protocol, side).ok_or(NatRefusal::Malformed)?;
        let (expected, translated) = match side {
            Side::Source => (
                self.public,
                self.public_ports
                    .get(&(protocol, ours.port()))
                    .map(|&port| SocketAddrV4::new(self.private, port)),
            ),
            Side::Destination => (
                self.private,
                self.mappings
                    .get(&(protocol, ours.port()))
                    .map(|mapping| SocketAddrV4::new(self.public, mapping.public_port)),
            ),
        };
        if *ours.ip() != expected {
            return Err(NatRefusal::ForeignAddress);
        }
        let translated = translated.ok_or(NatRefusal::NoMapping)?;
        ipv4::rewrite_endpoint(quoted, &inner, protocol, side, translated);
        ipv4::refresh_icmp_checksum(packet, header);
        Ok(())
    }

    fn first_fragment(&mut self, header: &Header) {
        if header.more_fragments {
            if self.fragments.len() == MAX_FRAGMENTS {
                self.fragments.pop_front();
            }
            self.fragments.push_back(FragmentKey::of(header));
        }
    }

    fn later_fragment(&self, header: &Header) -> Result<(), NatRefusal> {
        let known = self.fragments.contains(&FragmentKey::of(header));
        if known { Ok(()) } else { Err(NatRefusal::NoMapping) }
    }

    fn free_port(&mut self, protocol: Protocol) -> u16 {
        loop {
            let port = self.rng.u16(FIRST_PORT..);
            if !self.public_ports.contains_key(&(protocol, port)) {
                return port;
            }
        }
    }

    fn make_room(&mut self, now: Time) {
        if self.mappings.len() < MAX_MAPPINGS {
            return;
        }
        self.mappings.retain(|(protocol, _), m| now.since(m.used) <= timeout(*protocol));
        if self.mappings.len() >= MAX_MAPPINGS {
            forget_oldest(&mut self.mappings, |mapping| mapping.used);
        }
        let mappings = &self.mappings;
        self.public_ports
            .retain(|(protocol, _), inside| mappings.contains_key(&(*protocol, *inside)));
    }

    fn forget(&mut self, key: (Protocol, u16)) {
        if let Some(mapping) = self.mappings.remove(&key) {
            self.public_ports.remove(&(key.0, mapping.public_port));
        }
    }
}

impl FragmentKey {
    fn of(header: &Header) -> Self {
        FragmentKey {
            source: header.source,
            destination: header.destination,
            protocol: header.protocol,
            identification: header.identification,
        }
    }
}

/// Our endpoint in a packet, and the peer's. An echo's peer has no port.
fn endpoints(
    packet: &[u8],
    header: &Header,
    protocol: Protocol,
    ours: Side,
) -> Result<(SocketAddrV4, SocketAddrV4), NatRefusal> {
    let theirs = if ours == Side::Source { Side::Destination } else { Side::Source };
    let read = |side| ipv4::endpoint(packet, header, protocol, side).ok_or(NatRefusal::Malformed);
    let (ours, mut peer) = (read(ours)?, read(theirs)?);
    if protocol == Protocol::Echo {
        peer.set_port(0);
    }
    Ok((ours, peer))
}

fn timeout(protocol: Protocol) -> Duration {
    match protocol {
        Protocol::Tcp => TCP_TIMEOUT,
        Protocol::Udp => UDP_TIMEOUT,
        Protocol::Echo => ECHO_TIMEOUT,
    }
}

/// Removes an eighth at once, so that a full table isn't searched for each packet.
fn forget_oldest<K: Eq + Hash, V>(map: &mut HashMap<K, V>, used: impl Fn(&V) -> Time) {
    let mut times: Vec<Time> = map.values().map(&used).collect();
    if times.is_empty() {
        return;
    }
    let eighth = times.len() / 8;
    let (_, &mut newest, _) = times.select_nth_unstable(eighth);
    let mut room = eighth + 1;
    map.retain(|_, value| {
        let forget = room > 0 && used(value) <= newest;
        room -= usize::from(forget);
        !forget
    });
}

#[cfg(test)]
mod tests;
