//! What runs through the tunnel: sources, sinks, and what they measured.

mod greedy;
mod outbox;
mod outcome;
mod ping;
mod steady;
mod tcp;

pub(crate) use outbox::Outbox;
pub use outcome::FlowOutcome;
pub use tcp::Congestion;

use crate::ledger::{Delivered, Ledger};
use crate::packet::{Ends, Segment};
use braid_inner::{FlowKey, InnerPacket, Layer, Selector};
use braid_units::{Rate, Time};
use greedy::Greedy;
use ping::Ping;
use std::net::Ipv4Addr;
use std::time::Duration;
use steady::Steady;
use tcp::Tcp;

/// A direction through the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Towards the home.
    Down,
    /// Towards the concentrator.
    Up,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Whose.
    pub home: usize,
    /// Which way (of data, or of echo requests).
    pub lane: Lane,
    /// What.
    pub kind: TrafficKind,
    /// From when.
    pub start: Duration,
    /// Until when; at most the scenario's duration.
    pub stop: Duration,
}

/// What a flow is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrafficKind {
    /// UDP that keeps up to `backlog` bytes waiting at the tunnel's entry.
    Greedy {
        /// Bytes.
        backlog: u64,
        /// Payload bytes of a packet.
        size: usize,
    },
    /// UDP at a constant rate.
    Constant {
        /// Of payload.
        rate: Rate,
        /// Payload bytes of a packet.
        size: usize,
    },
    /// 50 packets of 200 bytes (172 of payload) a second.
    Voip,
    /// Echo requests, answered at the other end.
    Ping {
        /// Between two of them.
        interval: Duration,
    },
    /// One TCP connection with unlimited data.
    Tcp {
        /// How it shares.
        congestion: Congestion,
        /// The sender's kernel leaves segmentation to the tunnel.
        super_packets: bool,
    },
}

impl Traffic {
    /// From the start to the end, by the first home.
    pub fn new(lane: Lane, kind: TrafficKind) -> Self {
        Self { home: 0, lane, kind, start: Duration::ZERO, stop: Duration::MAX }
    }

    /// A TCP connection (cubic, super-packets).
    pub fn tcp(lane: Lane) -> Self {
        Self::new(lane, TrafficKind::Tcp { congestion: Congestion::Cubic, super_packets: true })
    }

    /// Pings from the home each 100 ms.
    pub fn ping() -> Self {
        Self::new(Lane::Up, TrafficKind::Ping { interval: Duration::from_millis(100) })
    }

    /// Another start.
    pub fn from(mut self, start: Duration) -> Self {
        self.start = start;
        self
    }

    /// Of another home.
    pub fn of_home(mut self, home: usize) -> Self {
        self.home = home;
        self
    }
}

impl Lane {
    /// The other direction.
    pub fn back(self) -> Self {
        match self {
            Self::Down => Self::Up,
            Self::Up => Self::Down,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Down => 0,
            Self::Up => 1,
        }
    }
}

/// A running flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub traffic: Traffic,
    index: usize,
    source: Source,
    ledgers: [Ledger; 2],
    pub measured: Measured,
}

#[derive(Debug)]
enum Source {
    Greedy(Greedy),
    Steady(Steady),
    Ping(Ping),
    Tcp(Box<Tcp>),
}

/// What the sinks saw.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    tenths: Vec<u64>,
    times: Vec<Duration>,
    pub delays: Vec<Duration>,
    pub retransmissions: u64,
    pub timeouts: u64,
    pub cuts: u64,
    pub window: usize,
}

/// Tenths of a second whose bytes are counted: two hours.
const TENTHS: usize = 72_000;

impl Measured {
    /// The receiver got `bytes`.
    pub fn got(&mut self, bytes: u64, now: Time) {
        let tenth = (now.as_millis() / 100) as usize;
        if tenth < TENTHS {
            if self.tenths.len() <= tenth {
                self.tenths.resize(tenth + 1, 0);
            }
            self.tenths[tenth] += bytes;
        }
        let at = now - Time::ZERO;
        if self.times.last() != Some(&at) {
            self.times.push(at);
        }
    }
}

impl Flow {
    pub fn new(mut traffic: Traffic, index: usize, duration: Duration) -> Self {
        traffic.stop = traffic.stop.min(duration);
        let start = Time::ZERO + traffic.start;
        let source = match traffic.kind {
            TrafficKind::Greedy { backlog, size } => {
                Source::Greedy(Greedy::new(backlog, size, start))
            }
            TrafficKind::Constant { rate, size } => Source::Steady(Steady::new(rate, size, start)),
            TrafficKind::Voip => Source::Steady(Steady::new(
                Rate::from_bytes_per_sec(50 * 172),
                172,
                // Calls don't tick together with everything else.
                start + Duration::from_micros(1300 * (index as u64 + 1)),
            )),
            TrafficKind::Ping { interval } => Source::Ping(Ping::new(interval, start)),
            TrafficKind::Tcp { congestion, super_packets } => {
                Source::Tcp(Box::new(Tcp::new(congestion, super_packets, start)))
            }
        };
        Self { traffic, index, source, ledgers: Default::default(), measured: Measured::default() }
    }

    /// When it next has something to do.
    pub fn next_deadline(&self, now: Time) -> Option<Time> {
        let stop = Time::ZERO + self.traffic.stop;
        match &self.source {
            Source::Greedy(greedy) => Some(greedy.next_at).filter(|&at| at < stop),
            Source::Steady(steady) => Some(steady.next_at).filter(|&at| at < stop),
            Source::Ping(ping) => ping.next_deadline(stop),
            Source::Tcp(tcp) => tcp.next_deadline(now, stop),
        }
    }

    /// Does it. `waiting`: bytes at the entry queue of the flow's direction.
    pub fn poll(
        &mut self,
        now: Time,
        waiting: impl FnOnce() -> u64,
        layer: Layer,
        out: &mut Vec<(Lane, InnerPacket)>,
    ) {
        if self.next_deadline(now).is_none_or(|at| at > now) {
            return;
        }
        let stopped = now >= Time::ZERO + self.traffic.stop;
        let mut outbox = Outbox {
            ends: ends_of(self.traffic.home, self.index),
            lane: self.traffic.lane,
            layer,
            ledgers: &mut self.ledgers,
            out,
        };
        match &mut self.source {
            Source::Greedy(greedy) => greedy.poll(now, waiting(), &mut outbox),
            Source::Steady(steady) => steady.poll(now, &mut outbox),
            Source::Ping(ping) => ping.poll(now, stopped, &mut outbox),
            Source::Tcp(tcp) => tcp.poll(now, stopped, &mut outbox, &mut self.measured),
        }
    }

    /// Segments of one packet came out. Errors are broken rules.
    pub fn on_segments(
        &mut self,
        now: Time,
        lane: Lane,
        segments: &[Segment],
        in_order: bool,
    ) -> Result<(), String> {
        let mut fresh = Vec::with_capacity(segments.len());
        let mut broken = None;
        for segment in segments {
            let delivered = self.ledgers[lane.index()].deliver(segment)?;
            let Delivered { first, overtaken, .. } = delivered;
            if in_order && !first {
                broken = Some(format!("segment {} came out twice", segment.number));
            }
            if in_order && overtaken {
                broken = Some(format!("segment {} came out of order", segment.number));
            }
            if first {
                fresh.push((delivered, segment.len as u64));
            }
        }
        let along = lane == self.traffic.lane;
        match &mut self.source {
            Source::Greedy(_) | Source::Steady(_) => {
                for (delivered, len) in &fresh {
                    self.measured.got(*len, now);
                    if let Source::Steady(steady) = &self.source {
                        self.measured.delays.push(now - steady.sent_at(delivered.note));
                    }
                }
            }
            Source::Ping(ping) => {
                for (delivered, _) in &fresh {
                    ping.on_arrival(along, delivered.note, now, &mut self.measured);
                }
            }
            Source::Tcp(tcp) => {
                let stamp = segments.first().map_or(0, |segment| segment.timestamp);
                let notes: Vec<u32> = fresh.iter().map(|(d, _)| d.note).collect();
                tcp.on_packet(along, &notes, stamp, now, &mut self.measured);
            }
        }
        broken.map_or(Ok(()), |b| Err(format!("flow {} {lane:?}: {b}", self.index)))
    }

    /// The result.
    pub fn outcome(&self) -> FlowOutcome {
        let lanes = [self.traffic.lane.index(), self.traffic.lane.back().index()];
        let settled = self.traffic.start + Duration::from_secs(1);
        let mut longest = Duration::ZERO;
        let mut last = settled;
        for &at in self.measured.times.iter().chain([&self.traffic.stop]) {
            if at > settled && at <= self.traffic.stop {
                longest = longest.max(at.saturating_sub(last));
                last = at;
            }
        }
        FlowOutcome {
            kind: self.traffic.kind,
            lane: self.traffic.lane,
            sent: lanes.map(|l| self.ledgers[l].sent()),
            delivered: lanes.map(|l| self.ledgers[l].delivered),
            duplicates: self.ledgers.iter().map(|l| l.duplicates).sum(),
            reordered: self.ledgers.iter().map(|l| l.reordered).sum(),
            tenths: self.measured.tenths.clone(),
            longest_stall: longest,
            delivery_times: self.measured.times.clone(),
            delays: self.measured.delays.clone(),
            retransmissions: self.measured.retransmissions,
            timeouts: self.measured.timeouts,
            cuts: self.measured.cuts,
            window: self.measured.window,
        }
    }
}

/// The address of the host behind a home.
pub(crate) fn home_host(home: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, home as u8, 2)
}

/// The host behind the concentrator.
pub(crate) const FAR_HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Addresses and ports from the home's side.
fn ends_of(home: usize, flow: usize) -> Ends {
    let flow = flow as u16;
    Ends { src: home_host(home), dst: FAR_HOST, src_port: 10_000 + flow, dst_port: 20_000 + flow }
}

/// The key of a flow's packets to the concentrator.
pub(crate) fn flow_key_up(home: usize, flow: usize, kind: TrafficKind) -> FlowKey {
    let Ends { src, dst, src_port, dst_port } = ends_of(home, flow);
    let (protocol, selector) = match kind {
        TrafficKind::Tcp { .. } => (6, Selector::Ports { src: src_port, dst: dst_port }),
        TrafficKind::Ping { .. } => (1, Selector::Echo(src_port)),
        _ => (17, Selector::Ports { src: src_port, dst: dst_port }),
    };
    FlowKey::Ip { src: src.into(), dst: dst.into(), protocol, selector }
}

/// The flow that a segment belongs to.
pub(crate) fn flow_of(segment: &Segment) -> usize {
    usize::from(segment.src_port.max(segment.dst_port) % 10_000)
}
