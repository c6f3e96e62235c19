//! An initiation that somebody recorded and sends again: it may be answered,
//! since after a restart nothing tells it from a true one, but it changes
//! nothing. Only the packet that follows, which only the peer can make, does.

mod inner_packet;

use braid_handshake::PrivateKey;
use braid_tunnel::{Event, LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use inner_packet::udp;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const LINK: LinkId = LinkId(0);
const TURN: Duration = Duration::from_millis(10);
const HOME: &str = "192.0.2.7:1000";
const CONCENTRATOR: &str = "203.0.113.1:51820";
const ATTACKER: &str = "198.51.100.66:6666";
const TODAY: u64 = 1_700_000_000_000_000_000;

#[test]
fn a_replay_after_a_restart_is_not_taken_for_the_home() {
    let mut world = World::new();
    world.run(Duration::from_secs(1));
    world.concentrator = concentrator(0);
    let answers = world.replay(0);
    assert_eq!(answers.len(), 1, "it can't be told from a true one");
    assert!(answers[0].len() < world.recorded[0].len());
    assert_eq!(world.connections(), 0);
    assert_eq!(world.replay(0), Vec::<Vec<u8>>::new(), "no second answer");
    world.run(Duration::from_secs(15));
    assert_eq!(world.connections(), 1, "the home itself");
    assert!(world.passes());
}

#[test]
fn a_replay_does_not_end_what_works() {
    // The home was a day ahead when this was recorded, and nobody answered.
    let mut world = World::new();
    world.home = home(86_400, 5);
    world.withhold = true;
    world.run(Duration::from_millis(100));
    world.withhold = false;
    world.home = home(0, 6);
    world.run(Duration::from_secs(1));
    assert_eq!(world.connections(), 1);
    assert_eq!(world.replay(0).len(), 1);
    assert!(world.passes(), "the session that was there has to go on");
    world.run(Duration::from_secs(400));
    assert!(world.passes(), "new keys in spite of a time that hasn't come yet");
}

#[derive(Clone, Debug)]
enum Step {
    HomeRestarts(i64),
    ConcentratorRestarts,
    Run(u64),
    Replay(prop::sample::Index),
    Withhold(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop_oneof![Just(0), Just(-86_400), Just(86_400), -100_000..100_000i64]
            .prop_map(Step::HomeRestarts),
        Just(Step::ConcentratorRestarts),
        (10..3000u64).prop_map(Step::Run),
        any::<prop::sample::Index>().prop_map(Step::Replay),
        any::<prop::sample::Index>().prop_map(Step::Replay),
        any::<bool>().prop_map(Step::Withhold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_replayed_the_home_connects_and_stays_connected(
        steps in proptest::collection::vec(step(), 1..20),
    ) {
        let mut world = World::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::HomeRestarts(wrong) => world.home = home(wrong, number as u64 + 10),
                // With the seed of the first one it would be the same instance.
                Step::ConcentratorRestarts => {
                    world.concentrator = concentrator(number as u64 + 10);
                }
                Step::Run(ms) => world.run(Duration::from_millis(ms)),
                Step::Withhold(withhold) => world.withhold = withhold,
                Step::Replay(which) => {
                    if world.recorded.is_empty() {
                        continue;
                    }
                    let passed = world.passes();
                    world.connections();
                    let which = which.index(world.recorded.len());
                    world.replay(which);
                    prop_assert_eq!(world.connections(), 0);
                    prop_assert!(world.passes() || !passed);
                }
            }
        }
        world.withhold = false;
        world.run(Duration::from_secs(20));
        prop_assert!(world.passes());
    }
}

struct World {
    now: Time,
    home: Tunnel,
    concentrator: Tunnel,
    /// All initiations of the home.
    recorded: Vec<Vec<u8>>,
    /// None of them arrives.
    withhold: bool,
}

impl World {
    fn new() -> Self {
        World {
            now: Time::ZERO,
            home: home(0, 1),
            concentrator: concentrator(2),
            recorded: Vec::new(),
            withhold: false,
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.home.handle_timeout(self.now);
            self.concentrator.handle_timeout(self.now);
            self.carry();
            self.now += TURN;
        }
    }

    fn carry(&mut self) {
        loop {
            let up = take(&mut self.home, self.now);
            for mut datagram in up.iter().cloned() {
                if datagram[0] == 1 {
                    if !self.recorded.contains(&datagram) {
                        self.recorded.push(datagram.clone());
                    }
                    if self.withhold {
                        continue;
                    }
                }
                self.concentrator.handle_datagram(self.now, LINK, at(HOME), None, &mut datagram);
            }
            let down = take(&mut self.concentrator, self.now);
            for mut datagram in down.iter().cloned() {
                self.home.handle_datagram(self.now, LINK, at(CONCENTRATOR), None, &mut datagram);
            }
            if up.is_empty() && down.is_empty() {
                break;
            }
        }
    }

    /// What the concentrator sends for it.
    fn replay(&mut self, which: usize) -> Vec<Vec<u8>> {
        self.carry();
        let mut datagram = self.recorded[which].clone();
        self.concentrator.handle_datagram(self.now, LINK, at(ATTACKER), None, &mut datagram);
        take(&mut self.concentrator, self.now)
    }

    /// Whether packets come through both ways, at once.
    fn passes(&mut self) -> bool {
        while self.home.poll_inner().is_some() || self.concentrator.poll_inner().is_some() {}
        self.home.handle_inner(self.now, udp([10, 0, 0, 2], [10, 0, 0, 1], 0));
        self.concentrator.handle_inner(self.now, udp([10, 0, 0, 1], [10, 0, 0, 2], 0));
        self.run(Duration::from_millis(30));
        self.home.poll_inner().is_some() && self.concentrator.poll_inner().is_some()
    }

    /// How often the concentrator has said that somebody connected.
    fn connections(&mut self) -> usize {
        std::iter::from_fn(|| self.concentrator.poll_event())
            .filter(|event| matches!(event, Event::Handshake { .. }))
            .count()
    }
}

fn take(from: &mut Tunnel, now: Time) -> Vec<Vec<u8>> {
    let (mut out, mut datagrams) = (Vec::new(), Vec::new());
    while let Some(transmit) = from.poll_transmit(now, &mut out) {
        datagrams.extend(out.chunks(transmit.segment).map(<[u8]>::to_vec));
    }
    datagrams
}

fn home(clock_off: i64, seed: u64) -> Tunnel {
    let peer = PeerConfig { endpoints: vec![at(CONCENTRATOR)], ..peer(2, "10.0.0.1/32") };
    end(1, seed, clock_off, LinkConfig::default(), peer)
}

fn concentrator(seed: u64) -> Tunnel {
    let link = LinkConfig { listens: true, ..LinkConfig::default() };
    end(2, seed, 0, link, peer(1, "10.0.0.2/32"))
}

fn end(key: u8, seed: u64, clock_off: i64, link: LinkConfig, peer: PeerConfig) -> Tunnel {
    let mut tunnel = Tunnel::new(TunnelConfig {
        seed,
        epoch_unix_nanos: TODAY.saturating_add_signed(clock_off * 1_000_000_000),
        ..TunnelConfig::new(PrivateKey::from_bytes(&[key; 32]))
    });
    tunnel.add_link(LINK, link, Time::ZERO);
    tunnel.add_peer(peer, Time::ZERO);
    tunnel
}

fn peer(key: u8, inside: &str) -> PeerConfig {
    PeerConfig {
        allowed_ips: inside.parse().into_iter().collect(),
        keepalive: Some(Duration::from_secs(5)),
        ..PeerConfig::new(PrivateKey::from_bytes(&[key; 32]).public_key())
    }
}

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}
