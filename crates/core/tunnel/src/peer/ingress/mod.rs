//! Inner packets from our side: classed, put into their flow's queue, and taken
//! out again when they are to be sent.

mod tuning;

use crate::config::Mode;
use crate::entry::{
    AckFilter, EntryQueue, EntryStatus, FlowPlaces, Head, LimitId, LimitRate, Parameters, Queued,
    Shaper, Treatment, TreatmentTable,
};
use crate::exit::{AckAggregator, StreamId};
use crate::heuristics::Heuristics;
use crate::peer::traffic::{MOST_FLOWS, Traffic};
use braid_inner::{
    Class, ClassRules, FlowKey, HashKey, Headers, InnerPacket, Layer, PureAck, flow_key, join,
    segment_count, split_all,
};
use braid_units::{Rate, Time};
use std::num::NonZeroU8;
use std::time::Duration;

/// IP protocol number of TCP.
const TCP: u8 = 6;
/// A super-packet so many times as long as the longest that segments are joined to
/// is too long: it would come out after 20 ms. Ours
/// (docs/design/006-heuristics.md, long-packets-cut).
const LONG: usize = 5;
/// Real-time packets that waited longer than this are of no use any more. The most that a
/// call bears one way (ITU-T G.114).
const STALE_REALTIME: Duration = Duration::from_millis(400);
/// The only limit of what limits all flows together.
const ALL: LimitId = LimitId(NonZeroU8::MIN);

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
    treatments: TreatmentTable,
    acks: AckFilter,
    /// Limits that some flows share.
    shaper: Shaper,
    /// The limit of all flows together, behind those.
    whole: Shaper,
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

/// Who is told of what comes in.
#[derive(Debug)]
pub(super) struct Observers<'a> {
    pub traffic: &'a mut Traffic,
    pub acks: &'a mut AckAggregator,
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
    pub fn new(
        layer: Layer,
        hash_key: HashKey,
        class_modes: Vec<Mode>,
        limit: u64,
        heuristics: Heuristics,
    ) -> Self {
        let shortens = heuristics.queue_shortening;
        Self {
            layer,
            hash_key,
            class_modes,
            places: FlowPlaces::default(),
            treatments: TreatmentTable::new(MOST_FLOWS),
            acks: AckFilter::default(),
            shaper: Shaper::new(layer),
            whole: Shaper::new(layer),
            queue: EntryQueue::new(layer, heuristics),
            capacity_known: false,
            parameters: Parameters { limit, shortens, ..Parameters::default() },
            steady_target: Parameters::default().target,
            join_limit: 0,
            heuristics,
            last_admitted: Time::ZERO,
            counters: IngressCounters::default(),
        }
    }

    /// Queues a packet. `working` is the time that stands still while no path
    /// works. One that belongs to another mode is returned. Buffers that aren't needed any
    /// more go to `freed`.
    #[inline]
    pub fn admit(
        &mut self,
        packet: InnerPacket,
        Sorting { rules, mode }: Sorting<'_>,
        Observers { traffic, acks }: Observers<'_>,
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
        let key = flow_key(&packet.bytes, &headers);
        let hash = key.hash(&self.hash_key);
        let dscp = headers.ip.map_or(0, |ip| ip.dscp());
        let treatment = self.treatments.of(hash).with_dscp(dscp);
        let class = Class::of(&packet.bytes, &headers);
        let class = treatment.class.unwrap_or(class);
        let tcp = headers.ip.is_some_and(|ip| ip.protocol == TCP);
        let stream = tcp || matches!(class, Class::Precious);
        let (queue, shaper, whole) = (&self.queue, &self.shaper, &self.whole);
        let waits = |flow| queue.waits(flow) || shaper.waits(flow) || whole.waits(flow);
        let flow = self.places.place(hash, working, waits);
        let bytes = packet.bytes.len() as u64;
        traffic.on_admitted(flow, (&key, hash), class, bytes, now);
        if tcp && class == Class::Bulk {
            acks.on_data(StreamId { place: flow, hash }, bytes, now);
        }
        let ack = PureAck::read(&packet.bytes, &headers).filter(|_| self.heuristics.ack_thinning);
        let queued = Queued { packet, class, stream, rule, treatment, at: working };
        let Some(ack) = ack else {
            if let Some(held) = self.acks.interrupt(flow, now) {
                self.push(flow, held, now);
            }
            self.push_parts(flow, queued, freed, now);
            self.give_back_dropped(freed);
            return None;
        };
        let offered = self.acks.offer(flow, key, ack, queued, now);
        let unlimited = treatment.limit.is_none() && self.whole.is_unused();
        let supersedes_last = offered.supersedes_last && unlimited;
        let (next, last) = match supersedes_last {
            true => (None, offered.now),
            false => (offered.now, None),
        };
        for queued in offered.before.into_iter().chain(next) {
            self.push(flow, queued, now);
        }
        let parameters = &self.parameters;
        let gave_way = last.and_then(|last| self.queue.push_superseding(flow, last, parameters));
        for gone in offered.replaced.into_iter().chain(gave_way) {
            self.counters.thinned += 1;
            freed.push(gone.packet.bytes);
        }
        self.give_back_dropped(freed);
        None
    }

    /// Acknowledgements that were held back long enough go on, and what a limit of rate held
    /// back. `working` as for [`Self::admit`].
    pub fn release(&mut self, freed: &mut Vec<Vec<u8>>, working: Time, now: Time) {
        while let Some((flow, queued)) = self.acks.poll(now) {
            self.push(flow, queued, now);
        }
        while let Some((flow, queued)) = self.shaper.poll(&self.parameters, working, now) {
            self.push_free(flow, queued, now);
        }
        while let Some((flow, queued)) = self.whole.poll(&self.parameters, working, now) {
            self.queue.push(flow, queued, &self.parameters);
        }
        self.give_back_dropped(freed);
    }

    /// When the next packet has been held back long enough.
    pub fn release_at(&self) -> Option<Time> {
        let limits = [self.shaper.release_at(), self.whole.release_at()];
        limits.into_iter().chain([self.acks.release_at()]).flatten().min()
    }

    /// From now on packets of this flow are treated so.
    pub fn treat(&mut self, key: &FlowKey, treatment: Treatment) {
        self.treatments.set(self.hash(key), treatment);
    }

    /// By which a flow's treatment is known.
    pub fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(&self.hash_key)
    }

    /// The flow's place, if it has one.
    pub fn find(&self, key: &FlowKey) -> Option<StreamId> {
        let hash = self.hash(key);
        Some(StreamId { place: self.places.find(hash)?, hash })
    }

    /// Of which flow of ours a packet of the peer's is the other direction, and what it
    /// acknowledges if it does nothing else.
    pub fn stream_answered(&self, bytes: &[u8]) -> Option<(StreamId, Option<PureAck>)> {
        let headers = Headers::parse(bytes, self.layer);
        let id = self.find(&flow_key(bytes, &headers).reversed())?;
        Some((id, PureAck::read(bytes, &headers)))
    }

    /// Which heuristics are on.
    pub fn heuristics(&self) -> Heuristics {
        self.heuristics
    }

    /// Acknowledgements of this flow aren't held back from now on: its sender paces.
    pub fn let_acks_pass(&mut self, key: &FlowKey) {
        if let Some(id) = self.find(key) {
            self.acks.let_pass(id.place, key);
        }
    }

    /// Flows are treated as all are.
    pub fn forget_treatments(&mut self) {
        self.treatments.clear();
    }

    /// From now on these limits have these rates.
    pub fn set_limits(&mut self, limits: impl IntoIterator<Item = LimitRate>) {
        self.shaper.set(limits);
    }

    /// From now on all flows together have this rate; none: as much as the paths carry.
    pub fn set_whole_limit(&mut self, rate: Option<Rate>) {
        self.whole.set([(ALL, rate)]);
    }

    /// A super-packet that would keep the paths busy for longer than packets should
    /// take is queued by its segments: nothing of it comes out before all is there,
    /// and flows take turns meanwhile.
    fn push_parts(&mut self, flow: u16, queued: Queued, freed: &mut Vec<Vec<u8>>, now: Time) {
        let len = queued.packet.bytes.len();
        let own = queued.treatment.limit.and_then(|limit| self.shaper.burst_bytes(limit));
        let burst = own.into_iter().chain(self.whole.burst_bytes(ALL)).min();
        // While capacities are being found what is known of them is too little: a flow alone
        // would only be cut up.
        let known = self.capacity_known || self.queue.active_flows() > 1;
        let cuts = known && self.heuristics.long_packets_cut;
        let long = (cuts && len > self.flow_join_limit() * LONG
            || burst.is_some_and(|burst| len > burst))
            && segment_count(&queued.packet) > 1;
        match long.then(|| split_all(&queued.packet, self.layer)) {
            Some(Ok(parts)) => {
                for packet in parts {
                    self.push(flow, queued.with(packet), now);
                }
                freed.push(queued.packet.bytes);
            }
            _ => self.push(flow, queued, now),
        }
    }

    #[inline]
    fn push(&mut self, flow: u16, queued: Queued, now: Time) {
        match queued.treatment.limit {
            None => self.push_free(flow, queued, now),
            Some(limit) => self.push_limited(limit, flow, queued, now),
        }
    }

    #[cold]
    fn push_limited(&mut self, limit: LimitId, flow: u16, queued: Queued, now: Time) {
        if let Some(free) = self.shaper.offer(limit, flow, queued, &self.parameters, now) {
            self.push_free(flow, free, now);
        }
    }

    /// What its own limit, if it has one, doesn't hold back.
    #[inline]
    fn push_free(&mut self, flow: u16, queued: Queued, now: Time) {
        match self.whole.is_unused() {
            true => self.queue.push(flow, queued, &self.parameters),
            false => self.push_whole(flow, queued, now),
        }
    }

    #[cold]
    fn push_whole(&mut self, flow: u16, queued: Queued, now: Time) {
        if let Some(free) = self.whole.offer(ALL, flow, queued, &self.parameters, now) {
            self.queue.push(flow, free, &self.parameters);
        }
    }

    /// Buffers of packets that queues dropped.
    #[inline]
    fn give_back_dropped(&mut self, freed: &mut Vec<Vec<u8>>) {
        if !self.shaper.is_unused() {
            freed.extend(self.shaper.drain_dropped());
        }
        if !self.whole.is_unused() {
            freed.extend(self.whole.drain_dropped());
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
            self.push(flow, queued, now);
        }
        while let Some((flow, queued)) = self.whole.poll_any(&self.parameters, working) {
            self.queue.push(flow, queued, &self.parameters);
        }
        while let Some((flow, queued)) = self.shaper.poll_any(&self.parameters, working) {
            self.queue.push(flow, queued, &self.parameters);
        }
        freed.extend(self.shaper.drain_dropped());
        freed.extend(self.whole.drain_dropped());
        while let Some(head) = self.queue.head() {
            packets.extend(self.next_packet(head.flow, freed, working).map(|queued| queued.packet));
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

    /// Flows that were skipped are in turn again.
    pub fn unskip(&mut self) {
        self.queue.unskip();
    }

    /// The flow, whose turn it is, waits for another path: others are in turn until
    /// [`Self::unskip`].
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

    /// Nothing is held back either.
    pub fn holds_nothing(&self) -> bool {
        let limits = self.shaper.is_empty() && self.whole.is_empty();
        self.queue.is_empty() && self.acks.is_empty() && limits
    }

    /// When a packet last came in.
    pub fn last_admitted(&self) -> Time {
        self.last_admitted
    }

    /// Bytes that wait for a path.
    #[inline]
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.status().bytes
    }

    /// What waits, for a path or at a limit.
    pub fn status(&self) -> EntryStatus {
        self.queue.status() + self.shaper.status() + self.whole.status()
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
        Ingress::new(Layer::L3, HashKey::new([7; 16]), Vec::new(), MOST, Heuristics::ALL)
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
        let traffic = &mut Traffic::new(Layer::L3, HashKey::new([7; 16]));
        let observers = Observers { traffic, acks: &mut AckAggregator::default() };
        ingress.admit(packet, sorting, observers, &mut Vec::new(), now, now).is_none()
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
    fn senders_that_want_what_others_leave_get_that() {
        const LOWER_EFFORT: u8 = 1;
        let (mut ingress, now) = (ingress(), Time::from_millis(5));
        for _ in 0..200 {
            assert!(admit(&mut ingress, udp(1, LOWER_EFFORT, 1400), Mode::Adaptive, now));
            assert!(admit(&mut ingress, udp(2, 0, 1400), Mode::Adaptive, now));
        }
        let mut sent = [0; 2];
        for _ in 0..160 {
            let head = ingress.head().unwrap();
            let packet = ingress.next_packet(head.flow, &mut Vec::new(), now).unwrap();
            sent[usize::from(packet.packet.bytes[21] - 1)] += 1;
            ingress.charge(head.flow, 1400);
            ingress.on_cut(head.flow);
        }
        assert!(sent[0] <= 12 && sent[0] >= 8, "{sent:?}");
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
