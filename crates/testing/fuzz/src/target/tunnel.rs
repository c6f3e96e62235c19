use super::input::Input;
use super::rng::Rng;
use braid_handshake::*;
use braid_inner::{InnerPacket, Layer, Offload, check};
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use braid_wire::*;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A malicious peer with valid keys: the input says what it sends and when. The tunnel doesn't
/// panic, stays within its memory limit, always comes to rest, and only delivers packets that may
/// come from that peer.
pub fn tunnel(data: &[u8]) {
    let mut input = Input(data);
    let mut attack = Attack::new();
    attack.shake_hands(1);
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        attack.step(&mut input);
        attack.check();
    }
}

/// Bounds the time of one run.
const MOST_STEPS: usize = 60;
/// The peer's limit; half of it for out-of-order data.
const MEMORY: u64 = 1 << 20;
/// Flow states are kept as long as the connection: 65 536 of 96 bytes.
const FLOW_STATES: u64 = 65_536 * 96;
/// One packet beyond the limit may be held, in a somewhat larger buffer.
const SLACK: u64 = 256 << 10;

struct Attack {
    now: Time,
    tunnel: Tunnel,
    victim: PublicKey,
    key: PrivateKey,
    rng: Rng,
    handshakes: u64,
    session: Option<Established>,
    /// The next packet number of each path.
    numbers: [u64; 256],
    /// The largest packet number seen of the victim, of each path.
    seen: [Option<u64>; 256],
    last: Vec<u8>,
}

impl Attack {
    fn new() -> Self {
        let mut rng = Rng(1);
        let private_key = PrivateKey::generate(&mut rng);
        let key = PrivateKey::generate(&mut rng);
        let victim = private_key.public_key();
        let now = Time::from_millis(1000);
        let config = TunnelConfig { memory_per_peer: MEMORY, ..TunnelConfig::new(private_key) };
        let mut tunnel = Tunnel::new(config);
        tunnel.add_link(LINK, LinkConfig { listens: true, ..LinkConfig::default() }, now);
        let peer = PeerConfig {
            public_key: key.public_key(),
            preshared_key: None,
            endpoints: Vec::new(),
            allowed_ips: vec![std::net::IpAddr::V4(ATTACKER).into()],
            keepalive: None,
            follow_mode: true,
        };
        tunnel.add_peer(peer, now);
        Attack {
            now,
            tunnel,
            victim,
            key,
            rng,
            handshakes: 0,
            session: None,
            numbers: [0; 256],
            seen: [None; 256],
            last: Vec::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let how = input.u8();
        let flag = |bit: u8| how & (1 << bit) != 0;
        match how & 7 {
            0..=2 => {
                let path = if flag(3) { input.u8() } else { how & 1 };
                let skipped = if flag(4) { u64::from(input.u16()) << 7 } else { 0 };
                let len = usize::from(input.u16()) % 1400;
                let frames = input.bytes(len).to_vec();
                self.send(path, skipped, frames);
            }
            3 => {
                let unit = if flag(3) { 10_000 } else { 100 };
                self.wait(Duration::from_micros(u64::from(input.u16()) * unit));
                if flag(4) {
                    self.acknowledge_all();
                }
            }
            4 => {
                let len = 28 + usize::from(input.u16()) % 9000;
                self.tunnel.handle_inner(self.now, packet_for_attacker(len, input.u8()));
            }
            5 => {
                let len = input.u8().into();
                let mut datagram = input.bytes(len).to_vec();
                self.hand_over(1, &mut datagram);
            }
            6 if flag(3) => self.shake_hands(if flag(4) { 1 } else { input.u64() }),
            6 => {
                let mut again = self.last.clone();
                self.hand_over(2, &mut again);
            }
            _ => self.send_many(how, input),
        }
        self.drain();
    }

    /// Turns a short input into many frames, whose flows and numbers follow each other at some
    /// distance.
    fn send_many(&mut self, how: u8, input: &mut Input<'_>) {
        let (flow, flow_step) = (input.u16(), u16::from(input.u8()));
        let (sequence, step) = (u32::from(input.u16()) << 4, u32::from(input.u8()));
        let (offset, count) = (u32::from(input.u16()), input.u16() % 2048);
        let data = [u8::try_from(count & 0xff).unwrap_or(0x45); 16];
        let mut frames = Vec::new();
        for i in 0..count {
            let flow = flow.wrapping_add(i.wrapping_mul(flow_step));
            let sequence = sequence.wrapping_add(u32::from(i) * step) & 0xff_ffff;
            if how & 8 != 0 {
                Abandoned { flow, sequence, count: 255 }.write(&mut frames);
            } else {
                let position = match how >> 4 & 3 {
                    0 => ChunkPosition::Whole(Offload::default().into()),
                    1 => {
                        ChunkPosition::First { form: Offload::default().into(), total: 17 + offset }
                    }
                    2 => ChunkPosition::Middle { offset: 1 + offset },
                    _ => ChunkPosition::Last { offset: 1 + offset },
                };
                let (unordered, realtime) = (how & 64 != 0, how & 128 != 0);
                Chunk { flow, sequence, unordered, realtime, position, data: &data }
                    .write(&mut frames, false);
            }
            if frames.len() > 1300 {
                self.send(0, 0, std::mem::take(&mut frames));
            }
        }
        self.send(0, 0, frames);
    }

    /// Sends a data datagram, encrypted with the right key.
    fn send(&mut self, path: u8, skipped: u64, mut frames: Vec<u8>) {
        let Some(session) = &self.session else { return };
        let number = self.numbers[usize::from(path)] + skipped;
        self.numbers[usize::from(path)] = number + 1;
        let packet_number = (number & 0xff_ffff) as u32;
        let header =
            DataHeader { receiver: session.remote_index.get(), path, packet_number }.to_bytes();
        let tag = session.seal.seal(path, number, &header, &mut frames);
        let mut datagram = [&header[..], &frames, &tag].concat();
        self.last.clone_from(&datagram);
        self.hand_over(1, &mut datagram);
    }

    fn acknowledge_all(&mut self) {
        let mut frames = Vec::new();
        for (path, seen) in (0..=255).zip(self.seen) {
            let Some(largest) = seen else { continue };
            let largest_received_us = self.now.as_micros() as u32;
            let ranges = &[(0, largest)];
            AckWriter { path, largest, largest_received_us, delay_us: 0, ranges, arrivals: &[] }
                .write(&mut frames);
        }
        self.send(0, 0, frames);
    }

    fn hand_over(&mut self, port: u16, datagram: &mut [u8]) {
        let from: SocketAddr = (Ipv4Addr::new(192, 0, 2, 1), port).into();
        self.tunnel.handle_datagram(self.now, LINK, from, None, datagram);
    }

    fn shake_hands(&mut self, instance: u64) {
        self.handshakes += 1;
        let index = SessionIndex::new(self.handshakes as u32);
        let hello = Hello {
            instance,
            timestamp: self.handshakes,
            aead: AeadOffer::ChaCha20Poly1305,
            parameters: TunnelParameters::default(),
        };
        let (mut initiation, mut message) =
            Initiation::start(&self.key, &self.victim, None, None, index, &hello, &mut self.rng)
                .expect("own keys are good");
        self.hand_over(1, &mut message);
        let mut out = Vec::new();
        for _ in 0..MOST_DATAGRAMS {
            if self.tunnel.poll_transmit(self.now, &mut out).is_none() {
                return;
            }
            if let Ok(session) = initiation.finish(&out) {
                if instance != 1 {
                    self.numbers = [0; 256];
                }
                self.session = Some(session);
                return;
            }
        }
    }

    /// Advances the time, from one deadline to the next if there are few.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..100 {
            match self.tunnel.next_timeout() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.tunnel.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
        self.tunnel.handle_timeout(self.now);
        self.drain();
    }

    /// Takes everything that the tunnel outputs.
    fn drain(&mut self) {
        let mut out = Vec::new();
        let mut count = 0;
        while let Some(transmit) = self.tunnel.poll_transmit(self.now, &mut out) {
            assert!(transmit.segment > 0 && !out.is_empty() && transmit.link == LINK);
            for datagram in out.chunks(transmit.segment) {
                if let Ok(header) = DataHeader::parse(datagram) {
                    let seen = &mut self.seen[usize::from(header.path)];
                    *seen = Some(expand(header.packet_number, 24, seen.map_or(0, |n| n + 1)));
                }
            }
            count += 1;
            assert!(count < MOST_DATAGRAMS, "it sends without an end");
        }
        while let Some(packet) = self.tunnel.poll_inner() {
            let checked = check(&packet.bytes, packet.offload, Layer::L3);
            assert!(checked.is_ok(), "a broken packet came out: {checked:?}");
            assert_eq!(packet.bytes[12..16], ATTACKER.octets(), "a forged source came out");
            self.tunnel.recycle(packet.bytes);
        }
    }

    fn check(&self) {
        for (_, report) in self.tunnel.report(self.now) {
            let held = report.exit.held_bytes;
            assert!(held <= MEMORY / 2 + FLOW_STATES + SLACK, "{held} bytes out of order");
            let waiting = report.entry.bytes;
            assert!(waiting <= MEMORY / 4 + SLACK, "{waiting} bytes at the entry");
            let sent = report.unacknowledged_bytes;
            assert!(sent <= MEMORY / 4 + SLACK, "{sent} bytes unacknowledged");
            assert!(report.paths.len() <= 64);
        }
    }
}

const LINK: LinkId = LinkId(0);
const ATTACKER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MOST_DATAGRAMS: usize = 10_000;

/// UDP over IPv4, of `len` bytes, to some port.
fn packet_for_attacker(len: usize, port: u8) -> InnerPacket {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[12..16].copy_from_slice(&[10, 0, 0, 1]);
    bytes[16..20].copy_from_slice(&ATTACKER.octets());
    bytes[23] = port;
    let sum = !braid_inner::checksum::sum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    InnerPacket { bytes, offload: Offload::default() }
}
