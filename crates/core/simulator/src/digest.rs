//! A number that two plays of a scenario share only if the cores did the same.

use crate::end_id::EndId;
use crate::packet::Segment;
use crate::traffic::Lane;
use braid_tunnel::{Event, PathReport, PathState, PeerReport, TunnelCounters};
use braid_units::Time;
use std::hash::Hasher;

/// Takes in what a core did: datagrams (when, by which link, how long, of which
/// kind; their ciphertext depends on keys that aren't seeded), packets delivered,
/// events, and in the end all counters.
#[derive(Debug, Default)]
pub(crate) struct Digest(Fnv);

/// FNV-1a of 64 bits (RFC 9923), a word at a time.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, word: u64) {
        // Multiplication carries upwards only: the upper half is mixed back.
        let product = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = product ^ product >> 32;
    }
}

impl Digest {
    /// The number so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }

    fn take(&mut self, words: &[u64]) {
        words.iter().for_each(|&word| self.0.write_u64(word));
    }

    /// An end sends a datagram by a link.
    pub fn on_datagram(&mut self, now: Time, from: EndId, link: usize, bytes: &[u8]) {
        let kind = bytes.first().map_or(0, |byte| u64::from(*byte));
        self.take(&[1, now.as_nanos(), end(from), link as u64, bytes.len() as u64, kind]);
    }

    /// A packet came out at an end.
    pub fn on_packet(&mut self, now: Time, at: EndId, lane: Lane, segments: &[Segment]) {
        self.take(&[2, now.as_nanos(), end(at), u64::from(lane == Lane::Up)]);
        for segment in segments {
            self.take(&[segment.number.into(), segment.len as u64, segment.timestamp.into()]);
        }
    }

    /// An end says that something happened.
    pub fn on_event(&mut self, now: Time, at: EndId, event: &Event) {
        let what = match event {
            Event::Handshake { peer, anew } => [3, peer.0.into(), u64::from(*anew)],
            Event::Closed { peer } => [4, peer.0.into(), 0],
            Event::Path { peer, path, state: now, .. } => {
                [5, u64::from(peer.0) << 8 | u64::from(*path), state(*now)]
            }
            Event::Moved { from, to, .. } => [7, from.0.into(), to.0.into()],
            Event::Served { peer, here } => [8, peer.0.into(), u64::from(*here)],
            // Ends that are simulated know each other.
            Event::Introduced { .. }
            | Event::Refused { .. }
            | Event::NotEnrolled { .. }
            | Event::Referred { .. } => [6, 0, 0],
        };
        self.take(&[now.as_nanos(), end(at)]);
        self.take(&what);
    }

    /// What an end says of a peer at the end.
    pub fn on_report(&mut self, report: &PeerReport) {
        let PeerReport { entry, exit, counters: c, .. } = report;
        self.take(&[c.accepted, c.thinned, c.accepted_bytes, c.delivered_bytes]);
        self.take(&[c.repaired, c.duplicated, c.parities, c.recovered]);
        self.take(&[c.abandoned, c.refused, c.inner_refused]);
        self.take(&[entry.bytes, entry.packets, entry.dropped, entry.overflowed, entry.marked]);
        self.take(&[exit.held_bytes, exit.waiting, exit.delivered, exit.duplicates]);
        self.take(&[exit.missed, exit.late, exit.reordered, exit.rejected]);
        self.take(&[report.lost, report.unacknowledged_bytes, u64::from(report.connected)]);
        report.paths.iter().for_each(|path| self.on_path(path));
    }

    fn on_path(&mut self, path: &PathReport) {
        let PathReport { counters: c, .. } = path;
        self.take(&[path.id.into(), path.link.0.into(), state(path.state), path.tier.into()]);
        self.take(&[path.srtt, path.base_rtt, path.queue].map(|time| time.as_nanos() as u64));
        self.take(&[path.bandwidth.bytes_per_sec(), path.window, path.in_flight]);
        self.take(&[path.datagram.into(), path.loss.to_bits(), path.standby.into()]);
        self.take(&[c.sent_bytes, c.sent_datagrams, c.received_bytes, c.received_datagrams]);
        self.take(&[c.lost, c.spurious, c.suspected]);
    }

    /// What an end counted of no peer.
    pub fn on_counters(&mut self, c: &TunnelCounters) {
        self.take(&[c.strange, c.forged, c.replayed, c.refused_handshakes, c.unroutable]);
    }
}

fn end(id: EndId) -> u64 {
    match id {
        EndId::Concentrator => 0,
        EndId::Home(home) => home as u64 + 1,
    }
}

fn state(state: PathState) -> u64 {
    match state {
        PathState::Unproven => 0,
        PathState::Up => 1,
        PathState::Suspect => 2,
        PathState::Down => 3,
        PathState::LinkDown => 4,
    }
}
