//! One path: one of our links to one address of the peer, with its own packet
//! numbers, acknowledgements, model and liveness.

mod acknowledgement;
mod arrival;
pub mod closed;
pub mod congestion;
pub mod inbound;
pub mod liveness;
mod loss;
pub mod mtu;
mod origin;
pub mod pacing;
pub mod received;
pub mod reports;
pub mod rtt;
pub mod sent;
mod settled;
mod silence;

use crate::heuristics::Heuristics;
use crate::id::LinkId;
use arrival::ArrivalEstimate;
use braid_handshake::ReplayWindow;
use braid_units::{Rate, Time};
use braid_wire::{HEADER_LEN, TAG_LEN};
pub use congestion::Controller;
use congestion::{Arrived, DelayModel, ForwardJitter};
use inbound::Inbound;
use liveness::{Liveness, PathState};
use loss::LossDetection;
use mtu::MtuSearch;
pub use origin::Origin;
use pacing::Pacer;
use received::ReceivedPackets;
use rtt::RoundTrip;
use sent::{Fate, SentPacket, SentPackets};
pub use settled::Settled;
pub use silence::Others;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How often a path is asked whose round trip is hardly known. Ours.
const SETTLING: Duration = Duration::from_millis(50);

/// A path is filled when so much of its window is in flight: the rest may be on its way
/// back, or not worth a datagram. Ours; not measured apart.
const FILLED: (u64, u64) = (3, 4);

/// IPv4's and IPv6's header with UDP's, in bytes.
const OUTER_HEADERS: (u16, u16) = (28, 48);

/// UDP payload bytes that every path is taken to carry (BASE_PLPMTU of RFC 8899, section
/// 5.1.2).
const BASE_DATAGRAM: u16 = 1200;

/// How the home wants a path used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPolicy {
    /// Lower is used first.
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// Send no faster.
    pub cap: Option<Rate>,
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PathCounters {
    /// UDP payload bytes sent.
    pub sent_bytes: u64,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// Datagrams taken for lost.
    pub lost: u64,
    /// Of these, those that had only been late.
    pub spurious: u64,
    /// Times the path was suspected.
    pub suspected: u64,
}

/// One path.
#[derive(Debug)]
pub struct Path {
    /// Its number.
    pub id: u8,
    /// Our link.
    pub link: LinkId,
    /// The peer's address on it.
    pub remote: SocketAddr,
    /// Our address on it, where a socket has several.
    pub local: Option<IpAddr>,
    /// How the home wants it used.
    pub policy: PathPolicy,
    /// How fast the peer may send by it at the most, if we say so.
    pub cap_down: Option<Rate>,
    /// The policy must still be told to the peer.
    pub policy_untold: bool,
    /// What is on its way.
    pub sent: SentPackets,
    /// Received packets not yet reported.
    pub received: ReceivedPackets,
    /// Replay window.
    pub replay: ReplayWindow,
    /// Delays.
    pub rtt: RoundTrip,
    /// Capacity.
    pub congestion: DelayModel,
    /// Departures.
    pub pacer: Pacer,
    /// Datagram size.
    pub mtu: MtuSearch,
    /// Does it work?
    pub liveness: Liveness,
    /// Counters.
    pub counters: PathCounters,
    /// When the last datagram that asks for feedback left.
    pub last_eliciting: Time,
    /// Datagrams that come by it.
    pub inbound: Inbound,
    delivered: u64,
    forward_jitter: ForwardJitter,
    /// The newest packet that was told of.
    newest_arrived: Option<Arrived>,
    loss: LossDetection,
    arrival: ArrivalEstimate,
}

impl Path {
    /// A path to `remote`, whose device takes IP packets of `device_mtu`.
    pub fn new(
        id: u8,
        link: LinkId,
        remote: SocketAddr,
        device_mtu: u16,
        heuristics: Heuristics,
        now: Time,
    ) -> Self {
        let mtu = mtu_search(remote, device_mtu);
        let datagram = u64::from(mtu.current());
        let mut new = Self {
            id,
            link,
            remote,
            local: None,
            policy: PathPolicy::default(),
            cap_down: None,
            policy_untold: false,
            sent: SentPackets::default(),
            received: ReceivedPackets::default(),
            replay: ReplayWindow::new(),
            rtt: RoundTrip::default(),
            congestion: DelayModel::new(datagram, heuristics),
            pacer: Pacer::default(),
            mtu,
            liveness: Liveness::new(now),
            counters: PathCounters::default(),
            last_eliciting: now,
            inbound: Inbound::new(now),
            delivered: 0,
            forward_jitter: ForwardJitter::default(),
            newest_arrived: None,
            loss: LossDetection::new(),
            arrival: ArrivalEstimate::default(),
        };
        new.estimate_arrival();
        new
    }

    /// When to ask whether it works, if nothing else was sent for `idle`; sooner
    /// while its round trip is hardly known.
    pub fn probe_at(&self, idle: Option<Duration>) -> Option<Time> {
        let idle = if self.rtt.is_settled() { idle } else { Some(SETTLING) };
        self.liveness.probe_at(self.last_eliciting, idle)
    }

    /// Plaintext bytes that a datagram has room for.
    pub fn room(&self) -> usize {
        usize::from(self.mtu.current()).saturating_sub(HEADER_LEN + TAG_LEN)
    }

    /// The peer's newest packet came from here. True if that's another address
    /// than before.
    pub fn move_to(&mut self, origin: Origin, now: Time) -> bool {
        self.local = origin.local;
        self.link = origin.link;
        let moves = self.remote != origin.remote;
        if moves {
            if self.remote.ip() != origin.remote.ip() {
                // Another network: what was learnt doesn't hold. A new port
                // alone is a NAT's doing.
                self.mtu.on_path_changed();
                self.rtt.reset();
                self.congestion.on_path_moved();
                self.forward_jitter = ForwardJitter::default();
                self.estimate_arrival();
            }
            self.remote = origin.remote;
            self.liveness.probe_soon(now);
        }
        moves
    }

    /// What is thought of the path.
    pub fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// Share of the datagrams lost lately, 0 to 1.
    pub fn loss_share(&self) -> f64 {
        self.loss.share()
    }

    /// It works and has room for another datagram now.
    pub fn is_available(&self, now: Time) -> bool {
        self.liveness.is_up() && self.release_at(now).is_some_and(|at| at <= now)
    }

    /// When pacing lets the next datagram go; `None` while the window is full
    /// or the path doesn't work.
    pub fn release_at(&self, now: Time) -> Option<Time> {
        let full =
            self.sent.in_flight_bytes() + u64::from(self.mtu.current()) > self.congestion.window();
        (self.liveness.is_up() && !full).then(|| self.pacer.release_at().max(now))
    }

    /// It's given less than it could take: what is measured now says nothing of
    /// its capacity.
    pub fn is_underused(&self, now: Time) -> bool {
        let (part, whole) = FILLED;
        let filled = self.sent.in_flight_bytes() * whole >= self.congestion.window() * part;
        !filled && self.pacer.is_behind(now)
    }

    /// When `bytes` more would arrive at the peer if they were given to this
    /// path now, in microseconds of a scale that all paths of a peer share.
    pub fn arrival_us(&self, bytes: u64, now: Time) -> i64 {
        let in_flight = self.sent.in_flight_bytes();
        self.arrival.at_us(bytes, in_flight, self.pacer.free_at(), now)
    }

    /// Send no faster.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.congestion.set_cap(cap);
        self.estimate_arrival();
    }

    /// Refreshes the cached arrival estimate; call after any change of a model.
    fn estimate_arrival(&mut self) {
        self.arrival = ArrivalEstimate::new(&self.congestion, &self.rtt);
    }

    /// A datagram left. `frames` were pushed to `sent` before.
    #[inline]
    pub fn on_sent(&mut self, mut packet: SentPacket, frames: u16, paced: bool, now: Time) {
        let size = u64::from(packet.size);
        if packet.fate == Fate::InFlight {
            packet.delivered = self.delivered;
            self.last_eliciting = now;
        }
        self.sent.push(packet, frames);
        if paced {
            self.pacer.on_sent(size, self.congestion.pacing_rate(), now);
        }
        self.counters.sent_bytes += size;
        self.counters.sent_datagrams += 1;
    }
}

fn mtu_search(remote: SocketAddr, device_mtu: u16) -> MtuSearch {
    let header = if remote.is_ipv4() { OUTER_HEADERS.0 } else { OUTER_HEADERS.1 };
    let most = device_mtu.saturating_sub(header).max(BASE_DATAGRAM);
    MtuSearch::new(BASE_DATAGRAM, most, header)
}
