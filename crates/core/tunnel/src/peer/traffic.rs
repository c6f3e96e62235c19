//! What each flow has carried, and by which paths: for people who want to know who uses
//! the tunnel. Nothing is decided by it. It costs a packet one look at the place that its
//! flow has anyway, and has bounds: flows that find no place are counted together.

mod glance;
mod runs;

use crate::entry::FLOWS;
use crate::index_map::IndexMap;
use braid_inner::{Class, FlowKey, HashKey, Headers, Layer, flow_key};
use braid_units::Time;
use glance::Glance;
use runs::{AdmittedRun, ArrivedRun, SentRun, Taken};
use std::time::Duration;

/// Flows that one peer has at the most; some 300 bytes each. Ours.
pub const MOST_FLOWS: usize = 1024;
/// A flow that has been silent for so long is over: people see it go. Ours.
const OVER: Duration = Duration::from_secs(60);
/// Of the places so many of so many are taken at the most after [`Traffic::report`]: there is
/// room for flows that begin. Ours.
const LEFT_FULL: (usize, usize) = (6, 8);
/// No flow has this place.
const NOWHERE: u16 = u16::MAX;

/// The flows of one peer.
#[derive(Debug)]
pub(crate) struct Traffic {
    hash_key: HashKey,
    layer: Layer,
    limit: usize,
    flows: Vec<Flow>,
    /// By the hash of the flow's key.
    by_hash: IndexMap<u64, u16>,
    /// Which flow had a packet last at this place of our queue, and of the peer's.
    ours: Vec<u16>,
    theirs: Vec<Taken>,
    /// The newest, not counted yet.
    admitted: Option<AdmittedRun>,
    sent: Option<SentRun>,
    arrived: Option<ArrivedRun>,
    others: Carried,
}

#[derive(Debug)]
struct Flow {
    hash: u64,
    key: FlowKey,
    class: Class,
    began: Time,
    last: Time,
    carried: Carried,
    /// By which its packets from the peer are known again.
    glance: Option<Glance>,
    repaired: u64,
    copied: u64,
    paths: Vec<PathShare>,
    /// Bytes when it was reported last.
    reported: u64,
}

/// What was carried, as inner packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes to the peer.
    pub sent_bytes: u64,
    /// Packets to the peer; a super-packet is one.
    pub sent_packets: u64,
    /// Bytes from the peer.
    pub received_bytes: u64,
    /// Packets from the peer; a super-packet is one.
    pub received_packets: u64,
}

/// What one path carried of a flow, copies and repairs counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathShare {
    /// The path's number.
    pub path: u8,
    /// Bytes to the peer.
    pub sent_bytes: u64,
    /// Bytes from the peer.
    pub received_bytes: u64,
}

/// A flow as it is now.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// As packets to the peer have it.
    pub key: FlowKey,
    /// What its packets are worth.
    pub class: Class,
    /// When its first packet was seen, by the core's clock: with the key it names the flow.
    pub began: Time,
    /// For how long it has been known.
    pub age: Duration,
    /// Since its last one.
    pub silent_for: Duration,
    /// Both ways.
    pub carried: Carried,
    /// Bytes sent again.
    pub repaired_bytes: u64,
    /// Bytes sent twice on purpose.
    pub copied_bytes: u64,
    /// By which paths.
    pub paths: Vec<PathShare>,
}

/// The flows of a peer as they are now.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    /// In no order.
    pub flows: Vec<FlowReport>,
    /// Of flows that found no place, since the peer is known.
    pub others: Carried,
}

/// Why bytes of a flow are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    First,
    Repair,
    Copy,
}

impl Traffic {
    /// Nothing yet.
    pub fn new(layer: Layer, hash_key: HashKey) -> Self {
        Self {
            hash_key,
            layer,
            limit: MOST_FLOWS,
            flows: Vec::new(),
            by_hash: IndexMap::default(),
            ours: Vec::new(),
            theirs: Vec::new(),
            admitted: None,
            sent: None,
            arrived: None,
            others: Carried::default(),
        }
    }

    /// A packet for the peer came in. `place` is its flow's in our queue, `hash` the key's.
    #[inline]
    pub fn on_admitted(
        &mut self,
        place: u16,
        (key, hash): (&FlowKey, u64),
        class: Class,
        len: u64,
        now: Time,
    ) {
        if let Some(run) = &mut self.admitted
            && run.takes(place, hash, class, len, now)
        {
            return;
        }
        let run = AdmittedRun { place, key: *key, hash, class, bytes: len, packets: 1, last: now };
        if let Some(over) = self.admitted.replace(run) {
            self.count_admitted(&over);
        }
    }

    /// A packet for the peer, of a mode that has no queue by flows.
    pub fn on_bonded(&mut self, bytes: &[u8], headers: &Headers, now: Time) {
        let key = flow_key(bytes, headers);
        let flow = (&key, key.hash(&self.hash_key));
        self.on_admitted(NOWHERE, flow, Class::of(bytes, headers), bytes.len() as u64, now);
    }

    /// Bytes of what has this place in our queue leave by a path.
    #[inline]
    pub fn on_sent(&mut self, place: u16, path: u8, bytes: u32, why: Sending) {
        if let Some(run) = &mut self.sent
            && run.takes(place, path, bytes, why)
        {
            return;
        }
        let run = SentRun { place, path, why, bytes: u64::from(bytes) };
        if let Some(over) = self.sent.replace(run) {
            self.count_sent(over);
        }
    }

    /// Bytes of what has this place in the peer's queue came by a path.
    #[inline]
    pub fn on_arrived(&mut self, place: u16, path: u8, bytes: usize) {
        if let Some(run) = &mut self.arrived
            && run.takes(place, path, bytes)
        {
            return;
        }
        let run = ArrivedRun { place, path, bytes: bytes as u64 };
        if let Some(over) = self.arrived.replace(run) {
            self.count_arrived(over);
        }
    }

    /// A packet from the peer goes to its device; `place` is its flow's at the peer.
    #[inline]
    pub fn on_delivered(&mut self, place: u16, bytes: &[u8], now: Time) {
        if let Some(taken) = self.theirs.get_mut(usize::from(place))
            && taken.lets_by(bytes.len())
        {
            return;
        }
        self.look_at(place, bytes, now);
    }

    /// Counts what went by at this place, and looks whose this packet is.
    fn look_at(&mut self, place: u16, bytes: &[u8], now: Time) {
        self.count_taken(place, now);
        let glance = Glance::of(bytes, self.layer);
        let taken = self.theirs.get_mut(usize::from(place));
        if let Some(taken) = taken
            && let Some(flow) = self.flows.get_mut(usize::from(taken.slot))
            && glance.is_some()
            && flow.glance == glance
            && !taken.is_longer(bytes.len())
        {
            taken.confirm(bytes.len());
            flow.carried.received_bytes += bytes.len() as u64;
            flow.carried.received_packets += 1;
            flow.last = now;
            return;
        }
        self.on_strange(place, (bytes, glance), now);
    }

    /// One that isn't known at a glance, or that may say more of what its flow is.
    fn on_strange(&mut self, place: u16, (bytes, glance): (&[u8], Option<Glance>), now: Time) {
        let len = bytes.len() as u64;
        let headers = Headers::parse(bytes, self.layer);
        let key = flow_key(bytes, &headers).reversed();
        let class = Class::of(bytes, &headers);
        let known = self.theirs.get(usize::from(place)).map_or(NOWHERE, |taken| taken.slot);
        let known =
            self.flows.get(usize::from(known)).is_some_and(|f| f.key == key).then_some(known);
        let found = known.or_else(|| self.meet((&key, key.hash(&self.hash_key)), class, now));
        if known.is_none() {
            self.note_theirs(place, found.unwrap_or(NOWHERE));
        }
        if let Some(taken) = self.theirs.get_mut(usize::from(place)) {
            taken.see(bytes.len());
        }
        let Some(flow) = found.and_then(|slot| self.flows.get_mut(usize::from(slot))) else {
            self.others.received_bytes += len;
            self.others.received_packets += 1;
            return;
        };
        flow.carried.received_bytes += len;
        flow.carried.received_packets += 1;
        flow.glance = glance;
        flow.see(class, now);
    }

    /// The flow at this place of the peer's queue, as packets to the peer have it.
    pub fn key_of_theirs(&self, place: u16) -> Option<&FlowKey> {
        let taken = self.theirs.get(usize::from(place))?;
        self.flows.get(usize::from(taken.slot)).map(|flow| &flow.key)
    }

    /// Tells of all flows, and forgets those that are over. Where places are short those
    /// that carried least since the last time go too. `limit` is how many there may be.
    pub fn report(&mut self, limit: usize, now: Time) -> TrafficReport {
        self.limit = limit.clamp(1, MOST_FLOWS);
        self.settle(now);
        let flows = self.flows.iter().map(|flow| flow.report(now)).collect();
        self.forget(now);
        for flow in &mut self.flows {
            flow.reported = flow.carried.bytes();
        }
        TrafficReport { flows, others: self.others }
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self, now: Time) {
        self.settle(now);
        self.ours = Vec::new();
        self.theirs = Vec::new();
        self.flows.shrink_to_fit();
        self.by_hash.shrink_to_fit();
    }

    /// Counts what isn't counted yet.
    fn settle(&mut self, now: Time) {
        if let Some(run) = self.admitted.take() {
            self.count_admitted(&run);
        }
        if let Some(run) = self.sent.take() {
            self.count_sent(run);
        }
        for place in 0..self.theirs.len() {
            self.count_taken(place as u16, now);
            self.theirs[place].doubt();
        }
        if let Some(run) = self.arrived.take() {
            self.count_arrived(run);
        }
    }

    fn count_admitted(&mut self, run: &AdmittedRun) {
        let known = self.ours.get(usize::from(run.place)).copied().unwrap_or(NOWHERE);
        let known =
            self.flows.get(usize::from(known)).is_some_and(|f| f.hash == run.hash).then_some(known);
        let found = known.or_else(|| self.meet((&run.key, run.hash), run.class, run.last));
        if known.is_none() {
            self.note_ours(run.place, found.unwrap_or(NOWHERE));
        }
        let Some(flow) = found.and_then(|slot| self.flows.get_mut(usize::from(slot))) else {
            self.others.sent_bytes += run.bytes;
            self.others.sent_packets += run.packets;
            return;
        };
        flow.carried.sent_bytes += run.bytes;
        flow.carried.sent_packets += run.packets;
        flow.see(run.class, run.last);
    }

    fn count_sent(&mut self, run: SentRun) {
        // What leaves came in before.
        if let Some(admitted) = self.admitted.take_if(|admitted| admitted.place == run.place) {
            self.count_admitted(&admitted);
        }
        let Some(&slot) = self.ours.get(usize::from(run.place)) else { return };
        let Some(flow) = self.flows.get_mut(usize::from(slot)) else { return };
        flow.share(run.path).sent_bytes += run.bytes;
        match run.why {
            Sending::First => {}
            Sending::Repair => flow.repaired += run.bytes,
            Sending::Copy => flow.copied += run.bytes,
        }
    }

    fn count_arrived(&mut self, run: ArrivedRun) {
        let Some(taken) = self.theirs.get(usize::from(run.place)) else { return };
        if let Some(flow) = self.flows.get_mut(usize::from(taken.slot)) {
            flow.share(run.path).received_bytes += run.bytes;
        }
    }

    /// Counts what went by unseen at this place.
    fn count_taken(&mut self, place: u16, now: Time) {
        let Some(taken) = self.theirs.get_mut(usize::from(place)) else { return };
        let (bytes, packets) = taken.settle();
        if packets == 0 {
            return;
        }
        let Some(flow) = self.flows.get_mut(usize::from(taken.slot)) else { return };
        flow.carried.received_bytes += bytes;
        flow.carried.received_packets += packets;
        flow.last = now;
    }

    fn forget(&mut self, now: Time) {
        self.flows.retain(|flow| now - flow.last < OVER);
        let most = (self.limit * LEFT_FULL.0 / LEFT_FULL.1).max(1);
        if self.flows.len() > most {
            self.flows.sort_by_key(|flow| {
                std::cmp::Reverse((flow.carried.bytes() - flow.reported, flow.last))
            });
            self.flows.truncate(most);
        }
        if self.flows.len() == self.by_hash.len() {
            return;
        }
        // The places know them by number, and find them again by their next packet.
        self.by_hash =
            self.flows.iter().enumerate().map(|(slot, flow)| (flow.hash, slot as u16)).collect();
        self.ours.fill(NOWHERE);
        self.theirs.fill(Taken::of(NOWHERE));
    }

    /// The flow's number, a new one if there is room.
    fn meet(&mut self, (key, hash): (&FlowKey, u64), class: Class, now: Time) -> Option<u16> {
        if let Some(&slot) = self.by_hash.get(&hash) {
            return Some(slot);
        }
        if self.flows.len() >= self.limit {
            return None;
        }
        let slot = self.flows.len() as u16;
        self.flows.push(Flow {
            hash,
            key: *key,
            class,
            began: now,
            last: now,
            carried: Carried::default(),
            glance: None,
            repaired: 0,
            copied: 0,
            paths: Vec::new(),
            reported: 0,
        });
        self.by_hash.insert(hash, slot);
        Some(slot)
    }

    fn note_ours(&mut self, place: u16, slot: u16) {
        // Of the kernel's modes: they have none.
        if usize::from(place) >= FLOWS {
            return;
        }
        if self.ours.is_empty() {
            self.ours.resize(FLOWS, NOWHERE);
        }
        if let Some(known) = self.ours.get_mut(usize::from(place)) {
            *known = slot;
        }
    }

    fn note_theirs(&mut self, place: u16, slot: u16) {
        // By a peer that counts otherwise.
        if usize::from(place) >= FLOWS {
            return;
        }
        if self.theirs.is_empty() {
            self.theirs.resize(FLOWS, Taken::of(NOWHERE));
        }
        if let Some(known) = self.theirs.get_mut(usize::from(place)) {
            *known = Taken::of(slot);
        }
    }
}

impl Carried {
    fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }
}

impl Flow {
    fn see(&mut self, class: Class, now: Time) {
        self.last = now;
        if weight(class) >= weight(self.class) {
            self.class = class;
        }
    }

    fn share(&mut self, path: u8) -> &mut PathShare {
        let at = self.paths.iter().position(|share| share.path == path).unwrap_or_else(|| {
            self.paths.push(PathShare { path, sent_bytes: 0, received_bytes: 0 });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }

    fn report(&self, now: Time) -> FlowReport {
        FlowReport {
            key: self.key,
            class: self.class,
            began: self.began,
            age: now - self.began,
            silent_for: now - self.last,
            carried: self.carried,
            repaired_bytes: self.repaired,
            copied_bytes: self.copied,
            paths: self.paths.clone(),
        }
    }
}

/// A flow is what its weightiest packets are: a download has acknowledgements too.
fn weight(class: Class) -> u8 {
    match class {
        Class::PureAck => 0,
        Class::Precious => 1,
        Class::Interactive => 2,
        Class::Realtime | Class::Bulk => 3,
    }
}

#[cfg(test)]
mod tests;
