//! What is told of a peer.

use super::{Peer, PeerCounters};
use crate::config::LinkId;
use crate::entry::EntryStatus;
use crate::exit::ExitStatus;
use crate::path::liveness::PathState;
use crate::path::{Controller, PathCounters};
use braid_handshake::PublicKey;
use braid_units::{Rate, Time};
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Smoothed and least round-trip time.
    pub srtt: Duration,
    /// As above.
    pub base_rtt: Duration,
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
    /// The peer as it is now.
    pub(crate) fn report(&self, now: Time) -> PeerReport {
        let best = self.paths.iter().filter_map(|p| p.congestion.base_delay_us()).min();
        PeerReport {
            public_key: self.config.public_key,
            connected: self.is_connected(),
            silent_for: self.last_heard.map(|at| now - at),
            mode: self.mode,
            paths: self
                .paths
                .iter()
                .map(|p| PathReport {
                    id: p.id,
                    link: p.link,
                    remote: p.remote,
                    state: p.state(),
                    since: now - p.liveness.since(),
                    srtt: p.rtt.smoothed(),
                    base_rtt: p.rtt.base(),
                    delay_behind_best: p
                        .congestion
                        .base_delay_us()
                        .zip(best)
                        .map(|(d, b)| Duration::from_micros(u64::try_from(d - b).unwrap_or(0))),
                    queue: p.congestion.queue(),
                    bandwidth: p.congestion.bandwidth(),
                    datagram: p.mtu.current(),
                    in_flight: p.sent.in_flight_bytes(),
                    window: p.congestion.window(),
                    loss: p.loss_share(),
                    tier: p.wish.tier,
                    standby: p.wish.standby,
                    counters: p.counters,
                })
                .collect(),
            entry: self.entry.status(),
            exit: self.exit.status(),
            counters: self.counters,
            lost: {
                let lost = |c: &PathCounters| c.lost.saturating_sub(c.spurious);
                self.paths.iter().map(|p| lost(&p.counters)).sum::<u64>()
                    + self.closed_paths.iter().map(|p| p.lost()).sum::<u64>()
            },
            unacknowledged_bytes: self.outgoing.bytes(),
        }
    }
}
