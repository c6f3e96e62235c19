//! The core's reports in the status's words.

use super::{BridgedLink, BridgedPeer};
use braid_control::config::{Mode, Name};
use braid_control::status::{PathState, PathStatus, PeerStatus, QueueStatus, RepairStatus};
use braid_dataplane::Report;
use braid_tunnel::{LinkId, PathReport, PeerId, PeerReport};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Makes status of reports; remembers what rates need.
pub struct Reporter {
    mode: Mode,
    received: BTreeMap<(PeerId, u8), (u64, Instant, f64)>,
}

/// Rates are averaged over about this time.
const RATE_WINDOW: Duration = Duration::from_secs(1);

impl Reporter {
    pub fn new(mode: Mode) -> Self {
        Self { mode, received: BTreeMap::new() }
    }

    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    pub fn peers(
        &mut self,
        report: &Report,
        peers: &BTreeMap<PeerId, BridgedPeer>,
        links: &BTreeMap<Name, BridgedLink>,
    ) -> Vec<PeerStatus> {
        let by_id: BTreeMap<LinkId, &BridgedLink> = links.values().map(|l| (l.id, l)).collect();
        self.received.retain(|(id, _), _| peers.contains_key(id));
        report
            .peers
            .iter()
            .filter_map(|(id, peer)| Some((*id, peer, peers.get(id)?)))
            .map(|(id, peer, known)| self.peer(id, peer, known, &by_id))
            .collect()
    }

    fn peer(
        &mut self,
        id: PeerId,
        peer: &PeerReport,
        known: &BridgedPeer,
        links: &BTreeMap<LinkId, &BridgedLink>,
    ) -> PeerStatus {
        let paths = peer.paths.iter().map(|path| self.path(id, path, links)).collect();
        let newest = peer.paths.iter().max_by_key(|p| p.counters.received_datagrams);
        let (entry, exit, counters) = (peer.entry, peer.exit, peer.counters);
        PeerStatus {
            name: known.name.as_str().to_owned(),
            public_key: peer.public_key.to_string(),
            connected: peer.connected,
            endpoint: newest.map(|p| p.remote),
            last_handshake_s: known.last_handshake.map(|at| at.elapsed().as_secs_f64()),
            rx_bytes: counters.delivered_bytes,
            tx_bytes: counters.accepted_bytes,
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
                // What the lost datagrams carried was sent again.
                repaired: peer.lost,
                duplicated: counters.duplicated,
                recovered: counters.recovered,
                parity_sent: counters.parities,
                abandoned: counters.gave_up,
                duplicates_received: exit.duplicates + exit.late,
            },
        }
    }

    fn path(
        &mut self,
        id: PeerId,
        path: &PathReport,
        links: &BTreeMap<LinkId, &BridgedLink>,
    ) -> PathStatus {
        let link = links.get(&path.link);
        let known = path.srtt > Duration::ZERO;
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        PathStatus {
            link: link.map_or_else(|| path.id.to_string(), |l| l.link.name.as_str().to_owned()),
            remote: Some(path.remote),
            state: state(path, link.is_some_and(|l| l.exhausted)),
            tier: path.tier,
            srtt_ms: known.then(|| ms(path.srtt)),
            min_rtt_ms: known.then(|| ms(path.base_rtt)),
            one_way_delta_ms: path.delay_behind_best.map(ms),
            rate_tx_mbps: Some(path.bandwidth.mbit()),
            rate_rx_mbps: Some(self.receive_rate(id, path)),
            loss: path.loss,
            mtu: path.datagram,
            in_flight_bytes: path.in_flight,
            tx_bytes: path.counters.sent_bytes,
            rx_bytes: path.counters.received_bytes,
            tx_packets: path.counters.sent_datagrams,
            rx_packets: path.counters.received_datagrams,
            lost_packets: path.counters.lost.saturating_sub(path.counters.spurious),
        }
    }

    /// Mbit/s received lately.
    fn receive_rate(&mut self, id: PeerId, path: &PathReport) -> f64 {
        let now = Instant::now();
        let bytes = path.counters.received_bytes;
        let (before, at, rate) = self.received.entry((id, path.id)).or_insert((bytes, now, 0.0));
        let elapsed = now.duration_since(*at);
        if !elapsed.is_zero() {
            let mbit = bytes.saturating_sub(*before) as f64 * 8e-6 / elapsed.as_secs_f64();
            let weight = (elapsed.as_secs_f64() / RATE_WINDOW.as_secs_f64()).min(1.0);
            *rate += (mbit - *rate) * weight;
            (*before, *at) = (bytes, now);
        }
        *rate
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
