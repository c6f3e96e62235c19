//! Inner packets from our side: classed, put into their flow's queue, and taken
//! out again when they are to be sent.

mod tuning;

use crate::config::Mode;
use crate::entry::{AckFilter, EntryQueue, EntryStatus, FlowPlaces, Head, Parameters, Queued};
use crate::heuristics::Heuristics;
use crate::peer::traffic::Traffic;
use braid_inner::{
    Class, ClassRules, HashKey, Headers, InnerPacket, Layer, PureAck, flow_key, join,
    segment_count, split_all,
};
use braid_units::Time;
use std::time::Duration;

/// IP protocol number of TCP.
const TCP: u8 = 6;
/// A super-packet so many times as long as the longest that segments are joined to
/// is too long: it would come out after 20 ms.
const LONG: usize = 5;
/// Real-time packets that waited longer than this are of no use any more.
const STALE_REALTIME: Duration = Duration::from_millis(400);

/// Counters of what came in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IngressCounters {
    /// Inner packets accepted.
    pub accepted: u64,
    /// Their bytes.
    pub accepted_bytes: u64,
    /// Acknowledgements of TCP not sent since a later one says the same.
    pub thinned: u64,
    /// Real-time packets that waited for too long.
    pub stale: u64,
}

/// The way into the tunnel: one queue for each flow.
#[derive(Debug)]
pub(crate) struct Ingress {
    layer: Layer,
    hash_key: HashKey,
    /// The mode of each class of the user's, by its index.
    class_modes: Vec<Mode>,
    places: FlowPlaces,
    acks: AckFilter,
    queue: EntryQueue,
    parameters: Parameters,
    /// All paths' capacities were found.
    capacity_known: bool,
    /// CoDel's target when all paths' capacities are known.
    steady_target: Duration,
    /// Largest packet that segments of a stream are joined to, in bytes.
    join_limit: usize,
    heuristics: Heuristics,
    last_admitted: Time,
    pub(super) counters: IngressCounters,
}

/// A packet for one of the kernel's bonding modes, which have no queue by flows.
#[derive(Debug)]
pub(super) struct ForBonding {
    pub packet: InnerPacket,
    pub mode: Mode,
    pub headers: Headers,
}

/// By what packets are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sorting<'a> {
    /// The user's classes.
    pub rules: &'a ClassRules,
    /// That of packets of no class.
    pub mode: Mode,
}

impl Ingress {
    /// Nothing yet; at most `limit` bytes wait.
    pub fn new(layer: Layer, hash_key: HashKey, class_modes: Vec<Mode>, limit: u64) -> Self {
        Self {
            layer,
            hash_key,
            class_modes,
            places: FlowPlaces::default(),
            acks: AckFilter::default(),
            queue: EntryQueue::new(layer),
            capacity_known: false,
            parameters: Parameters { limit, ..Parameters::default() },
            steady_target: Parameters::default().target,
            join_limit: 0,
            heuristics: Heuristics::ALL,
            last_admitted: Time::ZERO,
            counters: IngressCounters::default(),
        }
    }

    /// Before the first packet: which heuristics are on.
    pub fn set_heuristics(&mut self, heuristics: Heuristics) {
        self.heuristics = heuristics;
        self.parameters.shortens = heuristics.queue_shortening;
    }

    /// Queues a packet. `working` is the time that stands still while no path
    /// works. One that belongs to another mode is returned. Buffers that aren't needed any
    /// more go to `freed`.
    #[inline]
    pub fn admit(
        &mut self,
        packet: InnerPacket,
        Sorting { rules, mode }: Sorting<'_>,
        traffic: &mut Traffic,
        freed: &mut Vec<Vec<u8>>,
        working: Time,
        now: Time,
    ) -> Option<ForBonding> {
        self.counters.accepted += 1;
        self.counters.accepted_bytes += packet.bytes.len() as u64;
        self.last_admitted = now;
        let headers = Headers::parse(&packet.bytes, self.layer);
        let rule = rules.class_of(&packet.bytes, &headers).map(|index| index.0);
        let mode = rule.and_then(|r| self.class_modes.get(usize::from(r)).copied()).unwrap_or(mode);
        if !mode.is_adaptive() {
            traffic.on_bonded(&packet.bytes, &headers, now);
            return Some(ForBonding { packet, mode, headers });
        }
        let class = Class::of(&packet.bytes, &headers);
        let key = flow_key(&packet.bytes, &headers);
        let stream =
            headers.ip.is_some_and(|ip| ip.protocol == TCP) || matches!(class, Class::Precious);
        let queue = &self.queue;
        let hash = key.hash(&self.hash_key);
        let flow = self.places.place(hash, working, |flow| queue.waits(flow));
        traffic.on_admitted(flow, (&key, hash), class, packet.bytes.len() as u64, now);
        let ack = PureAck::read(&packet.bytes, &headers).filter(|_| self.heuristics.ack_thinning);
        let queued = Queued { packet, class, stream, rule, at: working };
        let Some(ack) = ack else {
            let held = self.acks.interrupt(flow, now);
            self.push(flow, held, freed);
            self.push_parts(flow, queued, freed);
            return None;
        };
        let offered = self.acks.offer(flow, key, ack, queued, now);
        let (next, last) = match offered.supersedes_last {
            true => (None, offered.now),
            false => (offered.now, None),
        };
        self.push(flow, offered.before.into_iter().chain(next), freed);
        let parameters = &self.parameters;
        let gave_way = last.and_then(|last| self.queue.push_superseding(flow, last, parameters));
        for gone in offered.replaced.into_iter().chain(gave_way) {
            self.counters.thinned += 1;
            freed.push(gone.packet.bytes);
        }
        freed.extend(self.queue.drain_dropped());
        None
    }

    /// Acknowledgements that were held back long enough go on.
    pub fn release_acks(&mut self, freed: &mut Vec<Vec<u8>>, now: Time) {
        while let Some((flow, queued)) = self.acks.poll(now) {
            self.push(flow, [queued], freed);
        }
    }

    /// When the next acknowledgement has been held back long enough.
    pub fn release_at(&self) -> Option<Time> {
        self.acks.release_at()
    }

    /// A super-packet that would keep the paths busy for longer than packets should
    /// take is queued by its segments: nothing of it comes out before all is there,
    /// and flows take turns meanwhile.
    fn push_parts(&mut self, flow: u16, queued: Queued, freed: &mut Vec<Vec<u8>>) {
        let long = self.capacity_known
            && queued.packet.bytes.len() > self.flow_join_limit() * LONG
            && segment_count(&queued.packet) > 1;
        match long.then(|| split_all(&queued.packet, self.layer)) {
            Some(Ok(parts)) => {
                self.push(flow, parts.into_iter().map(|packet| queued.with(packet)), freed);
                freed.push(queued.packet.bytes);
            }
            _ => self.push(flow, [queued], freed),
        }
    }

    fn push(
        &mut self,
        flow: u16,
        packets: impl IntoIterator<Item = Queued>,
        freed: &mut Vec<Vec<u8>>,
    ) {
        for queued in packets {
            self.queue.push(flow, queued, &self.parameters);
        }
        freed.extend(self.queue.drain_dropped());
    }

    /// Whose turn it is. `None` when nothing waits.
    pub fn head(&mut self) -> Option<Head> {
        self.queue.head()
    }

    /// The next packet of a flow, to be sent now. Its turn lasts until
    /// [`Self::on_cut`]. What the queue drops leaves no hole: it has no number yet.
    #[inline]
    pub fn next_packet(
        &mut self,
        flow: u16,
        freed: &mut Vec<Vec<u8>>,
        working: Time,
    ) -> Option<Queued> {
        loop {
            let mut queued = self.queue.take(flow, working, &self.parameters)?;
            if queued.class == Class::Realtime && working - queued.at > STALE_REALTIME {
                self.counters.stale += 1;
                self.queue.cut(flow);
                freed.push(queued.packet.bytes);
                continue;
            }
            if queued.stream && queued.packet.bytes.len() < self.flow_join_limit() {
                self.join_following(&mut queued.packet, flow, freed);
            }
            return Some(queued);
        }
    }

    /// Takes all out that waits or is held back, in the order of each flow.
    pub fn drain(
        &mut self,
        packets: &mut Vec<InnerPacket>,
        freed: &mut Vec<Vec<u8>>,
        working: Time,
        now: Time,
    ) {
        while let Some((flow, queued)) = self.acks.poll_held(now) {
            self.push(flow, [queued], freed);
        }
        while let Some(head) = self.queue.head() {
            match self.next_packet(head.flow, freed, working) {
                Some(queued) => packets.push(queued.packet),
                None => self.queue.skip(head.flow),
            }
            self.queue.cut(head.flow);
        }
    }

    /// Of a flow: as flows take turns, all must get theirs in the time.
    fn flow_join_limit(&self) -> usize {
        self.join_limit / self.queue.active_flows().max(1)
    }

    /// Segments of a stream that wait together go as one super-packet: its
    /// header goes once.
    fn join_following(&mut self, packet: &mut InnerPacket, flow: u16, freed: &mut Vec<Vec<u8>>) {
        let (layer, limit) = (self.layer, self.flow_join_limit());
        self.queue.take_following(flow, |next| join(packet, next, layer, limit));
        freed.extend(self.queue.drain_dropped());
    }

    /// All of the flow's packet has been sent, or won't be.
    pub fn on_cut(&mut self, flow: u16) {
        self.queue.cut(flow);
    }

    /// So many bytes of the flow's packet were sent.
    pub fn charge(&mut self, flow: u16, bytes: u64) {
        self.queue.charge(flow, bytes);
    }

    /// As above, of the only flow that has something to send.
    pub fn charge_alone(&mut self, flow: u16, bytes: u64) {
        self.queue.charge_alone(flow, bytes);
    }

    /// The flow's turn is over: it has to wait for a path.
    pub fn skip(&mut self, flow: u16) {
        self.queue.skip(flow);
    }

    /// How many flows have something to send.
    pub fn active_flows(&self) -> usize {
        self.queue.active_flows()
    }

    /// The flow in turn, if there is just one.
    pub fn only_flow(&self) -> Option<u16> {
        self.queue.only_flow()
    }

    /// As above, if it has been in turn for a while.
    pub fn only_old_flow(&self) -> Option<u16> {
        self.queue.only_old_flow()
    }

    /// Nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// No acknowledgement is held back either.
    pub fn holds_nothing(&self) -> bool {
        self.queue.is_empty() && self.acks.is_empty()
    }

    /// When a packet last came in.
    pub fn last_admitted(&self) -> Time {
        self.last_admitted
    }

    /// What waits.
    pub fn status(&self) -> EntryStatus {
        self.queue.status()
    }

    /// Gives back the memory of flows, of which none has anything to send.
    pub fn rest(&mut self) {
        self.queue.rest();
        self.acks.rest();
        self.places.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::Offload;

    const MOST: u64 = 1 << 20;

    fn ingress() -> Ingress {
        Ingress::new(Layer::L3, HashKey::new([7; 16]), Vec::new(), MOST)
    }

    /// A UDP packet of so many bytes by this port; 46 is expedited forwarding.
    fn udp(port: u16, dscp: u8, len: usize) -> InnerPacket {
        let mut bytes = vec![0x45, dscp << 2];
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 80]);
        bytes.extend((len as u16 - 20).to_be_bytes());
        bytes.resize(len, 0);
        InnerPacket { bytes, offload: Offload::default() }
    }

    fn admit(ingress: &mut Ingress, packet: InnerPacket, mode: Mode, now: Time) -> bool {
        let rules = ClassRules(Vec::new());
        let sorting = Sorting { rules: &rules, mode };
        let mut traffic = Traffic::new(Layer::L3, HashKey::new([7; 16]));
        ingress.admit(packet, sorting, &mut traffic, &mut Vec::new(), now, now).is_none()
    }

    #[test]
    fn flows_take_turns_whoever_came_first() {
        let (mut ingress, now) = (ingress(), Time::from_millis(5));
        for _ in 0..10 {
            assert!(admit(&mut ingress, udp(1, 0, 1400), Mode::Adaptive, now));
        }
        assert!(admit(&mut ingress, udp(2, 0, 100), Mode::Adaptive, now));
        let mut lengths = Vec::new();
        while let Some(head) = ingress.head() {
            let packet = ingress.next_packet(head.flow, &mut Vec::new(), now).unwrap();
            lengths.push(packet.packet.bytes.len());
            ingress.charge(head.flow, lengths.last().copied().unwrap_or(0) as u64);
            ingress.on_cut(head.flow);
        }
        assert_eq!(lengths.len(), 11);
        let small = lengths.iter().position(|len| *len == 100);
        assert!(small.is_some_and(|place| place <= 2), "{lengths:?}");
        assert!(ingress.is_empty());
    }

    #[test]
    fn packets_of_the_kernels_modes_pass_the_queue_by() {
        let (mut ingress, now) = (ingress(), Time::from_millis(5));
        assert!(!admit(&mut ingress, udp(1, 0, 100), Mode::BalanceRr, now));
        assert!(ingress.is_empty());
        assert_eq!(ingress.counters.accepted, 1);
    }

    #[test]
    fn calls_that_waited_for_too_long_are_dropped_and_their_buffers_come_back() {
        let (mut ingress, now) = (ingress(), Time::from_millis(5));
        assert!(admit(&mut ingress, udp(1, 46, 200), Mode::Adaptive, now));
        let later = now + STALE_REALTIME + Duration::from_millis(1);
        let flow = ingress.head().unwrap().flow;
        let mut freed = Vec::new();
        assert!(ingress.next_packet(flow, &mut freed, later).is_none());
        assert_eq!((freed.len(), ingress.counters.stale), (1, 1));
        assert!(ingress.head().is_none());
    }
}
