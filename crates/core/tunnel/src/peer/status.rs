//! What is told of a peer.

use super::{Peer, TrafficReport};
use crate::entry::EntryStatus;
use crate::exit::ExitStatus;
use crate::id::LinkId;
use crate::path::liveness::PathState;
use crate::path::{Controller, Path, PathCounters};
use braid_handshake::PublicKey;
use braid_units::{Rate, Time};
use std::net::SocketAddr;
use std::time::Duration;

/// Counters of a peer.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PeerCounters {
    /// Inner packets accepted for it.
    pub accepted: u64,
    /// Acknowledgements of TCP not sent since a later one says the same.
    pub thinned: u64,
    /// Inner bytes accepted for it.
    pub accepted_bytes: u64,
    /// Inner bytes delivered from it.
    pub delivered_bytes: u64,
    /// Chunks sent again.
    pub repaired: u64,
    /// Chunks sent twice on purpose.
    pub duplicated: u64,
    /// Parities sent.
    pub parities: u64,
    /// Chunks recovered by a parity.
    pub recovered: u64,
    /// Packets given up after their deadline.
    pub abandoned: u64,
    /// Datagrams that didn't authenticate, were replayed or malformed.
    pub refused: u64,
    /// Inner packets refused: not from its allowed addresses, or broken.
    pub inner_refused: u64,
    /// Inner packets to other peers, which it may not reach.
    pub isolated: u64,
    /// Inner packets above its limit.
    pub over_limit: u64,
}

/// A peer as it is now.
#[derive(Clone, Debug)]
pub struct PeerReport {
    /// Its key.
    pub public_key: PublicKey,
    /// Keys, and at least one path that works.
    pub connected: bool,
    /// Since it was last heard of.
    pub silent_for: Option<Duration>,
    /// The mode in which we send to it.
    pub mode: crate::config::Mode,
    /// Its paths.
    pub paths: Vec<PathReport>,
    /// The queue to it.
    pub entry: EntryStatus,
    /// What was put in order.
    pub exit: ExitStatus,
    /// Counters.
    pub counters: PeerCounters,
    /// Datagrams that were lost on any path, closed ones too.
    pub lost: u64,
    /// Bytes sent and not acknowledged, with what they are packets of.
    pub unacknowledged_bytes: u64,
    /// Of a home that has several concentrators: whether it is served here, once it has said so.
    /// One of an older version never does.
    pub served: Option<Served>,
    /// Of a home: there was no room for it when it said that it is served here, and it is here yet.
    pub refused: bool,
    /// Of a concentrator: how willing it is to serve us, from 0, very, to 255: it is about to go.
    pub rank: u8,
    /// Several hosts have the peer's key and drive each other out.
    pub has_rival: bool,
    /// The peer says that another host has our key.
    pub we_have_a_rival: bool,
}

/// What a home says of who serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// It is this end.
    pub here: bool,
    /// The one before fell silent just then.
    pub after_silence: bool,
    /// Rises with each of its moves: of two that serve it the higher is right.
    pub epoch: u64,
}

/// A path as it is now.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// Its number.
    pub id: u8,
    /// Our link.
    pub link: LinkId,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Does it work?
    pub state: PathState,
    /// For how long.
    pub since: Duration,
    /// Something has come back by it; until then the round-trip times are guesses.
    pub rtt_is_known: bool,
    /// Smoothed and least round-trip time.
    pub srtt: Duration,
    /// As above.
    pub base_rtt: Duration,
    /// The least round-trip time of the last ten minutes.
    pub unloaded_rtt: Duration,
    /// How much round-trip times vary (RTTVAR).
    pub rtt_variation: Duration,
    /// Least one-way delay above that of the peer's quickest path.
    pub delay_behind_best: Option<Duration>,
    /// The queue in the link, as last seen.
    pub queue: Duration,
    /// Estimated capacity of what we send.
    pub bandwidth: Rate,
    /// UDP payload bytes that datagrams have.
    pub datagram: u16,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The window that bounds them.
    pub window: u64,
    /// Share of datagrams lost lately.
    pub loss: f64,
    /// Tier.
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// Counters.
    pub counters: PathCounters,
}

impl Peer {
    /// A datagram of the peer's was refused.
    pub(crate) fn on_refused(&mut self) {
        self.receive.counters.refused += 1;
    }

    /// An inner packet from it was for another peer, and may not be.
    pub(crate) fn on_isolated(&mut self) {
        self.receive.counters.isolated += 1;
    }

    /// An inner packet of the peer's was refused.
    pub(crate) fn on_inner_refused(&mut self) {
        self.receive.counters.inner_refused += 1;
    }

    /// An inner packet of the peer's was above its limit.
    pub(crate) fn on_over_limit(&mut self) {
        self.receive.counters.over_limit += 1;
    }

    /// An inner packet of this flow of the peer's is delivered.
    pub(crate) fn on_delivered(&mut self, flow: u16, bytes: &[u8], now: Time) {
        self.receive.counters.delivered_bytes += bytes.len() as u64;
        self.traffic.on_delivered(flow, bytes, now);
    }

    /// What its flows have carried; at most `limit` are kept.
    pub(crate) fn report_traffic(&mut self, limit: usize, now: Time) -> TrafficReport {
        self.traffic.report(limit, now)
    }

    /// There are keys and a path that works, or it restarts and is back in a moment.
    pub(crate) fn is_connected(&self, now: Time) -> bool {
        self.sessions.can_send(now) && self.paths.up().next().is_some()
            || self.terms.restarting.is_excused(now)
    }

    /// The peer as it is now.
    pub(crate) fn report(&self, now: Time) -> PeerReport {
        let best = self.paths.iter().filter_map(|p| p.congestion.base_delay_us()).min();
        PeerReport {
            public_key: self.config.public_key,
            connected: self.is_connected(now),
            silent_for: self.receive.last_heard().map(|at| now - at),
            mode: self.send.mode(),
            paths: self.paths.iter().map(|path| report_path(path, best, now)).collect(),
            entry: self.ingress.status(),
            exit: self.receive.status(),
            counters: self.counters(),
            lost: self.paths.lost(),
            unacknowledged_bytes: self.reliability.unacknowledged_bytes(),
            served: self.served(),
            // The tunnel knows.
            refused: false,
            rank: self.rank(),
            has_rival: self.sessions.has_rival(now),
            we_have_a_rival: self.sessions.we_have_a_rival,
        }
    }

    fn counters(&self) -> PeerCounters {
        let (ingress, sent) = (&self.ingress.counters, &self.reliability.counters);
        let received = &self.receive.counters;
        PeerCounters {
            accepted: ingress.accepted,
            thinned: ingress.thinned,
            accepted_bytes: ingress.accepted_bytes,
            delivered_bytes: received.delivered_bytes,
            repaired: sent.repaired,
            duplicated: sent.duplicated,
            parities: sent.parities,
            recovered: received.recovered,
            abandoned: sent.abandoned + ingress.stale,
            refused: received.refused,
            inner_refused: received.inner_refused,
            isolated: received.isolated,
            over_limit: received.over_limit,
        }
    }
}

/// `best` is the least one-way delay of all paths, in microseconds of their scale.
fn report_path(p: &Path, best: Option<i64>, now: Time) -> PathReport {
    let delay = p.congestion.base_delay_us().zip(best);
    PathReport {
        id: p.id,
        link: p.link,
        remote: p.remote,
        state: p.state(),
        since: now - p.liveness.since(),
        rtt_is_known: p.rtt.is_known(),
        srtt: p.rtt.smoothed(),
        base_rtt: p.rtt.base(),
        unloaded_rtt: p.rtt.unloaded(),
        rtt_variation: p.rtt.variation(),
        delay_behind_best: delay
            .map(|(own, best)| Duration::from_micros(u64::try_from(own - best).unwrap_or(0))),
        queue: p.congestion.queue(),
        bandwidth: p.congestion.bandwidth(),
        datagram: p.mtu.current(),
        in_flight: p.sent.in_flight_bytes(),
        window: p.congestion.window(),
        loss: p.loss_share(),
        tier: p.policy.tier,
        standby: p.policy.standby,
        counters: p.counters,
    }
}
