//! Homes that are let in by a token, once; and hosts that have one key and drive
//! each other out.

use braid_handshake::{EnrolmentRefusal, EnrolmentToken, PrivateKey, PublicKey};
use braid_tunnel::{
    Change, EnrolmentState, Event, LinkConfig, LinkId, PeerConfig, PeerId, Tunnel, TunnelConfig,
};
use braid_units::Time;
use std::net::SocketAddr;
use std::time::Duration;

const LINK: LinkId = LinkId(0);
const TURN: Duration = Duration::from_millis(10);
const CONCENTRATOR: &str = "203.0.113.1:51820";
/// Of the first home's key; further homes have the next.
const FIRST: u8 = 10;

#[test]
fn a_home_with_an_open_token_is_told_of_and_gets_no_answer_until_it_is_a_peer() {
    let mut world = World::new(1);
    world.open_token();
    world.run(Duration::from_secs(1));
    let own = public(FIRST);
    assert!(
        world.introductions().iter().all(|(token, home)| *token == the_token() && *home == own)
    );
    assert!(!world.is_connected(0));

    world.let_in(FIRST);
    world.run(Duration::from_secs(5));
    assert!(world.is_connected(0));
    world.introductions();
    world.run(Duration::from_secs(400));
    assert_eq!(world.introductions(), [], "it introduces itself no more");
    assert!(world.is_connected(0));
}

#[test]
fn a_token_lets_one_home_in_and_the_second_is_told_at_both_ends() {
    let mut world = World::new(2);
    world.open_token();
    world.let_in(FIRST);
    world.run(Duration::from_secs(5));
    assert!(world.is_connected(0) && !world.is_connected(1));
    assert_eq!(world.refusals_told(1).first(), Some(&EnrolmentRefusal::Used));
    assert_eq!(world.refusals_told(0), []);
    assert!(world.events.iter().any(|event| matches!(
        event,
        Event::Refused { token, refusal: EnrolmentRefusal::Used, from }
            if *token == the_token() && *from == address(1)
    )));
}

#[test]
fn an_expired_token_is_refused_with_the_reason_and_a_revoked_one_in_silence() {
    let mut world = World::new(1);
    world
        .concentrator
        .apply(Change::SetEnrolments(vec![(the_token(), EnrolmentState::Expired)]), world.now);
    world.run(Duration::from_secs(1));
    assert_eq!(world.refusals_told(0).first(), Some(&EnrolmentRefusal::Expired));
    assert_ne!(world.introductions(), [], "told of: by a clock that was set it may be valid");
    world.concentrator.apply(Change::SetEnrolments(Vec::new()), world.now);
    world.answers = 0;
    world.run(Duration::from_secs(20));
    assert_eq!((world.answers, world.introductions()), (0, Vec::new()));
}

#[test]
fn what_was_recorded_of_an_enrolment_lets_nobody_in() {
    let mut world = World::new(1);
    world.open_token();
    world.run(Duration::from_secs(2));
    let recorded = world.recorded.clone();
    world.let_in(FIRST);
    // Two of the longest pauses: the home calls by token and by its own key in turn.
    world.run(Duration::from_secs(10));
    assert!(world.is_connected(0));
    world.introductions();
    for datagram in recorded {
        world.concentrator.handle_datagram(
            world.now,
            LINK,
            "198.51.100.66:6666".parse().unwrap(),
            None,
            &mut datagram.clone(),
        );
    }
    world.carry();
    let told = |event: &Event| !matches!(event, Event::Path { .. });
    assert_eq!(
        world.events.iter().find(|event| told(event)),
        None,
        "neither introduced nor refused, nor taken for the home"
    );
    assert!(world.is_connected(0));
}

#[test]
fn guesses_are_not_answered_and_cost_no_more_than_strangers_do() {
    let mut world = World::new(1);
    world.homes.clear();
    world
        .concentrator
        .apply(Change::SetEnrolments(vec![(the_token(), EnrolmentState::Open)]), world.now);
    for guess in 0..2000_u32 {
        let mut bytes = [0; EnrolmentToken::LEN];
        bytes[..4].copy_from_slice(&guess.to_le_bytes());
        let token = EnrolmentToken::from_bytes(bytes);
        let mut home = home(9, u64::from(guess));
        home.apply(Change::Introduce(PeerId(0), token.key()), world.now);
        for mut datagram in take(&mut home, Time::ZERO) {
            let from = SocketAddr::from(([198, 51, (guess >> 8) as u8, guess as u8], 1));
            world.concentrator.handle_datagram(Time::ZERO, LINK, from, None, &mut datagram);
        }
        // Cookies at most, which are smaller than the question.
        for answer in take(&mut world.concentrator, Time::ZERO) {
            assert_eq!(answer.first(), Some(&3));
        }
    }
    assert_eq!(world.introductions(), []);
    assert!(world.concentrator.counters().unread_handshakes > 0, "the others aren't even read");
}

#[test]
fn two_homes_with_one_key_are_noticed_at_all_ends() {
    let mut world = World::new(0);
    world.let_in(FIRST);
    world.homes = vec![home(FIRST, 1), home(FIRST, 2)];
    world.run(Duration::from_secs(60));
    let [(_, report)] = &world.concentrator.report(world.now)[..] else { panic!("one peer") };
    assert!(report.has_rival);
    for home in &world.homes {
        let [(_, report)] = &home.report(world.now)[..] else { panic!("one peer") };
        assert!(report.we_have_a_rival);
    }
    // One of them is switched off.
    world.homes.truncate(1);
    world.run(Duration::from_secs(600));
    let [(_, report)] = &world.concentrator.report(world.now)[..] else { panic!("one peer") };
    assert!(!report.has_rival && report.connected);
    let [(_, report)] = &world.homes[0].report(world.now)[..] else { panic!("one peer") };
    assert!(!report.we_have_a_rival);
}

#[test]
fn a_home_that_restarts_again_and_again_is_no_rival_of_itself() {
    let mut world = World::new(0);
    world.let_in(FIRST);
    for start in 1..20 {
        world.homes = vec![home(FIRST, start)];
        world.run(Duration::from_secs(8));
    }
    let [(_, report)] = &world.concentrator.report(world.now)[..] else { panic!("one peer") };
    assert!(report.connected && !report.has_rival);
}

struct World {
    now: Time,
    homes: Vec<Tunnel>,
    concentrator: Tunnel,
    /// All that homes have sent.
    recorded: Vec<Vec<u8>>,
    /// What the concentrator has sent to strangers.
    answers: usize,
    /// Of the concentrator.
    events: Vec<Event>,
}

impl World {
    /// With so many homes that have the token.
    fn new(homes: u8) -> World {
        let homes = (0..homes).map(|number| {
            let mut home = home(FIRST + number, u64::from(number) + 1);
            home.apply(Change::Introduce(PeerId(0), token().key()), Time::ZERO);
            home
        });
        let mut concentrator = end(2, 200);
        let link = LinkConfig { listens: true, ..LinkConfig::default() };
        concentrator.add_link(LINK, link, Time::ZERO);
        World {
            now: Time::ZERO,
            homes: homes.collect(),
            concentrator,
            recorded: Vec::new(),
            answers: 0,
            events: Vec::new(),
        }
    }

    fn open_token(&mut self) {
        self.concentrator
            .apply(Change::SetEnrolments(vec![(the_token(), EnrolmentState::Open)]), self.now);
    }

    fn let_in(&mut self, key: u8) {
        self.concentrator.apply(
            Change::SetEnrolments(vec![(the_token(), EnrolmentState::Used(public(key)))]),
            self.now,
        );
        let peer = PeerConfig { public_key: public(key), ..peer("10.0.0.2/32") };
        self.concentrator.add_peer(peer, self.now);
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            for home in &mut self.homes {
                home.handle_timeout(self.now);
            }
            self.concentrator.handle_timeout(self.now);
            self.carry();
            self.now += TURN;
        }
    }

    fn carry(&mut self) {
        loop {
            let mut sent = false;
            for (number, home) in self.homes.iter_mut().enumerate() {
                for mut datagram in take(home, self.now) {
                    sent = true;
                    if datagram[0] == 1 {
                        self.recorded.push(datagram.clone());
                    }
                    let from = address(number);
                    self.concentrator.handle_datagram(self.now, LINK, from, None, &mut datagram);
                }
            }
            let mut out = Vec::new();
            while let Some(transmit) = self.concentrator.poll_transmit(self.now, &mut out) {
                sent = true;
                let number = (0..self.homes.len()).find(|n| address(*n) == transmit.remote);
                let Some(home) = number.and_then(|number| self.homes.get_mut(number)) else {
                    self.answers += 1;
                    continue;
                };
                self.answers += usize::from(!home.report(self.now)[0].1.connected);
                for datagram in out.chunks_mut(transmit.segment) {
                    home.handle_datagram(self.now, LINK, at(CONCENTRATOR), None, datagram);
                }
            }
            self.events.extend(std::iter::from_fn(|| self.concentrator.poll_event()));
            if !sent {
                break;
            }
        }
    }

    /// Tokens and homes that the concentrator has told of since the last call.
    fn introductions(&mut self) -> Vec<(PublicKey, PublicKey)> {
        let told = self.events.drain(..);
        told.filter_map(|event| match event {
            Event::Introduced { token, home, .. } => Some((token, home)),
            _ => None,
        })
        .collect()
    }

    fn refusals_told(&mut self, home: usize) -> Vec<EnrolmentRefusal> {
        std::iter::from_fn(|| self.homes[home].poll_event())
            .filter_map(|event| match event {
                Event::NotEnrolled { refusal, .. } => Some(refusal),
                _ => None,
            })
            .collect()
    }

    fn is_connected(&self, home: usize) -> bool {
        self.homes[home].report(self.now)[0].1.connected
    }
}

fn take(from: &mut Tunnel, now: Time) -> Vec<Vec<u8>> {
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        datagrams.extend(out.chunks(transmit.segment).map(<[u8]>::to_vec));
    }
    datagrams
}

fn home(key: u8, seed: u64) -> Tunnel {
    let mut home = end(key, seed);
    home.add_link(LINK, LinkConfig::default(), Time::ZERO);
    let concentrator = PeerConfig { endpoints: vec![at(CONCENTRATOR)], ..peer("10.0.0.1/32") };
    home.add_peer(concentrator, Time::ZERO);
    home
}

fn end(key: u8, seed: u64) -> Tunnel {
    Tunnel::new(TunnelConfig {
        seed,
        epoch_unix_nanos: 1_700_000_000_000_000_000,
        ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
    })
}

/// The concentrator; homes have another key.
fn peer(inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        keepalive: Some(Duration::from_secs(5)),
        ..PeerConfig::new(public(2))
    }
}

fn token() -> EnrolmentToken {
    EnrolmentToken::from_bytes([7; EnrolmentToken::LEN])
}

fn the_token() -> PublicKey {
    token().key().public_key()
}

fn public(key: u8) -> PublicKey {
    PrivateKey::from_bytes(&[key; 32]).public_key()
}

fn address(home: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 10 + home as u8], 1000))
}

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}
