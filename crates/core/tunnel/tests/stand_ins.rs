//! A home with two concentrators: when one falls silent the other one serves.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_inner::Layer;
use braid_tunnel::routing::Room;
use braid_tunnel::{
    Change, Event, LinkConfig, LinkId, PeerConfig, PeerId, Referral, Tunnel, TunnelConfig,
};
use braid_units::Time;
use inner_packet::udp;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const LINKS: [LinkId; 2] = [LinkId(0), LinkId(1)];
const DELAY: Duration = Duration::from_millis(20);
const SERVERS: [u8; 2] = [8, 9];

#[test]
fn another_takes_over_and_nothing_that_was_on_its_way_is_lost() {
    let mut net = Net::new();
    net.run(2000, |net, _| net.send());
    assert!(net.came[1].is_empty());
    net.away[0] = true;
    let moved = net.run(1000, |net, _| net.send());
    assert_eq!(moved, [(0, 1)]);
    net.run(100, |_, _| ());
    assert_eq!(net.missing(), 0);
    assert!(net.came.iter().all(|came| came.is_sorted()), "in order");
    // Sent again: what was on its way there, and the acknowledgements back.
    let twice = net.came[0].len() + net.came[1].len() - 3000;
    assert!(twice < 60, "{twice}");
    // What comes from there is the home's.
    assert_eq!(net.answers(1), 1);
    assert_eq!(net.answers(0), 0, "it is away");

    net.away[0] = false;
    let moved = net.run(40_000, |net, at| {
        if at % 10 == 0 {
            net.send();
        }
    });
    assert_eq!(moved, [(1, 0)], "it serves again");
    assert_eq!(net.answers(0), 1);
    assert_eq!(net.answers(1), 1, "what was on its way there");
}

/// Of one that announces its homes to routers.
#[test]
fn what_a_home_sends_after_a_silence_waits_until_its_route_is_known() {
    let mut net = Net::announcing();
    net.run(2000, |net, _| net.send());
    assert_eq!(net.missing(), 20, "nothing waits at first, but on the links");
    net.away[0] = true;
    while net.served()[1] != Some(true) {
        net.run(1, |net, _| net.send());
    }
    net.run(30, |net, _| net.send());
    assert!(net.came[1].is_empty());
    let (home, now) = (net.servers[1].report(net.now)[0].0, net.now);
    net.servers[1].apply(Change::Announced(home), now);
    net.run(60, |net, _| net.send());
    assert!(net.came[1].is_empty(), "FRR gathers updates for 50 ms, and routes for 10");
    net.run(20, |net, _| net.send());
    net.run(100, |_, _| ());
    assert_eq!(net.missing(), 0);
    assert!(net.came[1].is_sorted(), "in order");

    // In good order nothing waits; and where no route is ever announced it isn't waited for long.
    let mut net = Net::announcing();
    net.run(16_000, |_, _| ());
    net.set_rank(0, 255);
    net.run(1000, |net, _| net.send());
    assert_eq!(net.served(), [Some(false), Some(true)]);
    assert_eq!(net.missing(), 20, "on the links");
    net.set_rank(0, 0);
    net.run(1000, |net, _| net.send());
    net.away[0] = true;
    net.run(400, |net, _| net.send());
    net.run(100, |_, _| ());
    assert_eq!(net.missing(), 0);
}

#[test]
fn links_that_are_dark_move_nothing() {
    let mut net = Net::new();
    net.run(2000, |net, _| net.send());
    net.dark = true;
    let moved = net.run(5000, |net, _| net.send());
    assert_eq!(moved, []);
    net.dark = false;
    let moved = net.run(2000, |net, _| net.send());
    assert_eq!(moved, []);
    assert!(net.came[1].is_empty());
}

#[test]
fn an_idle_home_answers_who_asks_and_one_that_is_cut_off_is_found_out() {
    let mut net = Net::new();
    net.run(2000, |net, _| net.send());
    net.run(3000, |_, _| ());
    let as_seen = |net: &Net| {
        let seen = net.servers[0].report(net.now).remove(0).1;
        (seen.connected, seen.silent_for.unwrap())
    };
    let asked_at = net.now;
    net.ask(0);
    net.run(1000, |_, _| ());
    let (connected, silent_for) = as_seen(&net);
    assert!(connected && silent_for < net.now - asked_at, "it has answered: {silent_for:?}");

    net.away[0] = true;
    net.run(2000, |_, _| ());
    assert!(as_seen(&net).0, "nothing was sent that it could have answered");
    net.ask(0);
    net.run(1000, |_, _| ());
    assert!(!as_seen(&net).0);
    net.away[0] = false;
    net.run(1000, |_, _| ());
    assert!(as_seen(&net).0, "it is back");
}

#[test]
fn one_that_goes_in_good_order_is_followed_at_once() {
    let mut net = Net::new();
    net.run(2000, |net, _| net.send());
    let now = net.now;
    net.servers[0].close(now);
    let moved = net.run(100, |net, _| net.send());
    assert_eq!(moved, [(0, 1)]);
}

#[test]
fn one_that_drains_is_left_without_loss_copies_or_a_pause() {
    let mut net = Net::new();
    // Long enough to be trusted.
    net.run(16_000, |_, _| ());
    net.run(2000, |net, _| net.send());
    assert_eq!(net.served(), [Some(true), Some(false)]);
    net.set_rank(0, 255);
    let moved = net.run(1000, |net, _| net.send());
    assert_eq!(moved, [(0, 1)]);
    net.run(200, |_, _| ());
    assert_eq!(net.missing(), 0);
    assert_eq!(net.came[0].len() + net.came[1].len(), 3000, "none twice");
    assert_eq!(net.served(), [Some(false), Some(true)]);
    // It needs two round trips to be known and followed.
    assert!(net.came[0].len() < 2200, "{}", net.came[0].len());
    assert_eq!(net.answers(0), 1, "what is still on its way to it arrives");

    net.set_rank(0, 0);
    let moved = net.run(1000, |net, _| net.send());
    assert_eq!(moved, [(1, 0)], "it serves again at once");
    assert_eq!(net.served(), [Some(true), Some(false)]);
}

#[test]
fn a_home_goes_to_the_most_willing_and_stays_where_it_is_alone() {
    let mut net = Net::new();
    net.run(1000, |net, _| net.send());
    net.away[1] = true;
    net.run(5000, |_, _| ());
    net.set_rank(0, 255);
    let moved = net.run(3000, |net, _| net.send());
    assert_eq!(moved, []);
    net.away[1] = false;
    let moved = net.run(25_000, |_, _| ());
    assert_eq!(moved, [(0, 1)], "once it has worked for a while");
    // All that was told is told again to one that begins anew.
    net.set_rank(1, 7);
    net.restart_home();
    let moved = net.run(25_000, |_, _| ());
    assert_eq!(moved, [(0, 1)], "at first the first in order serves");
    assert_eq!(net.served(), [Some(false), Some(true)]);
}

#[test]
fn what_is_told_arrives_where_each_fourth_datagram_is_lost() {
    for seed in 0..20 {
        let mut net = Net::new();
        net.run(18_000, |_, _| ());
        net.loses = Some(seed);
        net.set_rank(0, 255);
        net.run(3000, |net, at| {
            if at % 20 == 0 {
                net.send();
            }
        });
        assert_eq!(net.home.report(net.now)[0].1.rank, 255, "{seed}");
        // Paths that lose so much are silent now and then, so it may have moved, or not.
        net.loses = None;
        net.run(1000, |_, _| ());
        let served = net.served();
        assert!(served[0] != served[1] && !served.contains(&None), "{seed}: {served:?}");
    }
}

#[test]
fn one_that_is_far_worse_for_a_while_is_left_without_loss() {
    let mut net = Net::new();
    let each_tenth = |net: &mut Net, at: u64| {
        if at.is_multiple_of(10) {
            net.send();
        }
    };
    // At once it would be taken for silent.
    let grows = |net: &mut Net| {
        while net.delays[0] < 8 * DELAY {
            net.delays[0] += DELAY / 4;
            assert_eq!(net.run(200, each_tenth), []);
        }
    };
    net.run(20_000, each_tenth);
    grows(&mut net);
    // Not so long that it counts.
    assert_eq!(net.run(20_000, each_tenth), []);
    net.delays[0] = DELAY;
    assert_eq!(net.run(25_000, each_tenth), []);
    grows(&mut net);
    assert_eq!(net.run(60_000, each_tenth), [(0, 1)]);
    net.delays[0] = DELAY;
    assert_eq!(net.run(60_000, each_tenth), [(1, 0)]);
    net.run(500, |_, _| ());
    assert_eq!(net.missing(), 0);
}

#[test]
fn one_that_is_full_takes_nobody_on_who_has_another_and_loses_nothing_of_what_came() {
    let mut net = Net::new();
    net.rooms[0].set_capacity(0);
    let mut taken = false;
    let moved = net.run(3000, |net, _| {
        net.send();
        taken |= net.rooms[0].served() > 0;
    });
    assert_eq!(moved, [(0, 1)], "though that one has not worked for long");
    assert!(!taken, "not for a moment");
    assert_eq!(net.served(), [Some(false), Some(true)]);
    net.run(100, |_, _| ());
    assert_eq!(net.missing(), 0);
    // Who is served stays, however few there may be.
    net.rooms[1].set_capacity(0);
    assert_eq!(net.run(20_000, |_, _| ()), []);
    assert_eq!(net.rooms[1].served(), 1);
    // The first has room again, and says so.
    net.rooms[0].set_capacity(1);
    assert_eq!(net.run(20_000, |_, _| ()), [(1, 0)]);
    assert_eq!((net.rooms[0].served(), net.rooms[1].served()), (1, 0));
}

#[test]
fn one_that_was_tried_in_vain_is_left_for_the_one_before() {
    let mut net = Net::new();
    net.run(16_000, |_, _| ());
    // By the time that it is there, there is no room.
    net.set_rank(0, 7);
    net.rooms[1].set_capacity(0);
    let mut taken = false;
    let moved = net.run(1000, |net, _| {
        net.send();
        taken |= net.rooms[1].served() > 0;
    });
    assert_eq!(moved, [(0, 1), (1, 0)]);
    assert!(!taken);
    net.run(200, |_, _| ());
    assert_eq!(net.missing(), 0);
    assert_eq!(net.came[0].len() + net.came[1].len(), 1000, "none twice");
    assert_eq!(net.served(), [Some(true), Some(false)]);
}

#[test]
fn a_home_that_has_no_other_place_is_served_where_there_is_no_room() {
    for announces in [false, true] {
        let mut net = Net::with(announces);
        net.rooms[1].set_capacity(0);
        net.run(2000, |net, _| net.send());
        net.away[0] = true;
        let moved = net.run(3000, |net, _| net.send());
        assert_eq!((moved, net.served()[1]), (vec![(0, 1)], Some(true)));
        assert_eq!(net.rooms[1].served(), 1);
        net.run(400, |_, _| ());
        assert_eq!(net.missing(), 0);
        // It begins anew, and so does its program: it is taken on again.
        net.restart_home();
        net.run(8000, |_, _| ());
        assert_eq!((net.served()[1], net.rooms[1].served()), (Some(true), 1));
        assert_eq!(net.answers(1), 1);
    }
}

#[test]
fn a_home_that_is_gone_gives_its_place_back() {
    let mut net = Net::new();
    net.run(2000, |_, _| ());
    assert_eq!((net.rooms[0].served(), net.rooms[1].served()), (1, 0));
    let now = net.now;
    net.home.close(now);
    net.run(100, |_, _| ());
    assert_eq!(net.rooms[0].served(), 0);
    // By a break that is longer than keys live, too.
    net.restart_home();
    net.run(2000, |_, _| ());
    assert_eq!(net.rooms[0].served(), 1);
    net.dark = true;
    net.run(100_000, |_, _| ());
    assert_eq!(net.rooms[0].served(), 1, "it is back soon, and then isn't refused");
    net.run(100_000, |_, _| ());
    assert_eq!(net.rooms[0].served(), 0);
    net.dark = false;
    net.run(10_000, |_, _| ());
    assert_eq!((net.served()[0], net.rooms[0].served()), (Some(true), 1), "it says nothing new");
}

#[test]
fn a_home_hears_to_whom_it_is_referred_and_hears_it_again_when_one_begins_anew() {
    let mut net = Net::new();
    let all: Vec<Referral> = [5, 6].map(referral).to_vec();
    net.refer(0, &all);
    net.run(500, |_, _| ());
    assert_eq!(net.referred, [(0, all.clone())]);
    // What is said again is no news.
    net.refer(0, &all);
    net.run(500, |_, _| ());
    assert_eq!(net.referred.len(), 1);
    net.refer(1, &all[..1]);
    net.refer(0, &[]);
    net.run(500, |_, _| ());
    assert_eq!(net.referred[1..], [(0, vec![]), (1, all[..1].to_vec())]);
    net.refer(0, &all);
    net.run(500, |_, _| ());
    net.referred.clear();
    net.restart_home();
    net.run(500, |_, _| ());
    net.referred.sort_by_key(|(server, _)| *server);
    assert_eq!(net.referred, [(0, all.clone()), (1, all[..1].to_vec())]);
}

#[test]
fn referrals_arrive_where_each_fourth_datagram_is_lost() {
    for seed in 0..20 {
        let mut net = Net::new();
        net.run(1000, |_, _| ());
        net.loses = Some(seed);
        for number in 1..=5 {
            net.refer(0, &[referral(number)]);
            net.run(400, |_, _| ());
        }
        net.run(2000, |_, _| ());
        assert_eq!(net.referred.last(), Some(&(0, vec![referral(5)])), "{seed}");
    }
}

/// A home with two links, and two servers of the same addresses behind 20 ms each way.
struct Net {
    now: Time,
    home: Tunnel,
    peers: [PeerId; 2],
    servers: [Tunnel; 2],
    /// Of each server.
    rooms: [Arc<Room>; 2],
    away: [bool; 2],
    dark: bool,
    /// From and to each server.
    delays: [Duration; 2],
    sent: u16,
    flying: Vec<Flying>,
    came: [Vec<u16>; 2],
    at_home: usize,
    /// Which server referred the home to whom.
    referred: Vec<(usize, Vec<Referral>)>,
    /// Of four datagrams one is lost, by this seed.
    loses: Option<u64>,
}

/// A datagram on its way.
struct Flying {
    arrives: Time,
    server: usize,
    to_server: bool,
    link: LinkId,
    datagram: Vec<u8>,
}

impl Net {
    fn new() -> Net {
        Net::with(false)
    }

    /// Whose servers announce their homes to routers.
    fn announcing() -> Net {
        Net::with(true)
    }

    fn with(announces: bool) -> Net {
        let (home, peers) = home(1, Time::ZERO);
        let rooms = [0, 1].map(|_| Arc::new(Room::default()));
        let servers = [0, 1].map(|number: usize| {
            let room = rooms[number].clone();
            let config = config(SERVERS[number], 1);
            let mut server = Tunnel::new(TunnelConfig { announces, room, ..config });
            let config = LinkConfig { listens: true, ..LinkConfig::default() };
            server.add_link(LINKS[0], config, Time::ZERO);
            server.add_peer(peer(1, &["10.0.0.1/32"]), Time::ZERO);
            server
        });
        Net {
            now: Time::ZERO,
            home,
            peers,
            servers,
            rooms,
            away: [false; 2],
            dark: false,
            delays: [DELAY; 2],
            sent: 0,
            flying: Vec::new(),
            came: [Vec::new(), Vec::new()],
            at_home: 0,
            referred: Vec::new(),
            loses: None,
        }
    }

    /// How willing a server is to serve the home.
    fn set_rank(&mut self, server: usize, rank: u8) {
        let [(home, _)] = self.servers[server].report(self.now).try_into().ok().unwrap();
        self.servers[server].apply(Change::SetRank(home, rank), self.now);
    }

    /// The server asks whether the home is there.
    fn ask(&mut self, server: usize) {
        let home = self.servers[server].report(self.now)[0].0;
        self.servers[server].apply(Change::Ask(home), self.now);
    }

    fn refer(&mut self, server: usize, referrals: &[Referral]) {
        let home = self.servers[server].report(self.now)[0].0;
        self.servers[server].apply(Change::Refer(home, referrals.to_vec()), self.now);
    }

    /// Whether the home says to each server that it is the one.
    fn served(&self) -> [Option<bool>; 2] {
        let of = |server: &Tunnel| server.report(self.now)[0].1.served.map(|said| said.here);
        [of(&self.servers[0]), of(&self.servers[1])]
    }

    fn restart_home(&mut self) {
        (self.home, self.peers) = home(2, self.now);
    }

    /// One packet of a flow, numbered.
    fn send(&mut self) {
        self.sent += 1;
        let packet = udp([10, 0, 0, 1], [192, 0, 2, 7], self.sent);
        self.home.handle_inner(self.now, packet);
    }

    /// Whether a packet from a server comes out at home.
    fn answers(&mut self, server: usize) -> usize {
        let before = self.at_home;
        let packet = udp([192, 0, 2, 7], [10, 0, 0, 1], 0);
        self.servers[server].handle_inner(self.now, packet);
        self.run(500, |_, _| ());
        self.at_home - before
    }

    /// Goes on for so many milliseconds; who took over from whom.
    fn run(&mut self, millis: u64, mut each: impl FnMut(&mut Net, u64)) -> Vec<(usize, usize)> {
        let mut moved = Vec::new();
        for at in 0..millis {
            self.now += Duration::from_millis(1);
            each(self, at);
            self.step();
            while let Some(event) = self.home.poll_event() {
                let place = |id| self.peers.iter().position(|peer| *peer == id).unwrap();
                match event {
                    Event::Moved { from, to, .. } => moved.push((place(from), place(to))),
                    Event::Referred { peer, referrals } => {
                        self.referred.push((place(peer), referrals));
                    }
                    _ => {}
                }
            }
        }
        moved
    }

    fn step(&mut self) {
        let now = self.now;
        let due = self.flying.extract_if(.., |it| it.arrives <= now).collect::<Vec<_>>();
        for Flying { server, to_server, link, mut datagram, .. } in due {
            if to_server {
                let home = SocketAddr::from(([198, 51, 100, 1 + link.0 as u8], 1000));
                let server = &mut self.servers[server];
                server.handle_datagram(now, LINKS[0], home, None, &mut datagram);
            } else {
                self.home.handle_datagram(now, link, endpoint(server), None, &mut datagram);
            }
        }
        self.home.handle_timeout(now);
        for (link, to, datagram) in take(&mut self.home, now) {
            self.fly(usize::from(to == endpoint(1)), true, link, datagram);
        }
        while let Some(packet) = self.home.poll_inner() {
            self.at_home += 1;
            self.home.recycle(packet.bytes);
        }
        for number in 0..2 {
            self.servers[number].handle_timeout(now);
            for (_, to, datagram) in take(&mut self.servers[number], now) {
                let std::net::IpAddr::V4(ip) = to.ip() else { panic!("{to}") };
                self.fly(number, false, LINKS[usize::from(ip.octets()[3] - 1)], datagram);
            }
            let server = &mut self.servers[number];
            while let Some(packet) = server.poll_inner() {
                let number_of = packet.bytes[4..6].try_into().unwrap();
                self.came[number].push(u16::from_be_bytes(number_of));
                server.recycle(packet.bytes);
            }
        }
    }

    fn fly(&mut self, server: usize, to_server: bool, link: LinkId, datagram: Vec<u8>) {
        let lost = self.loses.as_mut().is_some_and(|state| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *state >> 62 == 1
        });
        if !self.dark && !self.away[server] && !lost {
            let arrives = self.now + self.delays[server];
            self.flying.push(Flying { arrives, server, to_server, link, datagram });
        }
    }

    /// How many came out nowhere.
    fn missing(&self) -> usize {
        let came: BTreeSet<&u16> =
            self.came.iter().flatten().filter(|number| **number > 0).collect();
        usize::from(self.sent) - came.len()
    }
}

/// The home's `run`th, and its peers.
fn home(run: u64, now: Time) -> (Tunnel, [PeerId; 2]) {
    let mut home = Tunnel::new(config(1, run));
    for link in LINKS {
        home.add_link(link, LinkConfig::default(), now);
    }
    let endpoints = |number: usize| vec![endpoint(number)];
    let first = PeerConfig { endpoints: endpoints(0), ..peer(SERVERS[0], &["0.0.0.0/0"]) };
    let second = PeerConfig { endpoints: endpoints(1), ..peer(SERVERS[1], &[]) };
    let peers = [home.add_peer(first, now), home.add_peer(second, now)];
    home.apply(Change::StandIn(peers[1], peers[0]), now);
    (home, peers)
}

fn config(key: u8, run: u64) -> TunnelConfig {
    TunnelConfig {
        layer: Layer::L3,
        seed: u64::from(key) + (run << 8),
        epoch_unix_nanos: 1_700_000_000_000_000_000,
        ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
    }
}

fn take(from: &mut Tunnel, now: Time) -> Vec<(LinkId, SocketAddr, Vec<u8>)> {
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        let each = out.chunks(transmit.segment);
        datagrams.extend(each.map(|d| (transmit.link, transmit.remote, d.to_vec())));
    }
    datagrams
}

fn peer(key: u8, inside: &[&str]) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.iter().map(|net| net.parse().unwrap()).collect(),
        keepalive: Some(Duration::from_secs(15)),
        ..PeerConfig::new(PrivateKey::from_bytes(&[key; 32]).public_key())
    }
}

fn referral(number: u8) -> Referral {
    Referral {
        public_key: PrivateKey::from_bytes(&[number; 32]).public_key(),
        name: format!("c{number}"),
        endpoints: vec![format!("192.0.2.{number}:51900")],
    }
}

fn endpoint(server: usize) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1 + server as u8], 51900))
}
