//! Turns the core's reports into status.

use super::BridgedPeer;
use super::links::{BridgedLink, FIRST_LISTENING_TLS, Links};
use super::willingness;
use crate::daemon::data_channel::PeerFlows;
use braid_control::config::{Mode, Transport};
use braid_control::status::{PathState, PathStatus, PeerStatus, QueueStatus, RepairStatus};
use braid_dataplane::Report;
use braid_tunnel::{LinkId, PathReport, PeerId, PeerReport, TrafficReport};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Turns reports into status; remembers what rates need.
pub struct Reporter {
    mode: Mode,
    traffic: BTreeMap<(PeerId, u8), Traffic>,
}

/// The core's links: their link in the config, and their transport.
type LinksById<'a> = BTreeMap<LinkId, (&'a BridgedLink, Transport)>;

/// Of a path.
struct Traffic {
    received: Throughput,
    sent: Throughput,
    loss: Loss,
}

/// The share of recently sent datagrams that were lost: the core's own value doesn't change while
/// nothing is sent. What an outage took doesn't count as loss of the link once it is back.
struct Loss {
    sent: u64,
    lost: u64,
    at: Instant,
    sent_lately: f64,
    lost_lately: f64,
    /// Losses found until then belong to the last outage.
    outage_settles: Option<Instant>,
}

/// The recent rate of a counter per second.
struct Throughput {
    bytes: u64,
    at: Instant,
    mbit: f64,
}

/// Rates are averaged over about this time.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Losses fade over about this time.
const LOSS_WINDOW: Duration = Duration::from_secs(10);
/// Acknowledgements show which datagrams an outage took some round trips after it.
const OUTAGE_SETTLES: Duration = Duration::from_secs(2);
/// A datagram lost half a minute ago has decayed below this.
const LEAST_LOST: f64 = 0.05;
/// Mbit/s; one bit per second is the rest of an average that only fades.
const LEAST_RATE: f64 = 1e-6;

impl Reporter {
    pub fn new(mode: Mode) -> Self {
        Self { mode, traffic: BTreeMap::new() }
    }

    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    pub fn peers(
        &mut self,
        report: &Report,
        peers: &BTreeMap<PeerId, BridgedPeer>,
        links: &Links,
    ) -> Vec<PeerStatus> {
        let by_id = by_id(links);
        self.traffic.retain(|(id, _), _| peers.contains_key(id));
        report
            .peers
            .iter()
            .filter_map(|(id, peer)| Some((*id, peer, peers.get(id)?)))
            .map(|(id, peer, known)| self.peer(id, peer, known, peers, &by_id))
            .collect()
    }

    /// Whose flows they are, and of which links.
    pub fn flows(
        &self,
        traffic: Vec<(PeerId, TrafficReport)>,
        report: &Report,
        peers: &BTreeMap<PeerId, BridgedPeer>,
        links: &Links,
    ) -> Vec<PeerFlows> {
        let by_id = by_id(links);
        let flows = traffic.into_iter().filter_map(|(id, flows)| {
            let peer = peers.get(&id)?.name.as_str().to_owned();
            let paths = report.peers.iter().find(|(of, _)| *of == id).map(|(_, peer)| &peer.paths);
            let links = paths.into_iter().flatten().map(|path| (path.id, link_of(path, &by_id).0));
            Some(PeerFlows { peer, report: flows, links: links.collect() })
        });
        flows.collect()
    }

    fn peer(
        &mut self,
        id: PeerId,
        peer: &PeerReport,
        known: &BridgedPeer,
        peers: &BTreeMap<PeerId, BridgedPeer>,
        links: &LinksById<'_>,
    ) -> PeerStatus {
        // A transport tried besides UDP that doesn't pass says nothing about the link.
        let shown = peer.paths.iter().filter(|path| match links.get(&path.link) {
            Some((_, Transport::UdpFallback | Transport::Tls)) => {
                path.counters.received_datagrams > 0
            }
            _ => true,
        });
        let paths = shown.map(|path| self.path(id, path, links)).collect();
        let newest = peer.paths.iter().max_by_key(|p| p.counters.received_datagrams);
        let (entry, exit, counters) = (peer.entry, peer.exit, peer.counters);
        PeerStatus {
            name: known.name.as_str().to_owned(),
            public_key: peer.public_key.to_string(),
            connected: peer.connected,
            trouble: known.trouble.clone(),
            served_by: known
                .served_by
                .and_then(|id| peers.get(&id))
                .map(|server| server.name.as_str().to_owned()),
            stands_in_for: known.stands_in_for.as_ref().map(|name| name.as_str().to_owned()),
            draining: peer.rank == willingness::LEAST,
            served_here: peer.served.map(|served| served.here),
            served_epoch: peer.served.filter(|served| served.here).map(|served| served.epoch),
            refused: peer.refused,
            // The reconciler knows.
            announced: false,
            endpoint: newest.map(|p| p.remote),
            last_handshake_s: known.last_handshake.map(|at| at.elapsed().as_secs_f64()),
            rx_bytes: counters.delivered_bytes,
            tx_bytes: counters.accepted_bytes,
            refused_packets: counters.inner_refused,
            isolated_packets: counters.isolated,
            over_limit_packets: counters.over_limit,
            paths,
            queue: QueueStatus {
                bytes: entry.bytes,
                packets: entry.packets,
                drops: entry.dropped + entry.overflowed,
                marks: entry.marked,
            },
            reordering_packets: exit.waiting,
            memory_bytes: entry.bytes + exit.held_bytes + peer.unacknowledged_bytes,
            repair: RepairStatus {
                retransmitted: counters.repaired,
                // The contents of lost datagrams were sent again.
                repaired: peer.lost,
                duplicated: counters.duplicated,
                recovered: counters.recovered,
                parity_sent: counters.parities,
                abandoned: counters.abandoned,
                duplicates_received: exit.duplicates + exit.late,
            },
        }
    }

    fn path(&mut self, id: PeerId, path: &PathReport, links: &LinksById<'_>) -> PathStatus {
        let link = links.get(&path.link).map(|(link, _)| link);
        let (name, transport) = link_of(path, links);
        let known = path.rtt_is_known;
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let (received, sent, loss) = self.lately(id, path, Instant::now());
        PathStatus {
            link: name,
            remote: Some(path.remote),
            transport,
            state: state(path, link.is_some_and(|l| l.exhausted)),
            tier: path.tier,
            srtt_ms: known.then(|| ms(path.srtt)),
            jitter_ms: known.then(|| ms(path.rtt_variation)),
            min_rtt_ms: known.then(|| ms(path.base_rtt)),
            unloaded_rtt_ms: known.then(|| ms(path.unloaded_rtt)),
            one_way_delta_ms: path.delay_behind_best.map(ms),
            queue_ms: known.then(|| ms(path.queue)),
            rate_tx_mbps: Some(sent),
            rate_rx_mbps: Some(received),
            capacity_tx_mbps: Some(path.bandwidth.mbit()),
            loss,
            mtu: path.datagram,
            in_flight_bytes: path.in_flight,
            tx_bytes: path.counters.sent_bytes,
            rx_bytes: path.counters.received_bytes,
            tx_packets: path.counters.sent_datagrams,
            rx_packets: path.counters.received_datagrams,
            lost_packets: path.counters.lost.saturating_sub(path.counters.spurious),
        }
    }

    /// Recent rates received and sent, Mbit/s, and the share of sent datagrams that was lost.
    fn lately(&mut self, id: PeerId, path: &PathReport, now: Instant) -> (f64, f64, f64) {
        let (received, sent) = (path.counters.received_bytes, path.counters.sent_bytes);
        let traffic = self.traffic.entry((id, path.id)).or_insert_with(|| Traffic {
            received: Throughput::new(received, now),
            sent: Throughput::new(sent, now),
            loss: Loss::new(now),
        });
        let counters = &path.counters;
        let lost = counters.lost.saturating_sub(counters.spurious);
        // Also while it is only probed, for example if UDP is blocked and TLS is used: losses then
        // say nothing about the link once UDP passes.
        if !matches!(path.state, braid_tunnel::PathState::Up | braid_tunnel::PathState::Suspect) {
            traffic.loss.outage(now);
        }
        let loss = traffic.loss.update(counters.sent_datagrams, lost, now);
        (traffic.received.update(received, now), traffic.sent.update(sent, now), loss)
    }
}

fn by_id(links: &Links) -> LinksById<'_> {
    let mut by_id = LinksById::new();
    for link in links.iter() {
        by_id.extend(link.ids.iter().map(|(transport, id)| (*id, (link, *transport))));
    }
    by_id
}

/// The name of a path's link, and its transport. Paths of peers that connect to us have numbers.
fn link_of(path: &PathReport, links: &LinksById<'_>) -> (String, Transport) {
    match links.get(&path.link) {
        Some((link, transport)) => (link.link.name.as_str().to_owned(), *transport),
        None if path.link.0 >= FIRST_LISTENING_TLS => (path.id.to_string(), Transport::Tls),
        None => (path.id.to_string(), Transport::Udp),
    }
}

impl Loss {
    fn new(at: Instant) -> Self {
        let (sent_lately, lost_lately) = (0.0, 0.0);
        Self { sent: 0, lost: 0, at, sent_lately, lost_lately, outage_settles: None }
    }

    /// Nothing passes at the moment.
    fn outage(&mut self, now: Instant) {
        (self.sent_lately, self.lost_lately) = (0.0, 0.0);
        self.outage_settles = Some(now + OUTAGE_SETTLES);
    }

    fn update(&mut self, sent: u64, lost: u64, now: Instant) -> f64 {
        if self.outage_settles.is_some_and(|at| now < at) {
            (self.sent, self.lost, self.at) = (sent, lost, now);
            return 0.0;
        }
        let elapsed = now.duration_since(self.at).as_secs_f64();
        let stays = (-elapsed / LOSS_WINDOW.as_secs_f64()).exp();
        self.sent_lately = self.sent_lately * stays + sent.saturating_sub(self.sent) as f64;
        // Datagrams that counted as lost but arrived late are subtracted.
        let news = lost as f64 - self.lost as f64;
        self.lost_lately = (self.lost_lately * stays + news).max(0.0);
        (self.sent, self.lost, self.at) = (sent, lost, now);
        match self.lost_lately < LEAST_LOST {
            true => 0.0,
            false => (self.lost_lately / self.sent_lately).min(1.0),
        }
    }
}

impl Throughput {
    fn new(bytes: u64, at: Instant) -> Throughput {
        Throughput { bytes, at, mbit: 0.0 }
    }

    /// The rate in Mbit/s, given the byte counter; a negligible rate is zero.
    fn update(&mut self, bytes: u64, now: Instant) -> f64 {
        let elapsed = now.duration_since(self.at);
        if !elapsed.is_zero() {
            let mbit = bytes.saturating_sub(self.bytes) as f64 * 8e-6 / elapsed.as_secs_f64();
            let weight = (elapsed.as_secs_f64() / RATE_WINDOW.as_secs_f64()).min(1.0);
            self.mbit += (mbit - self.mbit) * weight;
            if self.mbit < LEAST_RATE {
                self.mbit = 0.0;
            }
            (self.bytes, self.at) = (bytes, now);
        }
        self.mbit
    }
}

fn state(path: &PathReport, exhausted: bool) -> PathState {
    match path.state {
        braid_tunnel::PathState::Unproven => PathState::Probing,
        braid_tunnel::PathState::Up if exhausted => PathState::OverQuota,
        braid_tunnel::PathState::Up if path.standby => PathState::Standby,
        braid_tunnel::PathState::Up => PathState::Active,
        braid_tunnel::PathState::Suspect => PathState::Suspect,
        braid_tunnel::PathState::Down | braid_tunnel::PathState::LinkDown => PathState::Down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outages_losses_fade_on_an_idle_link() {
        let start = Instant::now();
        let mut loss = Loss::new(start);
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(loss.update(1000, 500, second(1)), 0.5);
        // A probe now and then comes through.
        let later: Vec<f64> = (2..=120).map(|n| loss.update(1000 + n, 500, second(n))).collect();
        assert!(later.is_sorted_by(|a, b| a >= b));
        assert_eq!(later.last(), Some(&0.0));
        // Datagrams that counted as lost arrive late.
        assert!(loss.update(2000, 600, second(121)) > 0.09);
        assert_eq!(loss.update(2000, 500, second(121)), 0.0);
    }

    #[test]
    fn what_an_outage_took_is_no_loss_of_the_link_that_is_back() {
        let start = Instant::now();
        let mut loss = Loss::new(start);
        let second = |n: u64| start + Duration::from_secs(n);
        assert_eq!(loss.update(1000, 100, second(1)), 0.1);
        loss.outage(second(2));
        assert_eq!(loss.update(1100, 150, second(2)), 0.0);
        // Back: what was in flight is found out now.
        assert_eq!(loss.update(1110, 200, second(3)), 0.0);
        assert_eq!(loss.update(1210, 200, second(5)), 0.0);
        assert!(loss.update(1310, 250, second(6)) > 0.2);
    }

    #[test]
    fn a_rate_follows_what_is_counted_and_is_none_when_nothing_comes() {
        let mut now = Instant::now();
        let mut rate = Throughput::new(0, now);
        let mut bytes = 0;
        for _ in 0..50 {
            now += Duration::from_millis(200);
            bytes += 250_000;
            rate.update(bytes, now);
        }
        assert!((rate.update(bytes, now) - 10.0).abs() < 0.1, "{}", rate.mbit);
        for _ in 0..200 {
            now += Duration::from_millis(200);
            rate.update(bytes, now);
        }
        assert_eq!(rate.update(bytes, now), 0.0);
    }
}
