//! A concentrator limits what a home gets and what it sends.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_inner::{InnerPacket, Layer};
use braid_tunnel::{Change, LinkConfig, LinkId, PeerConfig, PeerId, Tunnel, TunnelConfig};
use braid_units::{Rate, Time};
use inner_packet::udp;
use std::net::SocketAddr;
use std::time::Duration;

const LINK: LinkId = LinkId(0);
const DELAY: Duration = Duration::from_millis(10);
const PACKET: usize = 1250;
const HOME: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];

#[test]
fn both_directions_keep_to_their_limits_and_have_all_without() {
    let mut net = Net::new(DELAY);
    net.run(2);
    let unlimited = net.run(4);
    assert!(unlimited.iter().all(|mbit| *mbit > 18.0), "{unlimited:?}");
    net.limit(Some(8), Some(4));
    net.run(1);
    let [down, up] = net.run(4);
    assert!((7.5..8.3).contains(&down) && (3.7..4.3).contains(&up), "{down} {up}");
    assert_eq!(net.over_limit(), 0, "the home keeps to it by itself");

    // A home that begins anew is told again, and one that is told nothing more has no limit.
    net.restart_home();
    net.run(2);
    let [down, up] = net.run(4);
    assert!((7.5..8.3).contains(&down) && (3.7..4.3).contains(&up), "{down} {up}");
    net.limit(None, None);
    net.run(2);
    let unlimited = net.run(4);
    assert!(unlimited.iter().all(|mbit| *mbit > 18.0), "{unlimited:?}");
}

#[test]
fn what_a_home_sends_above_its_limit_before_it_knows_of_it_is_dropped() {
    let mut net = Net::new(Duration::from_millis(500));
    net.run(12);
    assert_eq!(net.over_limit(), 0);
    net.limit(None, Some(4));
    let [down, up] = net.run(1);
    assert!(down > 15.0 && up < 6.0, "{down} {up}");
    assert!(net.over_limit() > 1000, "{}", net.over_limit());
    net.run(3);
    let dropped = net.over_limit();
    let [_, up] = net.run(4);
    assert!((3.7..4.3).contains(&up), "{up}");
    assert_eq!(net.over_limit(), dropped, "now it keeps to it");
}

/// Both ends behind a delay each way, and 20 Mbit/s offered to each.
struct Net {
    now: Time,
    home: Tunnel,
    concentrator: Tunnel,
    known: PeerId,
    runs: u64,
    flying: Vec<(Time, bool, Vec<u8>)>,
    delay: Duration,
}

impl Net {
    fn new(delay: Duration) -> Net {
        let mut concentrator = end(9, 1, true);
        let known = concentrator.add_peer(peer(1, "10.0.0.1/32"), Time::ZERO);
        let home = home(1, Time::ZERO);
        Net { now: Time::ZERO, home, concentrator, known, runs: 1, flying: Vec::new(), delay }
    }

    fn limit(&mut self, to_mbit: Option<u64>, from_mbit: Option<u64>) {
        let [to, from] = [to_mbit, from_mbit].map(|mbit| mbit.map(Rate::from_mbit));
        let change = Change::SetLimits { home: self.known, to, from };
        self.concentrator.apply(change, self.now);
    }

    fn restart_home(&mut self) {
        self.runs += 1;
        self.home = home(self.runs, self.now);
        self.flying.clear();
    }

    fn over_limit(&self) -> u64 {
        self.concentrator.report(self.now)[0].1.counters.over_limit
    }

    /// Goes on for so many seconds; what came out, down and up, in Mbit/s.
    fn run(&mut self, seconds: u64) -> [f64; 2] {
        let end = self.now + Duration::from_secs(seconds);
        let mut bytes = [0; 2];
        while self.now < end {
            self.now += Duration::from_millis(1);
            for _ in 0..2 {
                self.concentrator.handle_inner(self.now, packet(SERVER, HOME));
                self.home.handle_inner(self.now, packet(HOME, SERVER));
            }
            self.step();
            bytes[0] += came(&mut self.home);
            bytes[1] += came(&mut self.concentrator);
        }
        bytes.map(|bytes| bytes as f64 * 8.0 / 1e6 / seconds as f64)
    }

    fn step(&mut self) {
        let now = self.now;
        let due: Vec<_> = self.flying.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, up, mut datagram) in due {
            match up {
                true => {
                    let from = address("198.51.100.1:1000");
                    self.concentrator.handle_datagram(now, LINK, from, None, &mut datagram);
                }
                false => {
                    let from = address("203.0.113.1:1000");
                    self.home.handle_datagram(now, LINK, from, None, &mut datagram);
                }
            }
        }
        for (up, from) in [(true, &mut self.home), (false, &mut self.concentrator)] {
            from.handle_timeout(now);
            let mut out = Vec::new();
            while let Some(transmit) = from.poll_transmit(now, &mut out) {
                let datagrams = out.chunks(transmit.segment);
                self.flying.extend(datagrams.map(|it| (now + self.delay, up, it.to_vec())));
            }
        }
    }
}

fn home(run: u64, now: Time) -> Tunnel {
    let mut home = end(1, run, false);
    let endpoints = vec![address("203.0.113.1:1000")];
    home.add_peer(PeerConfig { endpoints, ..peer(9, "0.0.0.0/0") }, now);
    home
}

fn end(key: u8, run: u64, listens: bool) -> Tunnel {
    let mut tunnel = Tunnel::new(TunnelConfig {
        layer: Layer::L3,
        seed: u64::from(key) + (run << 8),
        epoch_unix_nanos: 1_700_000_000_000_000_000,
        ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
    });
    tunnel.add_link(LINK, LinkConfig { listens, ..LinkConfig::default() }, Time::ZERO);
    tunnel
}

fn peer(key: u8, inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        ..PeerConfig::new(PrivateKey::from_bytes(&[key; 32]).public_key())
    }
}

fn came(to: &mut Tunnel) -> u64 {
    let mut bytes = 0;
    while let Some(packet) = to.poll_inner() {
        bytes += packet.bytes.len() as u64;
        to.recycle(packet.bytes);
    }
    bytes
}

fn packet(from: [u8; 4], to: [u8; 4]) -> InnerPacket {
    let mut packet = udp(from, to, 0);
    packet.bytes[2..4].copy_from_slice(&(PACKET as u16).to_be_bytes());
    packet.bytes[10..12].fill(0);
    let sum = !braid_inner::checksum::sum(&packet.bytes[..20]);
    packet.bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.bytes[24..26].copy_from_slice(&(PACKET as u16 - 20).to_be_bytes());
    packet.bytes.resize(PACKET, 0);
    packet
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
