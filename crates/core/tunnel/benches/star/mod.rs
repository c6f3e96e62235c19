//! Homes and their concentrator in one process and in virtual time: what goes
//! in at one end comes out at the other by way of all of the core, and of
//! nothing else. Benches, the count of allocations and that of instructions
//! share it.

#![allow(dead_code, reason = "each of them uses another part")]

use braid_handshake::{
    AeadOffer, Hello, Initiation, PrivateKey, PublicKey, SessionIndex, TunnelParameters, os_random,
};
use braid_inner::{
    Checksum, InnerPacket, Offload, Segmentation, SegmentationKind, Ticks, checksum,
};
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Transmit, Tunnel, TunnelConfig};
use braid_units::Time;
use braid_wire::DataHeader;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// One way, by any link, unless another is asked for.
const DELAY: Duration = Duration::from_micros(100);
/// Between two turns.
pub const TURN: Duration = Duration::from_micros(50);
const CONCENTRATOR: SocketAddr = address(Ipv4Addr::new(203, 0, 113, 1), 51_820);
const CONCENTRATOR_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MSS: usize = 1448;
const TCP_HEADERS: usize = 52;

/// Who sends what in each turn.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of the inner packets: 64 KB make a TCP super-packet, anything
    /// else a UDP packet.
    pub size: usize,
    /// Packets a turn, of all busy homes together, in each direction.
    pub packets: usize,
    /// From the homes.
    pub up: bool,
    /// To the homes.
    pub down: bool,
    /// Homes that have traffic: the first ones, in turn.
    pub busy: usize,
}

impl Load {
    /// A TCP super-packet.
    pub const SUPER: usize = TCP_HEADERS + 44 * MSS;
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivered {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Batches of several datagrams from the concentrator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streamed {
    /// How many.
    pub batches: u64,
    /// How many of them went by another link than the one before.
    pub changes: u64,
}

/// A concentrator and homes.
pub struct Star {
    now: Time,
    delay: Duration,
    concentrator: Tunnel,
    homes: Vec<Tunnel>,
    wire: VecDeque<Batch>,
    spare: Vec<Vec<u8>>,
    out: Vec<u8>,
    timers: BTreeSet<(Time, usize)>,
    timer_of: Vec<Option<Time>>,
    touched: Vec<usize>,
    template: InnerPacket,
    next_home: usize,
    /// Packets that are for a home one after another.
    row: usize,
    in_row: usize,
    /// Turns from one with packets to the next.
    every: u64,
    turns: u64,
    flows: u16,
    strangers: u32,
    answers: u64,
    delivered: Delivered,
    streamed: Streamed,
    last_stream: Option<(usize, LinkId)>,
}

struct Batch {
    at: Time,
    /// `None` is the concentrator.
    to: Option<usize>,
    link: LinkId,
    from: SocketAddr,
    segment: usize,
    bytes: Vec<u8>,
}

impl Star {
    /// All connected: `links` a home.
    pub fn new(homes: usize, links: u16) -> Self {
        Self::with_delay(homes, links, DELAY)
    }

    /// All connected, by links that take so long one way.
    pub fn with_delay(homes: usize, links: u16, delay: Duration) -> Self {
        // Enough for all homes to call at once.
        Self::with_handshakes(homes, links, delay, 1_000_000)
    }

    /// With the budgets for so many handshakes a second.
    pub fn with_handshakes(homes: usize, links: u16, delay: Duration, per_second: u32) -> Self {
        let public = |number: usize| -> PublicKey { key(number).public_key() };
        let config = |number: usize| TunnelConfig {
            seed: number as u64 + 1,
            epoch_unix_nanos: 1_700_000_000_000_000_000,
            handshakes_per_second: per_second,
            ..TunnelConfig::new(key(number))
        };
        let peer = |number, endpoints, allowed: &str| PeerConfig {
            endpoints,
            allowed_ips: allowed.parse().into_iter().collect(),
            keepalive: Some(Duration::from_secs(25)),
            ..PeerConfig::new(public(number))
        };
        let listens = LinkConfig { listens: true, ..LinkConfig::default() };
        let mut concentrator = at_concentrator(|| {
            let mut concentrator = Tunnel::new(config(homes));
            concentrator.add_link(LinkId(0), listens, Time::ZERO);
            concentrator
        });
        let homes: Vec<Tunnel> = (0..homes)
            .map(|number| {
                let inside = format!("{}/32", inside(number));
                at_concentrator(|| {
                    concentrator.add_peer(peer(number, Vec::new(), &inside), Time::ZERO)
                });
                let mut home = Tunnel::new(config(number));
                for link in 0..links {
                    home.add_link(LinkId(link), LinkConfig::default(), Time::ZERO);
                }
                home.add_peer(peer(homes, vec![CONCENTRATOR], "0.0.0.0/0"), Time::ZERO);
                home
            })
            .collect();
        let mut star = Self {
            now: Time::ZERO,
            delay,
            concentrator,
            timers: (0..homes.len()).map(|home| (Time::ZERO, home)).collect(),
            timer_of: vec![Some(Time::ZERO); homes.len()],
            homes,
            wire: VecDeque::new(),
            spare: Vec::new(),
            out: Vec::with_capacity(1 << 17),
            touched: Vec::new(),
            template: packet(64),
            next_home: 0,
            row: 1,
            in_row: 0,
            every: 1,
            turns: 0,
            flows: 1,
            strangers: 0,
            answers: 0,
            delivered: Delivered::default(),
            streamed: Streamed::default(),
            last_stream: None,
        };
        let idle = Load { size: 64, packets: 0, up: false, down: false, busy: 0 };
        star.run(idle, Duration::from_secs(8));
        star
    }

    /// The ends' CPUs are the bottleneck, from now on.
    pub fn cpu_bound(mut self) -> Self {
        self.homes.iter_mut().for_each(|home| home.set_cpu_bound(true));
        at_concentrator(|| self.concentrator.set_cpu_bound(true));
        self
    }

    /// So many flows a home, from now on.
    pub fn with_flows(mut self, flows: u16) -> Self {
        self.flows = flows;
        self
    }

    /// So many packets for a home one after another, from now on.
    pub fn with_rows(mut self, row: usize) -> Self {
        self.row = row;
        self
    }

    /// Packets come in one of so many turns only, from now on.
    pub fn with_pauses(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    /// Goes on for so long; what came out meanwhile.
    pub fn run(&mut self, load: Load, time: Duration) -> Delivered {
        let before = self.delivered;
        self.template = packet(load.size);
        let until = self.now + time;
        while self.now < until {
            self.turn(load);
            if load.packets == 0 {
                self.skip_quiet(until);
            }
        }
        Delivered {
            packets: self.delivered.packets - before.packets,
            bytes: self.delivered.bytes - before.bytes,
        }
    }

    /// The receivers' indices of the sessions whose data is on the wire now.
    pub fn sessions(&self) -> BTreeSet<u32> {
        let headers = self.wire.iter().filter_map(|batch| DataHeader::parse(&batch.bytes).ok());
        headers.map(|header| header.receiver).collect()
    }

    /// One turn of all ends.
    pub fn turn(&mut self, load: Load) {
        self.turns += 1;
        let packets = if self.turns.is_multiple_of(self.every) { load.packets } else { 0 };
        for _ in 0..packets {
            let home = self.next_home;
            self.in_row += 1;
            if self.in_row >= self.row {
                self.in_row = 0;
                self.next_home = (home + 1) % load.busy.max(1);
            }
            if load.up {
                let packet = self.packet(inside(home), CONCENTRATOR_INSIDE, self.delivered.packets);
                self.touched.push(home);
                self.home_takes(home, packet);
            }
            if load.down {
                let flow = self.delivered.packets;
                let packet = self.packet(CONCENTRATOR_INSIDE, inside(home), flow);
                at_concentrator(|| self.concentrator.handle_inner(self.now, packet));
            }
        }
        self.turn_of_homes();
        self.turn_of_concentrator();
        self.now += TURN;
        while self.wire.front().is_some_and(|batch| batch.at <= self.now) {
            let Some(batch) = self.wire.pop_front() else { break };
            self.arrive(batch);
        }
    }

    /// These initiations come to the concentrator, from somebody who is no peer
    /// and says that he is somewhere else each time.
    pub fn strangers(&mut self, initiations: &mut [Vec<u8>]) {
        for initiation in initiations {
            self.strangers = self.strangers.wrapping_add(0x9e37_79b9);
            let from = address(Ipv4Addr::from_bits(0x0a00_0000 | self.strangers >> 8), 1);
            at_concentrator(|| {
                self.concentrator.handle_datagram(self.now, LinkId(0), from, None, initiation);
            });
        }
    }

    /// Answers to strangers.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Nothing happens before the next timer or arrival.
    fn skip_quiet(&mut self, until: Time) {
        let timers = self.timers.first().map(|timer| timer.0);
        let arrival = self.wire.front().map(|batch| batch.at);
        let next = [timers, arrival, self.concentrator.next_timeout()].into_iter().flatten().min();
        self.now = self.now.max(next.unwrap_or(until).min(until));
    }

    fn home_takes(&mut self, home: usize, packet: InnerPacket) {
        self.homes[home].handle_inner(self.now, packet);
    }

    fn arrive(&mut self, batch: Batch) {
        let Batch { to, link, from, segment, mut bytes, .. } = batch;
        let mut take = |tunnel: &mut Tunnel| {
            for datagram in bytes.chunks_mut(segment) {
                tunnel.handle_datagram(self.now, link, from, None, datagram);
            }
        };
        match to {
            Some(home) => take(&mut self.homes[home]),
            None => at_concentrator(|| take(&mut self.concentrator)),
        }
        self.touched.extend(to);
        if self.spare.len() < 4096 {
            self.spare.push(bytes);
        }
    }

    fn turn_of_homes(&mut self) {
        while let Some((_, home)) = self.timers.pop_first_if_due(self.now) {
            self.timer_of[home] = None;
            self.touched.push(home);
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for &home in &touched {
            let tunnel = &mut self.homes[home];
            if tunnel.next_timeout().is_some_and(|at| at <= self.now) {
                tunnel.handle_timeout(self.now);
            }
            while let Some(transmit) = tunnel.poll_transmit(self.now, &mut self.out) {
                let from = address(
                    Ipv4Addr::new(198, 18, (home >> 8) as u8, home as u8),
                    1000 + transmit.link.0,
                );
                let at = self.now + self.delay;
                let batch = batch(at, None, LinkId(0), from, transmit, &self.out, &mut self.spare);
                self.wire.push_back(batch);
            }
            while let Some(packet) = tunnel.poll_inner() {
                self.delivered.packets += 1;
                self.delivered.bytes += packet.bytes.len() as u64;
                tunnel.recycle(packet.bytes);
            }
            while tunnel.poll_event().is_some() {}
            if let Some(old) = self.timer_of[home].take() {
                self.timers.remove(&(old, home));
            }
            if let Some(at) = tunnel.next_timeout() {
                self.timers.insert((at, home));
                self.timer_of[home] = Some(at);
            }
        }
        touched.clear();
        self.touched = touched;
    }

    fn turn_of_concentrator(&mut self) {
        at_concentrator(|| {
            if self.concentrator.next_timeout().is_some_and(|at| at <= self.now) {
                self.concentrator.handle_timeout(self.now);
            }
        });
        while let Some(transmit) =
            at_concentrator(|| self.concentrator.poll_transmit(self.now, &mut self.out))
        {
            if matches!(transmit.remote.ip(), IpAddr::V4(ip) if ip.octets()[0] == 10) {
                self.answers += 1;
                continue;
            }
            let (home, link) = home_at(transmit.remote);
            if self.out.len() > transmit.segment {
                self.streamed.batches += 1;
                let by = Some((home, link));
                self.streamed.changes += u64::from(self.last_stream != by);
                self.last_stream = by;
            }
            let batch = batch(
                self.now + self.delay,
                Some(home),
                link,
                CONCENTRATOR,
                transmit,
                &self.out,
                &mut self.spare,
            );
            self.wire.push_back(batch);
        }
        at_concentrator(|| {
            while let Some(packet) = self.concentrator.poll_inner() {
                self.delivered.packets += 1;
                self.delivered.bytes += packet.bytes.len() as u64;
                self.concentrator.recycle(packet.bytes);
            }
            while self.concentrator.poll_event().is_some() {}
        });
    }

    /// The template between these two, in a buffer of the sender's.
    fn packet(&mut self, from: Ipv4Addr, to: Ipv4Addr, flow: u64) -> InnerPacket {
        let capacity = self.template.bytes.len();
        let mut bytes = match to == CONCENTRATOR_INSIDE {
            true => self.homes[home_inside(from)].take_buffer(capacity),
            false => at_concentrator(|| self.concentrator.take_buffer(capacity)),
        };
        bytes.clear();
        bytes.extend_from_slice(&self.template.bytes);
        bytes[12..16].copy_from_slice(&from.octets());
        bytes[16..20].copy_from_slice(&to.octets());
        let port = 40_000 + (flow % u64::from(self.flows)) as u16;
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = !checksum::sum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        InnerPacket { bytes, offload: self.template.offload }
    }
}

/// That of a home, by its number; the concentrator's is the next.
pub fn key(number: usize) -> PrivateKey {
    let mut seed = [7; 32];
    // Not the first byte, of which X25519 ignores bits.
    seed[8..16].copy_from_slice(&(number as u64 + 1).to_le_bytes());
    PrivateKey::from_bytes(&seed)
}

/// All that the concentrator does, so that instructions can be counted of it
/// alone (`callgrind --toggle-collect`), and memory.
#[inline(never)]
pub fn at_concentrator<T>(work: impl FnOnce() -> T) -> T {
    AT_CONCENTRATOR.set(true);
    let result = match TIMED.get() {
        false => black_box(work()),
        true => {
            let began = Instant::now();
            let result = black_box(work());
            CONCENTRATOR_TIME.set(CONCENTRATOR_TIME.get() + began.elapsed());
            result
        }
    };
    AT_CONCENTRATOR.set(false);
    result
}

thread_local! {
    /// What runs now is the concentrator's.
    pub static AT_CONCENTRATOR: Cell<bool> = const { Cell::new(false) };
    /// Its time is measured from now on.
    pub static TIMED: Cell<bool> = const { Cell::new(false) };
    /// What it has taken.
    pub static CONCENTRATOR_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn batch(
    at: Time,
    to: Option<usize>,
    link: LinkId,
    from: SocketAddr,
    transmit: Transmit,
    bytes: &[u8],
    spare: &mut Vec<Vec<u8>>,
) -> Batch {
    let mut copy = spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(bytes);
    Batch { at, to, link, from, segment: transmit.segment, bytes: copy }
}

const fn address(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(ip), port)
}

fn home_at(remote: SocketAddr) -> (usize, LinkId) {
    let IpAddr::V4(ip) = remote.ip() else { unreachable!() };
    let [_, _, high, low] = ip.octets();
    (usize::from(high) << 8 | usize::from(low), LinkId(remote.port() - 1000))
}

fn inside(home: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, (home >> 8) as u8, home as u8)
}

fn home_inside(address: Ipv4Addr) -> usize {
    let [_, _, high, low] = address.octets();
    usize::from(high) << 8 | usize::from(low)
}

fn packet(size: usize) -> InnerPacket {
    let mut bytes = vec![0; size];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    bytes[8] = 64;
    if size < Load::SUPER {
        bytes[9] = 17;
        bytes[22..24].copy_from_slice(&7777_u16.to_be_bytes());
        bytes[24..26].copy_from_slice(&(size as u16 - 20).to_be_bytes());
        return InnerPacket { bytes, offload: Offload::default() };
    }
    bytes[9] = 6;
    bytes[32] = 0x80;
    bytes[33] = 0x10;
    let segmentation = Segmentation {
        kind: SegmentationKind::TcpV4,
        ecn: false,
        header_len: TCP_HEADERS as u16,
        segment_size: NonZeroU16::new(MSS as u16).unwrap_or(NonZeroU16::MIN),
        ticks: Ticks::NONE,
    };
    let offload = Offload {
        checksum: Checksum::Partial { start: 20, offset: 16 },
        segmentation: Some(segmentation),
    };
    InnerPacket { bytes, offload }
}

trait PopDue {
    fn pop_first_if_due(&mut self, now: Time) -> Option<(Time, usize)>;
}

impl PopDue for BTreeSet<(Time, usize)> {
    fn pop_first_if_due(&mut self, now: Time) -> Option<(Time, usize)> {
        if self.first()?.0 <= now { self.pop_first() } else { None }
    }
}
impl Star {
    /// Chunks that were sent again, by all ends.
    pub fn repaired(&self) -> u64 {
        let ends = self.homes.iter().chain([&self.concentrator]);
        let reports = ends.flat_map(|end| end.report(self.now));
        reports.map(|(_, report)| report.counters.repaired).sum()
    }

    /// What the concentrator has sent in batches since this was asked last.
    pub fn take_streamed(&mut self) -> Streamed {
        std::mem::take(&mut self.streamed)
    }

    /// How things are at the concentrator.
    pub fn report(&self) -> String {
        format!("{:#?} {:#?}", self.concentrator.report(self.now), self.homes[0].report(self.now))
    }
}

/// Initiations as anybody can make them, of a key that is no peer's.
pub fn initiations(count: u32) -> Vec<Vec<u8>> {
    let mut rng = os_random();
    let stranger = PrivateKey::generate(&mut rng);
    let hello = Hello {
        instance: 1,
        timestamp: 1,
        aead: AeadOffer::ChaCha20Poly1305,
        parameters: TunnelParameters::default(),
    };
    let index = SessionIndex::new;
    let start = |number| {
        let concentrator = key(1).public_key();
        Initiation::start(&stranger, &concentrator, None, None, index(number), &hello, &mut rng)
    };
    (0..count).map(start).map(|started| started.expect("keys that fit").1).collect()
}
