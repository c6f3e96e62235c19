//! A peer that is removed and added again, as a changed config does, is met as
//! after a restart: packet numbers begin anew at one end only.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_tunnel::{Change, LinkConfig, LinkId, PeerConfig, PeerId, Tunnel, TunnelConfig};
use braid_units::Time;
use inner_packet::udp;
use std::net::SocketAddr;
use std::time::Duration;

const TURN: Duration = Duration::from_millis(10);
const LINK: LinkId = LinkId(0);

#[test]
fn a_home_that_adds_the_concentrator_again_is_heard() {
    let mut pair = Pair::new();
    pair.exchange_for(Duration::from_secs(60));
    pair.home.0.apply(Change::RemovePeer(pair.home.1), pair.now);
    pair.home.1 = pair.home.0.add_peer(concentrator(), pair.now);
    pair.expect_passage();
}

#[test]
fn a_concentrator_that_adds_the_home_again_is_heard() {
    let mut pair = Pair::new();
    pair.exchange_for(Duration::from_secs(60));
    pair.concentrator.0.apply(Change::RemovePeer(pair.concentrator.1), pair.now);
    pair.concentrator.1 = pair.concentrator.0.add_peer(home(), pair.now);
    pair.expect_passage();
}

/// A home and its concentrator, on a wire without delay.
struct Pair {
    now: Time,
    home: (Tunnel, PeerId),
    concentrator: (Tunnel, PeerId),
    sent: u16,
}

impl Pair {
    fn new() -> Pair {
        let end = |key: u8, listens, peer| {
            let mut tunnel = Tunnel::new(TunnelConfig {
                seed: u64::from(key),
                epoch_unix_nanos: 1_700_000_000_000_000_000,
                ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
            });
            tunnel.add_link(LINK, LinkConfig { listens, ..LinkConfig::default() }, Time::ZERO);
            let id = tunnel.add_peer(peer, Time::ZERO);
            (tunnel, id)
        };
        let (home, concentrator) = (end(1, false, concentrator()), end(2, true, home()));
        Pair { now: Time::ZERO, home, concentrator, sent: 0 }
    }

    /// Packets both ways; how many came out at home and at the concentrator.
    fn exchange_for(&mut self, time: Duration) -> (usize, usize) {
        let until = self.now + time;
        let mut arrived = (0, 0);
        while self.now < until {
            self.sent = self.sent.wrapping_add(1);
            self.home.0.handle_inner(self.now, udp([10, 0, 0, 2], [10, 0, 0, 1], self.sent));
            let down = udp([10, 0, 0, 1], [10, 0, 0, 2], self.sent);
            self.concentrator.0.handle_inner(self.now, down);
            self.home.0.handle_timeout(self.now);
            self.concentrator.0.handle_timeout(self.now);
            while carry(&mut self.home.0, &mut self.concentrator.0, "192.0.2.7:1000", self.now)
                + carry(&mut self.concentrator.0, &mut self.home.0, "203.0.113.1:51820", self.now)
                > 0
            {}
            arrived.0 += std::iter::from_fn(|| self.home.0.poll_inner()).count();
            arrived.1 += std::iter::from_fn(|| self.concentrator.0.poll_inner()).count();
            self.now += TURN;
        }
        arrived
    }

    /// Within the time that a silent peer and the longest pause between two
    /// handshakes take, and one more.
    fn expect_passage(&mut self) {
        self.exchange_for(Duration::from_secs(15));
        let (down, up) = self.exchange_for(Duration::from_secs(1));
        assert!(down > 90 && up > 90, "down {down}, up {up} of 100");
    }
}

/// Carries all that `from` has to send; how many batches.
fn carry(from: &mut Tunnel, to: &mut Tunnel, address: &str, now: Time) -> usize {
    let address: SocketAddr = address.parse().expect("an address");
    let mut out = Vec::new();
    let mut batches = 0;
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        batches += 1;
        for datagram in out.chunks_mut(transmit.segment) {
            to.handle_datagram(now, LINK, address, None, datagram);
        }
    }
    batches
}

fn concentrator() -> PeerConfig {
    PeerConfig {
        endpoints: vec!["203.0.113.1:51820".parse().expect("an address")],
        ..peer(2, "10.0.0.1/32")
    }
}

fn home() -> PeerConfig {
    peer(1, "10.0.0.2/32")
}

fn peer(key: u8, inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        keepalive: Some(Duration::from_secs(25)),
        ..PeerConfig::new(PrivateKey::from_bytes(&[key; 32]).public_key())
    }
}
