//! Two peers of one concentrator: whether they reach each other.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_inner::{InnerPacket, Layer, Offload};
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use inner_packet::udp;
use std::net::SocketAddr;
use std::time::Duration;

const LINK: LinkId = LinkId(0);
const CONCENTRATOR: u8 = 9;

#[test]
fn packets_come_to_another_peers_addresses_only_if_they_may() {
    for (isolate, delivered) in [(true, 0), (false, 1)] {
        let mut star = Star::new(Layer::L3, isolate);
        assert_eq!(star.send(0, between(1, CONCENTRATOR)), (1, 0), "to the concentrator itself");
        // Where the concentrator's kernel forwards it from.
        assert_eq!(star.send(0, between(1, 2)), (delivered, 0));
        assert_eq!(star.isolated(), u64::from(isolate));
    }
}

#[test]
fn frames_come_to_another_peers_stations_only_if_they_may() {
    for isolate in [true, false] {
        let mut star = Star::new(Layer::L2, isolate);
        let there = usize::from(!isolate);
        let broadcast = [0xff; 6];
        assert_eq!(star.send(1, frame(2, broadcast)), (1, there), "who is there?");
        assert_eq!(star.send(0, frame(1, mac(2))), (0, there), "a station that is known");
        assert_eq!(star.send(0, frame(1, mac(77))), (1, there), "one that isn't");
        assert_eq!(star.isolated(), u64::from(isolate));
        // The concentrator reaches all.
        star.concentrator.handle_inner(star.now, frame(CONCENTRATOR, mac(2)));
        assert_eq!(star.settle(), (0, 1));
    }
}

struct Star {
    now: Time,
    homes: [Tunnel; 2],
    concentrator: Tunnel,
}

impl Star {
    /// Both homes connected.
    fn new(layer: Layer, isolate_peers: bool) -> Star {
        let end = |key: u8, listens| {
            let mut tunnel = Tunnel::new(TunnelConfig {
                layer,
                isolate_peers: isolate_peers && listens,
                seed: u64::from(key),
                epoch_unix_nanos: 1_700_000_000_000_000_000,
                ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
            });
            tunnel.add_link(LINK, LinkConfig { listens, ..LinkConfig::default() }, Time::ZERO);
            tunnel
        };
        let home = |key| {
            let mut home = end(key, false);
            let endpoints = vec![at("203.0.113.1:51820")];
            let peer = PeerConfig { endpoints, ..peer(CONCENTRATOR, "0.0.0.0/0") };
            home.add_peer(peer, Time::ZERO);
            home
        };
        let mut concentrator = end(CONCENTRATOR, true);
        concentrator.add_peer(peer(1, "10.0.0.1/32"), Time::ZERO);
        concentrator.add_peer(peer(2, "10.0.0.2/32"), Time::ZERO);
        let mut star = Star { now: Time::ZERO, homes: [home(1), home(2)], concentrator };
        star.settle();
        star
    }

    /// How many come out at the concentrator and at the other home.
    fn send(&mut self, home: usize, packet: InnerPacket) -> (usize, usize) {
        self.homes[home].handle_inner(self.now, packet);
        self.settle()
    }

    /// Goes on for a second; what comes out at the concentrator and at homes.
    fn settle(&mut self) -> (usize, usize) {
        let until = self.now + Duration::from_secs(1);
        let mut out = (0, 0);
        while self.now < until {
            self.now += Duration::from_millis(10);
            self.concentrator.handle_timeout(self.now);
            for (number, home) in self.homes.iter_mut().enumerate() {
                home.handle_timeout(self.now);
                let address = SocketAddr::from(([192, 0, 2, number as u8], 1000));
                for (_, mut datagram) in take(home, self.now) {
                    self.concentrator.handle_datagram(self.now, LINK, address, None, &mut datagram);
                }
            }
            for (to, mut datagram) in take(&mut self.concentrator, self.now) {
                let std::net::IpAddr::V4(ip) = to.ip() else { panic!("{to}") };
                let home = &mut self.homes[usize::from(ip.octets()[3])];
                home.handle_datagram(self.now, LINK, at("203.0.113.1:51820"), None, &mut datagram);
            }
            out.0 += std::iter::from_fn(|| self.concentrator.poll_inner()).count();
            for home in &mut self.homes {
                out.1 += std::iter::from_fn(|| home.poll_inner()).count();
            }
        }
        out
    }

    fn isolated(&self) -> u64 {
        self.concentrator.report(self.now).iter().map(|(_, peer)| peer.counters.isolated).sum()
    }
}

fn take(from: &mut Tunnel, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        datagrams.extend(out.chunks(transmit.segment).map(|d| (transmit.remote, d.to_vec())));
    }
    datagrams
}

fn peer(key: u8, inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        ..PeerConfig::new(PrivateKey::from_bytes(&[key; 32]).public_key())
    }
}

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

fn mac(station: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, station]
}

fn frame(from: u8, to: [u8; 6]) -> InnerPacket {
    // The EtherType of local experiments (IEEE 802, section 9.2.4).
    let bytes = [&to[..], &mac(from), &[0x88, 0xb5], &[7; 50]].concat();
    InnerPacket { bytes, offload: Offload::default() }
}

fn between(from: u8, to: u8) -> InnerPacket {
    udp([10, 0, 0, from], [10, 0, 0, to], 0)
}
