//! A concentrator of several workers, to each of which comes whatever the kernel gives it.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_inner::InnerPacket;
use braid_tunnel::{
    Change, Event, LinkConfig, LinkId, PeerConfig, PeerId, Tunnel, TunnelConfig, Worker,
};
use braid_units::Time;
use inner_packet::udp;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::time::Duration;

const LINK: LinkId = LinkId(0);
const CONCENTRATOR: u8 = 99;
const HOMES: usize = 7;

/// Which worker gets the next datagram or packet from outside.
#[derive(Clone, Copy, Debug)]
enum Steering {
    /// Whatever it is, each gets one in turn.
    InTurn,
    /// The kernel has no steering program.
    AllToOne(usize),
}

#[test]
fn homes_are_served_whichever_worker_gets_what() {
    for (count, steering) in [
        (1, Steering::AllToOne(0)),
        (2, Steering::InTurn),
        (3, Steering::InTurn),
        (3, Steering::AllToOne(0)),
        (3, Steering::AllToOne(2)),
        (64, Steering::InTurn),
    ] {
        let mut star = Star::new(count, steering);
        let connected = star.connected();
        assert_eq!(connected, [true; HOMES], "{count} workers, {steering:?}");
        for number in 0..40 {
            let home = usize::from(number % HOMES as u16);
            let other = (home + 1) % HOMES;
            star.concentrator_sends(udp([10, 0, 0, CONCENTRATOR], inside(home), number));
            star.home_sends(home, udp(inside(home), [10, 0, 0, CONCENTRATOR], number));
            // As the concentrator's kernel forwards it.
            star.home_sends(home, udp(inside(home), inside(other), number));
        }
        let (at_concentrator, at_homes) = star.settle();
        assert_eq!((at_concentrator, at_homes), (40, 80), "{count} workers, {steering:?}");
    }
}

#[test]
fn keys_are_renewed_and_a_home_that_restarts_is_served_again() {
    let mut star = Star::new(3, Steering::InTurn);
    // Keys are good for two minutes.
    for _ in 0..150 {
        star.settle();
    }
    assert!(star.handshakes >= 2 * HOMES, "{}", star.handshakes);
    star.homes[4] = home(4, star.now);
    star.settle();
    star.settle();
    star.concentrator_sends(udp([10, 0, 0, CONCENTRATOR], inside(4), 1));
    assert_eq!(star.settle(), (0, 1));
}

#[test]
fn a_home_that_is_forgotten_gets_nothing_more() {
    let mut star = Star::new(3, Steering::InTurn);
    let gone = star.ids[1];
    for worker in &mut star.workers {
        worker.apply(Change::RemovePeer(gone), star.now);
    }
    for number in 0..6 {
        star.home_sends(1, udp(inside(1), [10, 0, 0, CONCENTRATOR], number));
        star.concentrator_sends(udp([10, 0, 0, CONCENTRATOR], inside(1), number));
    }
    assert_eq!(star.settle(), (0, 0));
    for _ in 0..30 {
        star.settle();
    }
    assert_eq!(star.connected().iter().filter(|connected| **connected).count(), HOMES - 1);
}

#[test]
fn a_call_is_answered_by_each_link_that_brings_it_whosever_the_home_is() {
    for number in 0..HOMES {
        let mut star = Star::new(3, Steering::InTurn);
        // Later than what it has said so far.
        star.settle();
        let mut anew = home(number, star.now);
        let calls = take(&mut anew, star.now);
        let [(_, call)] = &calls[..] else { panic!("{} calls", calls.len()) };
        let links = [1, 2, 3].map(|port| SocketAddr::from(([198, 51, 100, 7], port)));
        for from in links {
            star.send_to_concentrator(from, call.clone());
            star.hand_over();
        }
        let now = star.now;
        let sent: Vec<_> = star.workers.iter_mut().flat_map(|worker| take(worker, now)).collect();
        let answers =
            links.map(|link| sent.iter().filter(|(to, _)| *to == link).collect::<Vec<_>>());
        assert!(answers.iter().all(|to_link| to_link.len() == 1), "home {number}");
        assert!(answers.iter().all(|to_link| to_link[0].1 == answers[0][0].1), "the same one");
    }
}

#[test]
fn only_the_first_worker_answers_strangers() {
    let mut star = Star::new(3, Steering::InTurn);
    let before: u64 = star.workers.iter().map(|worker| worker.counters().strange).sum();
    for byte in 0..=255 {
        // Data of sessions that there aren't.
        let mut datagram = vec![byte; 60];
        datagram[0] = 4;
        star.send_to_concentrator(SocketAddr::from(([203, 0, 113, 9], 9)), datagram);
    }
    star.settle();
    let counters = star.workers.iter().map(|worker| worker.counters().strange);
    assert_eq!(counters.sum::<u64>() - before, 256);
}

struct Star {
    now: Time,
    workers: Vec<Tunnel>,
    homes: Vec<Tunnel>,
    ids: Vec<PeerId>,
    steering: Steering,
    turn: usize,
    handshakes: usize,
    out: (usize, usize),
}

impl Star {
    fn new(count: u8, steering: Steering) -> Star {
        let count = NonZeroU8::new(count).expect("one or more");
        let mut workers: Vec<Tunnel> = Worker::all(count)
            .map(|worker| {
                let seed = u64::from(worker.number());
                let config = TunnelConfig { worker, seed, ..config(CONCENTRATOR) };
                let mut tunnel = Tunnel::new(config);
                let listens = LinkConfig { listens: true, ..LinkConfig::default() };
                tunnel.add_link(LINK, listens, Time::ZERO);
                tunnel
            })
            .collect();
        let ids = (0..HOMES)
            .map(|home| {
                let whose = home % workers.len();
                let peer = peer(home as u8 + 1, &format!("10.0.0.{}/32", home + 1));
                let id = workers[whose].add_peer(peer.clone(), Time::ZERO);
                assert_eq!(usize::from(id.worker()), whose);
                let elsewhere = |worker: &mut Tunnel| {
                    let (public_key, allowed_ips) = (peer.public_key, peer.allowed_ips.clone());
                    let change = Change::AddElsewhere { id, public_key, allowed_ips };
                    worker.apply(change, Time::ZERO);
                };
                let others = workers.iter_mut().enumerate().filter(|(place, _)| *place != whose);
                others.for_each(|(_, worker)| elsewhere(worker));
                id
            })
            .collect();
        let homes = (0..HOMES).map(|number| home(number, Time::ZERO)).collect();
        let mut star = Star {
            now: Time::ZERO,
            workers,
            homes,
            ids,
            steering,
            turn: 0,
            handshakes: 0,
            out: (0, 0),
        };
        star.settle();
        star.settle();
        star
    }

    fn connected(&self) -> Vec<bool> {
        let reports: Vec<_> =
            self.workers.iter().flat_map(|worker| worker.report(self.now)).collect();
        let of = |id: &PeerId| reports.iter().find(|(known, _)| known == id);
        let works = |id| of(id).is_some_and(|(_, report)| !report.paths.is_empty());
        self.ids.iter().map(works).collect()
    }

    fn home_sends(&mut self, home: usize, packet: InnerPacket) {
        self.homes[home].handle_inner(self.now, packet);
    }

    fn concentrator_sends(&mut self, packet: InnerPacket) {
        let worker = self.next_worker();
        self.workers[worker].handle_inner(self.now, packet);
    }

    fn send_to_concentrator(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        let worker = self.next_worker();
        self.workers[worker].handle_datagram(self.now, LINK, from, None, &mut datagram);
    }

    fn next_worker(&mut self) -> usize {
        self.turn += 1;
        match self.steering {
            Steering::InTurn => self.turn % self.workers.len(),
            Steering::AllToOne(worker) => worker,
        }
    }

    /// Goes on for a second; what came out at the concentrator and at homes.
    fn settle(&mut self) -> (usize, usize) {
        let until = self.now + Duration::from_secs(1);
        self.out = (0, 0);
        while self.now < until {
            self.now += Duration::from_millis(25);
            for home in 0..self.homes.len() {
                self.homes[home].handle_timeout(self.now);
                let address = SocketAddr::from(([192, 0, 2, home as u8], 1000));
                for (_, datagram) in take(&mut self.homes[home], self.now) {
                    self.send_to_concentrator(address, datagram);
                }
            }
            self.hand_over();
            for number in 0..self.workers.len() {
                self.workers[number].handle_timeout(self.now);
                for (to, mut datagram) in take(&mut self.workers[number], self.now) {
                    let IpAddr::V4(ip) = to.ip() else { panic!("{to}") };
                    if let Some(home) = self.homes.get_mut(usize::from(ip.octets()[3])) {
                        let from = at("203.0.113.1:51820");
                        home.handle_datagram(self.now, LINK, from, None, &mut datagram);
                    }
                }
                while let Some(event) = self.workers[number].poll_event() {
                    self.handshakes += usize::from(matches!(event, Event::Handshake { .. }));
                }
            }
            let mut forwarded = Vec::new();
            for worker in &mut self.workers {
                for packet in std::iter::from_fn(|| worker.poll_inner()) {
                    match packet.bytes[19] {
                        CONCENTRATOR => self.out.0 += 1,
                        _ => forwarded.push(packet),
                    }
                }
            }
            for packet in forwarded {
                self.concentrator_sends(packet);
            }
            self.hand_over();
            for home in &mut self.homes {
                self.out.1 += std::iter::from_fn(|| home.poll_inner()).count();
            }
        }
        self.out
    }

    /// Nothing goes round: what one has handed over, the other keeps.
    fn hand_over(&mut self) {
        for round in 0.. {
            let mut handed = Vec::new();
            for (number, worker) in self.workers.iter_mut().enumerate() {
                for (to, handover) in std::iter::from_fn(|| worker.poll_handover()) {
                    assert_ne!(usize::from(to), number);
                    handed.push((to, handover));
                }
            }
            if handed.is_empty() {
                return;
            }
            // An initiation goes to the first worker, and from there to whose it is.
            assert!(round < 2);
            for (to, handover) in handed {
                self.workers[usize::from(to)].handle_handover(self.now, handover);
            }
        }
    }
}

fn home(number: usize, now: Time) -> Tunnel {
    let seed = 1000 + number as u64 + now.as_nanos();
    let mut home = Tunnel::new(TunnelConfig { seed, ..config(number as u8 + 1) });
    home.add_link(LINK, LinkConfig::default(), now);
    let endpoints = vec![at("203.0.113.1:51820")];
    home.add_peer(PeerConfig { endpoints, ..peer(CONCENTRATOR, "0.0.0.0/0") }, now);
    home
}

fn config(key: u8) -> TunnelConfig {
    TunnelConfig { epoch_unix_nanos: 1_700_000_000_000_000_000, ..TunnelConfig::new(private(key)) }
}

fn peer(key: u8, inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        ..PeerConfig::new(private(key).public_key())
    }
}

/// X25519 ignores some bits of the first and the last byte.
fn private(key: u8) -> PrivateKey {
    let mut bytes = [1; 32];
    bytes[8] = key;
    PrivateKey::from_bytes(&bytes)
}

fn inside(home: usize) -> [u8; 4] {
    [10, 0, 0, home as u8 + 1]
}

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

fn take(from: &mut Tunnel, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        datagrams.extend(out.chunks(transmit.segment).map(|d| (transmit.remote, d.to_vec())));
    }
    datagrams
}
