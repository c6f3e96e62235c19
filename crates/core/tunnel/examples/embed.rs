//! The core by itself: a home and a concentrator, joined by two links that are
//! queues in memory. No socket, no clock and no thread; time is a number.
//!
//! ```text
//! cargo run -p braid-tunnel --example embed
//! ```

use braid_handshake::PrivateKey;
use braid_inner::{InnerPacket, Offload};
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::{Rate, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

const CONCENTRATOR: &str = "203.0.113.1:51820";
/// Of each link: rate in Mbit/s, delay in milliseconds one way, and the home's
/// address by it.
const LINKS: [(u64, u64, &str); 2] = [(20, 10, "198.51.100.7:1000"), (10, 25, "192.0.2.7:1000")];

fn main() {
    let (delivered, bytes) = upload(2_000);
    println!("{delivered} packets of 2000 came out; bytes by link: {bytes:?}");
}

/// Sends so many packets of 1200 bytes up, 20 Mbit/s for both links to share. How
/// many came out, and how many bytes each link carried up.
///
/// # Panics
/// When the core sends to an address that no link has: a defect of it.
pub fn upload(packets: u16) -> (usize, [u64; 2]) {
    let [home_key, concentrator_key] = [1, 2].map(|byte| PrivateKey::from_bytes(&[byte; 32]));
    // The home calls; the concentrator knows no address of it, and listens.
    let at_home = peer(&concentrator_key, vec![address(CONCENTRATOR)], "0.0.0.0/0");
    let at_concentrator = peer(&home_key, Vec::new(), "10.0.0.2/32");
    let mut home = Tunnel::new(TunnelConfig { seed: 1, ..TunnelConfig::new(home_key) });
    for link in 0..2 {
        home.add_link(LinkId(link), LinkConfig::default(), Time::ZERO);
    }
    home.add_peer(at_home, Time::ZERO);
    let config = TunnelConfig { seed: 2, ..TunnelConfig::new(concentrator_key) };
    let mut concentrator = Tunnel::new(config);
    let listens = LinkConfig { listens: true, ..LinkConfig::default() };
    concentrator.add_link(LinkId(0), listens, Time::ZERO);
    concentrator.add_peer(at_concentrator, Time::ZERO);

    let mut links = LINKS.map(|(mbit, delay, _)| {
        let way = || Way {
            rate: Rate::from_mbit(mbit),
            delay: Duration::from_millis(delay),
            ..Way::default()
        };
        (way(), way())
    });
    let (mut now, mut sent, mut delivered, mut out) = (Time::ZERO, 0, 0, Vec::new());
    let next_packet =
        |sent: u16| Time::from_millis(1_000) + Duration::from_micros(480) * sent.into();
    let end = next_packet(packets) + Duration::from_secs(1);
    while now < end {
        // 1. What has come: datagrams by the links, packets from the device.
        for (number, (up, down)) in links.iter_mut().enumerate() {
            while let Some(mut datagram) = up.arrival(now) {
                let from = address(LINKS[number].2);
                concentrator.handle_datagram(now, LinkId(0), from, None, &mut datagram);
            }
            while let Some(mut datagram) = down.arrival(now) {
                let (link, from) = (LinkId(number as u16), address(CONCENTRATOR));
                home.handle_datagram(now, link, from, None, &mut datagram);
            }
        }
        while sent < packets && next_packet(sent) <= now {
            home.handle_inner(now, udp_packet(sent));
            sent += 1;
        }
        // 2. What is due.
        for tunnel in [&mut home, &mut concentrator] {
            if tunnel.next_timeout().is_some_and(|at| at <= now) {
                tunnel.handle_timeout(now);
            }
        }
        // 3. What is to go: datagrams, several of one size in a batch, and packets.
        while let Some(transmit) = home.poll_transmit(now, &mut out) {
            let (up, _) = &mut links[usize::from(transmit.link.0)];
            out.chunks(transmit.segment).for_each(|datagram| up.send(datagram, now));
        }
        while let Some(transmit) = concentrator.poll_transmit(now, &mut out) {
            let to = LINKS.iter().position(|(_, _, home)| address(home) == transmit.remote);
            let (_, down) = &mut links[to.expect("an address of the home's")];
            out.chunks(transmit.segment).for_each(|datagram| down.send(datagram, now));
        }
        delivered += std::iter::from_fn(|| concentrator.poll_inner()).count();
        // 4. Sleep until something comes or is due.
        let arrivals = links.iter().flat_map(|(up, down)| [up.next(), down.next()]);
        let packet = (sent < packets).then(|| next_packet(sent));
        let timeouts = [home.next_timeout(), concentrator.next_timeout(), packet];
        let next = arrivals.chain(timeouts).flatten().min().unwrap_or(end);
        now = next.max(now + Duration::from_micros(1)).min(end);
    }
    (delivered, links.map(|(up, _)| up.bytes))
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Way {
    rate: Rate,
    delay: Duration,
    free_at: Time,
    flying: VecDeque<(Time, Vec<u8>)>,
    bytes: u64,
}

impl Way {
    fn send(&mut self, datagram: &[u8], now: Time) {
        self.free_at = self.free_at.max(now) + self.rate.time_for(datagram.len() as u64);
        self.flying.push_back((self.free_at + self.delay, datagram.to_vec()));
        self.bytes += datagram.len() as u64;
    }

    fn next(&self) -> Option<Time> {
        self.flying.front().map(|(at, _)| *at)
    }

    fn arrival(&mut self, now: Time) -> Option<Vec<u8>> {
        self.next().filter(|at| *at <= now)?;
        self.flying.pop_front().map(|(_, datagram)| datagram)
    }
}

fn peer(key: &PrivateKey, endpoints: Vec<SocketAddr>, allowed: &str) -> PeerConfig {
    PeerConfig {
        endpoints,
        allowed_ips: vec![allowed.parse().expect("a prefix")],
        keepalive: Some(Duration::from_secs(25)),
        ..PeerConfig::new(key.public_key())
    }
}

/// A UDP packet of 1200 bytes from 10.0.0.2 to 10.0.0.1.
fn udp_packet(number: u16) -> InnerPacket {
    let mut bytes = vec![0x45, 0, 0x04, 0xb0];
    bytes.extend(number.to_be_bytes());
    bytes.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0x1f, 0x90, 0x1f, 0x91, 0x04, 0x9c, 0, 0]);
    bytes.resize(1200, 0);
    InnerPacket { bytes, offload: Offload::default() }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
