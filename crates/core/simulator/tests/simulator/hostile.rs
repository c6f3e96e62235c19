//! Datagrams that nobody should send.

use crate::support::{link, pings, secs, three_links};
use braid_handshake::{
    AeadOffer, Established, Hello, Initiation, SessionIndex, TunnelParameters, os_random,
};
use braid_inner::Offload;
use braid_simulator::{EndId, Lane, Scenario, Simulation, Traffic, private_key, udp_packet};
use braid_wire::{
    Abandoned, AckWriter, Chunk, ChunkPosition, DataHeader, ErasureFrame, PathStatus, SourceRef,
    TunnelMode,
};
use std::net::SocketAddr;

/// Runs two seconds of traffic, then lets `attack` put each datagram that was
/// recorded into some end, then runs on. Nothing may be lost or broken.
fn attack(mut attack: impl FnMut(&mut Simulation, Lane, usize, SocketAddr, Vec<u8>, usize)) {
    let scenario = Scenario::new(three_links())
        .traffic(pings())
        .traffic(Traffic::tcp(Lane::Down))
        .lasting(secs(5));
    let mut simulation = Simulation::new(scenario);
    simulation.record();
    simulation.run_until(secs(2));
    let recorded = simulation.captured().to_vec();
    assert!(recorded.len() > 1000);
    for (number, captured) in recorded.iter().enumerate() {
        let datagram = captured.datagram.clone();
        attack(
            &mut simulation,
            captured.lane,
            captured.link,
            datagram.from,
            datagram.bytes,
            number,
        );
    }
    simulation.run_until(secs(9));
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!(outcome.flows[0].lost(), 0);
    assert!(outcome.flows[1].mbit(secs(3), secs(5)) > 25.0);
    let refused: u64 = outcome
        .counters
        .iter()
        .map(|c| c.strange + c.forged + c.replayed + c.refused_handshakes)
        .sum();
    assert!(refused as usize >= recorded.len() / 2, "{refused} of {}", recorded.len());
}

fn receiver(lane: Lane) -> EndId {
    if lane == Lane::Up { EndId::Concentrator } else { EndId::Home(0) }
}

#[test]
fn replayed_datagrams_are_refused() {
    // Half of them have arrived long ago; those still on their way arrive twice.
    attack(|simulation, lane, link, from, bytes, _| {
        simulation.inject(receiver(lane), link, from, &bytes);
        simulation.inject(receiver(lane), link, from, &bytes);
    });
}

#[test]
fn reflected_datagrams_are_refused() {
    attack(|simulation, lane, link, from, bytes, _| {
        simulation.inject(receiver(lane.back()), link, from, &bytes);
    });
}

#[test]
fn truncated_and_altered_datagrams_are_refused() {
    attack(|simulation, lane, link, from, mut bytes, number| {
        let len = bytes.len();
        simulation.inject(receiver(lane), link, from, &bytes[..number % len]);
        bytes[number % len] ^= 1 << (number % 8);
        simulation.inject(receiver(lane), link, from, &bytes);
    });
}

#[test]
fn a_stranger_is_not_answered() {
    let mut simulation = Simulation::new(Scenario::new(three_links()).lasting(secs(3)));
    simulation.run_until(secs(1));
    let mut random = fastrand::Rng::with_seed(5);
    for kind in 0..=255u8 {
        for len in [0, 1, 7, 8, 24, 100, 148, 300, 1400] {
            let mut bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let stranger = ([192, 0, 2, 1], 999).into();
            simulation.inject(EndId::Concentrator, 0, stranger, &bytes);
        }
    }
    simulation.run_until(secs(2));
    assert!(simulation.take_strays().is_empty());
}

/// Home number 1, played by hand, with the right keys.
struct Malicious {
    established: Established,
    address: SocketAddr,
    number: u64,
}

impl Malicious {
    fn join(simulation: &mut Simulation) -> Self {
        let address = ([192, 0, 2, 66], 4242).into();
        let hello = Hello {
            instance: 99,
            timestamp: 2_000_000_000_000_000_000,
            aead: AeadOffer::of_this_cpu(),
            parameters: TunnelParameters::default(),
        };
        let (mut initiation, _) = Initiation::start(
            &private_key(EndId::Home(1)),
            &private_key(EndId::Concentrator).public_key(),
            None,
            None,
            SessionIndex::new(77),
            &hello,
            &mut os_random(),
        )
        .unwrap();
        simulation.inject(EndId::Concentrator, 0, address, &initiation.datagram(None));
        let reply = simulation.take_strays().pop().expect("an answer to a peer");
        let established = initiation.finish(&reply.bytes).unwrap();
        Self { established, address, number: 0 }
    }

    fn send(&mut self, simulation: &mut Simulation, path: u8, mut payload: Vec<u8>) {
        let header = DataHeader {
            receiver: self.established.remote_index.get(),
            path,
            packet_number: (self.number & 0xff_ffff) as u32,
        }
        .to_bytes();
        let tag = self.established.seal.seal(path, self.number, &header, &mut payload);
        let datagram = [&header[..], &payload, &tag[..]].concat();
        self.number += 1;
        simulation.inject(EndId::Concentrator, 0, self.address, &datagram);
    }
}

fn hostile_frame(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut out = Vec::new();
    let most = if random.bool() { 8 } else { u16::MAX };
    let flow = random.u16(..most);
    let bits = if random.bool() { 6 } else { 24 };
    let sequence = random.u32(..1 << bits);
    match random.u8(..9) {
        0 => out.extend((0..random.usize(1..300)).map(|_| random.u8(..))),
        1 => {
            let largest = random.u64(..1 << 33);
            let low = random.u64(..=largest);
            AckWriter {
                path: random.u8(..4),
                largest,
                largest_received_us: random.u32(..),
                delay_us: random.u32(..),
                ranges: &[(low, largest)],
                arrivals: &[],
            }
            .write(&mut out);
        }
        2 => Abandoned { flow, sequence, count: random.u8(1..) }.write(&mut out),
        3 => PathStatus {
            path: random.u8(..),
            tier: random.u8(..),
            standby: random.bool(),
            abandoned: random.bool(),
            cap: None,
        }
        .write(&mut out),
        4 => {
            let sources: Vec<SourceRef> = (0..random.usize(1..8))
                .map(|_| SourceRef {
                    flow,
                    sequence,
                    offset: random.u32(..60_000),
                    len: random.u16(1..1400),
                })
                .collect();
            let body = vec![random.u8(..); random.usize(1..1200)];
            ErasureFrame::write(&mut out, &sources, &body);
        }
        5 => TunnelMode { mode: random.u8(..), hash: random.u8(..) }.write(&mut out),
        _ => {
            let total = random.u32(2..65_000);
            let offset = if random.bool() { 0 } else { random.u32(..total) };
            let len = random.u32(1..=(total - offset).min(1200));
            let data = vec![random.u8(..); len as usize];
            Chunk {
                flow,
                sequence,
                unordered: random.bool(),
                realtime: random.bool(),
                position: ChunkPosition::of(Offload::default(), total, offset, len),
                data: &data,
            }
            .write(&mut out, true);
        }
    }
    out
}

#[test]
fn a_malicious_peer_harms_nobody_else() {
    let mut scenario = Scenario::new(three_links())
        .traffic(pings())
        .traffic(Traffic::tcp(Lane::Down))
        .lasting(secs(6));
    scenario.homes = 2;
    scenario.memory = 4 << 20;
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(secs(1));
    let mut malicious = Malicious::join(&mut simulation);
    let mut random = fastrand::Rng::with_seed(1);
    for step in 0..4000u64 {
        for _ in 0..8 {
            let frame = hostile_frame(&mut random);
            let path = random.u8(..if step % 10 == 0 { 255 } else { 3 });
            malicious.send(&mut simulation, path, frame);
        }
        simulation.take_strays();
        simulation.run_until(secs(1) + std::time::Duration::from_millis(step));
    }
    simulation.run_until(secs(10));
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert!(outcome.memory_high_water <= 5 << 20, "{}", outcome.memory_high_water);
    assert_eq!(outcome.flows[0].lost(), 0);
    assert!(outcome.flows[1].mbit(secs(3), secs(6)) > 25.0);
}

#[test]
fn a_peer_may_only_send_from_its_own_addresses() {
    let mut scenario = Scenario::new(vec![link(10, 10, 5)]).lasting(secs(3));
    scenario.homes = 2;
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(secs(1));
    let mut malicious = Malicious::join(&mut simulation);
    let mut put = |simulation: &mut Simulation, src: [u8; 4]| {
        let packet = udp_packet(src.into(), [198, 51, 100, 1].into(), (1, 2), &[0; 4]);
        let mut frame = Vec::new();
        Chunk {
            flow: 1,
            sequence: malicious.number as u32,
            unordered: false,
            realtime: false,
            position: ChunkPosition::Whole(Offload::default().into()),
            data: &packet.bytes,
        }
        .write(&mut frame, true);
        malicious.send(simulation, 0, frame);
        simulation.strangers().len()
    };
    assert_eq!(put(&mut simulation, [10, 99, 0, 2]), 0, "the other home's address");
    assert_eq!(put(&mut simulation, [198, 51, 100, 1]), 0, "nobody's address");
    assert_eq!(put(&mut simulation, [10, 99, 1, 2]), 1, "its own address");
}
