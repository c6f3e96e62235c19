//! Order per flow: a hole in one flow never holds up another.

use super::assembly::{Assembly, Rejected};
use braid_inner::{InnerPacket, Layer};
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition, GaveUp, expand};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// How far a flow's packets may be ahead of the one it waits for.
const WINDOW: u64 = 16_384;
/// What a place in a flow's window costs.
const SLOT_COST: u64 = 16;
/// Places that a flow's empty window may keep.
const SPARE_SLOTS: usize = 64;
/// What a flow costs.
const FLOW_COST: u64 = 96;

/// How long a flow waits for a missing packet at the most.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Where the packets may come late.
    pub ordered: Duration,
    /// Where late is lost.
    pub realtime: Duration,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct ExitStatus {
    /// Bytes of memory held for packets that are incomplete or wait.
    pub held_bytes: u64,
    /// Packets that are incomplete or wait for an earlier one.
    pub waiting: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Chunks that had come before.
    pub duplicates: u64,
    /// Packets never completed in time.
    pub missed: u64,
    /// Chunks of packets that were no longer waited for.
    pub late: u64,
    /// Packets that had to wait for an earlier one.
    pub reordered: u64,
    /// Chunks refused: contradictory.
    pub rejected: u64,
}

/// Puts the packets of one peer back in order.
#[derive(Debug)]
pub struct Reordering {
    layer: Layer,
    limit: u64,
    flows: HashMap<u16, FlowOrder>,
    /// Blocked flows by the time that what they wait for began.
    blocked: BTreeSet<(Time, u16)>,
    ready: VecDeque<InnerPacket>,
    status: ExitStatus,
    spare: Vec<Vec<u8>>,
}

/// The order of one flow.
#[derive(Debug, Default)]
pub struct FlowOrder {
    next: u64,
    slots: VecDeque<Slot>,
    blocked_since: Option<Time>,
    realtime: bool,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Missing,
    /// Delivered already or given up.
    Gone,
    Partial(Box<(Time, Assembly)>),
    Complete(Box<(Time, InnerPacket)>),
}

impl Slot {
    fn since(&self) -> Option<Time> {
        match self {
            Slot::Missing | Slot::Gone => None,
            Slot::Partial(p) => Some(p.0),
            Slot::Complete(p) => Some(p.0),
        }
    }

    fn memory(&self) -> u64 {
        match self {
            Slot::Missing | Slot::Gone => 0,
            Slot::Partial(p) => p.1.memory(),
            Slot::Complete(p) => p.1.bytes.capacity() as u64,
        }
    }
}

impl Reordering {
    /// Holds at most about `limit` bytes.
    pub fn new(layer: Layer, limit: u64) -> Self {
        Self {
            layer,
            limit,
            flows: HashMap::new(),
            blocked: BTreeSet::new(),
            ready: VecDeque::new(),
            status: ExitStatus::default(),
            spare: Vec::new(),
        }
    }

    /// Takes a chunk in. `now` is the time that stands still while nothing at
    /// all arrives. `buffer` gives an empty buffer of some capacity.
    pub fn on_chunk(
        &mut self,
        now: Time,
        chunk: &Chunk<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<(), Rejected> {
        let known = self.flows.len();
        let flow = self.flows.entry(chunk.flow).or_default();
        let created = flow.next == 0 && flow.slots.is_empty();
        let number = expand(chunk.sequence, 24, flow.next);
        flow.realtime = chunk.realtime;
        if number < flow.next || number > flow.next + (1 << 22) {
            self.status.late += 1;
            return Err(Rejected::Duplicate);
        }
        // The common case: in order, whole, nothing waits.
        if number == flow.next && flow.slots.is_empty() {
            if let ChunkPosition::Whole(offload) = chunk.position {
                let mut bytes = buffer(chunk.data.len());
                bytes.clear();
                bytes.extend_from_slice(chunk.data);
                flow.next += 1;
                self.status.delivered += 1;
                self.ready.push_back(InnerPacket { bytes, offload });
                if created {
                    self.status.held_bytes += FLOW_COST * (self.flows.len() - known) as u64;
                }
                return Ok(());
            }
        }
        self.status.held_bytes += FLOW_COST * (self.flows.len() - known) as u64;
        let result = self.insert(now, number, chunk, buffer);
        self.after_change(chunk.flow);
        while self.status.held_bytes > self.limit && self.expire_first(|_| true) {}
        if self.status.held_bytes > self.limit {
            self.forget_marks(chunk.flow);
        }
        result
    }

    /// The sender won't complete these packets.
    pub fn on_gave_up(&mut self, now: Time, gave_up: &GaveUp) {
        let Some(flow) = self.flows.get_mut(&gave_up.flow) else {
            // Nothing of the flow has come; its first packets are the ones.
            self.flows.entry(gave_up.flow).or_default();
            self.status.held_bytes += FLOW_COST;
            return self.on_gave_up(now, gave_up);
        };
        let first = expand(gave_up.sequence, 24, flow.next);
        for number in first..first + u64::from(gave_up.count) {
            if number < flow.next || number >= flow.next + WINDOW {
                continue;
            }
            let index = (number - flow.next) as usize;
            // Nothing else would ever remove these notes: they have to fit.
            let grown = SLOT_COST * (index + 1).saturating_sub(flow.slots.len()) as u64;
            if self.status.held_bytes + grown > self.limit {
                break;
            }
            grow(&mut flow.slots, index, &mut self.status.held_bytes);
            // What has come of it is saved when its turn comes.
            match &mut flow.slots[index] {
                slot @ Slot::Missing => *slot = Slot::Gone,
                Slot::Partial(_) if index == 0 => {
                    Self::give_up_front(self.layer, flow, &mut self.ready, &mut self.status);
                }
                slot @ Slot::Partial(_) => {
                    let memory = slot.memory();
                    self.status.held_bytes -= memory;
                    self.status.missed += 1;
                    *slot = Slot::Gone;
                }
                Slot::Gone | Slot::Complete(_) => {}
            }
        }
        self.after_change(gave_up.flow);
    }

    /// When the next hole will have been waited for long enough.
    pub fn expires_at(&self, patience: Patience) -> Option<Time> {
        // Flows wait differently long: look at the oldest of each kind.
        let mut earliest: Option<Time> = None;
        for &(since, flow) in &self.blocked {
            if earliest.is_some_and(|e| since + patience.realtime.min(patience.ordered) >= e) {
                break;
            }
            let at = since + self.patience_of(flow, patience);
            earliest = Some(earliest.map_or(at, |e| e.min(at)));
        }
        earliest
    }

    /// Stops waiting where the patience is over.
    pub fn expire(&mut self, now: Time, patience: Patience) {
        let due: Vec<u16> = self
            .blocked
            .iter()
            .take_while(|(since, _)| now >= *since + patience.realtime.min(patience.ordered))
            .filter(|(since, flow)| now >= *since + self.patience_of(*flow, patience))
            .map(|(_, flow)| *flow)
            .collect();
        for flow in due {
            while self
                .flows
                .get(&flow)
                .and_then(|f| f.blocked_since)
                .is_some_and(|since| now >= since + self.patience_of(flow, patience))
            {
                self.skip_hole(flow);
            }
        }
    }

    /// The next packet to deliver.
    pub fn poll(&mut self) -> Option<InnerPacket> {
        self.ready.pop_front()
    }

    /// The counters.
    pub fn status(&self) -> ExitStatus {
        let waiting = self
            .blocked
            .iter()
            .filter_map(|(_, flow)| self.flows.get(flow))
            .flat_map(|flow| &flow.slots)
            .filter(|slot| slot.since().is_some())
            .count();
        ExitStatus { waiting: waiting as u64, ..self.status }
    }

    /// A buffer that salvaging left over.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    fn patience_of(&self, flow: u16, patience: Patience) -> Duration {
        match self.flows.get(&flow) {
            Some(f) if f.realtime => patience.realtime,
            _ => patience.ordered,
        }
    }

    fn insert(
        &mut self,
        now: Time,
        number: u64,
        chunk: &Chunk<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<(), Rejected> {
        let Some(flow) = self.flows.get_mut(&chunk.flow) else { return Ok(()) };
        // Too far ahead: what's at the front is given up for it.
        while number >= flow.next + WINDOW {
            if flow.slots.is_empty() {
                flow.next = number - WINDOW + 1;
                break;
            }
            Self::give_up_front(self.layer, flow, &mut self.ready, &mut self.status);
        }
        let index = (number - flow.next) as usize;
        grow(&mut flow.slots, index, &mut self.status.held_bytes);
        let slot = &mut flow.slots[index];
        let before = slot.memory();
        let result = match slot {
            Slot::Gone | Slot::Complete(_) => {
                self.status.duplicates += 1;
                return Err(Rejected::Duplicate);
            }
            Slot::Missing => {
                let capacity = match chunk.position {
                    ChunkPosition::Whole(_) => chunk.data.len(),
                    ChunkPosition::First { total, .. } => total as usize,
                    ChunkPosition::Last { offset } => offset as usize + chunk.data.len(),
                    // Not known yet: room for what's likely, grown if need be.
                    ChunkPosition::Middle { offset } => {
                        (offset as usize + chunk.data.len()).max(4096)
                    }
                };
                let mut assembly = Assembly::new(buffer(capacity));
                let result = assembly.insert(chunk);
                *slot = Slot::Partial(Box::new((now, assembly)));
                result
            }
            Slot::Partial(partial) => partial.1.insert(chunk),
        };
        match result {
            Ok(true) => {
                if let Slot::Partial(partial) = std::mem::take(slot) {
                    if let Some(packet) = partial.1.finish() {
                        if chunk.unordered {
                            self.status.delivered += 1;
                            self.ready.push_back(packet);
                            *slot = Slot::Gone;
                        } else {
                            if index > 0 {
                                self.status.reordered += 1;
                            }
                            *slot = Slot::Complete(Box::new((now, packet)));
                        }
                    }
                }
            }
            Ok(false) => {}
            Err(Rejected::Duplicate) => self.status.duplicates += 1,
            Err(Rejected::Contradiction) => self.status.rejected += 1,
        }
        let after = flow.slots[index].memory();
        self.status.held_bytes = self.status.held_bytes + after - before;
        result.map(|_| ())
    }

    /// Delivers what is in order now and notes what the flow waits for.
    fn after_change(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        while let Some(Slot::Gone | Slot::Complete(_)) = flow.slots.front() {
            let Some(slot) = flow.slots.pop_front() else { break };
            self.status.held_bytes -= slot.memory() + SLOT_COST;
            flow.next += 1;
            if let Slot::Complete(complete) = slot {
                self.status.delivered += 1;
                self.ready.push_back(complete.1);
            }
        }
        // An emptied window must not keep its memory, which nobody counts.
        if flow.slots.capacity() > (4 * flow.slots.len()).max(SPARE_SLOTS) {
            flow.slots.shrink_to(2 * flow.slots.len());
        }
        // A hole began when the first packet behind it came.
        let since = flow.slots.iter().find_map(Slot::since);
        if since != flow.blocked_since {
            if let Some(old) = flow.blocked_since {
                self.blocked.remove(&(old, id));
            }
            if let Some(new) = since {
                self.blocked.insert((new, id));
            }
            flow.blocked_since = since;
        }
    }

    /// Nothing waits any more, yet there are places of packets that came out of
    /// order and were delivered: only duplicates could want them.
    fn forget_marks(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.next += flow.slots.len() as u64;
        self.status.held_bytes -= SLOT_COST * flow.slots.len() as u64;
        flow.slots = VecDeque::new();
    }

    fn expire_first(&mut self, due: impl Fn(Time) -> bool) -> bool {
        match self.blocked.first() {
            Some(&(since, flow)) if due(since) => {
                self.skip_hole(flow);
                true
            }
            _ => false,
        }
    }

    /// Gives up what the flow waits for.
    fn skip_hole(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        while let Some(Slot::Missing) = flow.slots.front() {
            Self::give_up_front(self.layer, flow, &mut self.ready, &mut self.status);
        }
        if let Some(Slot::Partial(_)) = flow.slots.front() {
            Self::give_up_front(self.layer, flow, &mut self.ready, &mut self.status);
        }
        self.after_change(id);
    }

    fn give_up_front(
        layer: Layer,
        flow: &mut FlowOrder,
        ready: &mut VecDeque<InnerPacket>,
        status: &mut ExitStatus,
    ) {
        let Some(slot) = flow.slots.pop_front() else { return };
        flow.next += 1;
        status.held_bytes -= slot.memory() + SLOT_COST;
        match slot {
            Slot::Missing => status.missed += 1,
            Slot::Gone => {}
            Slot::Partial(partial) => {
                status.missed += 1;
                partial.1.salvage(layer, |packet| {
                    status.delivered += 1;
                    ready.push_back(packet);
                });
            }
            Slot::Complete(complete) => {
                status.delivered += 1;
                ready.push_back(complete.1);
            }
        }
    }
}

fn grow(slots: &mut VecDeque<Slot>, index: usize, held: &mut u64) {
    if slots.len() <= index {
        *held += SLOT_COST * (index + 1 - slots.len()) as u64;
        slots.resize_with(index + 1, Slot::default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::Offload;

    const PATIENCE: Patience =
        Patience { ordered: Duration::from_millis(500), realtime: Duration::from_millis(100) };

    fn chunk(flow: u16, sequence: u32, data: &[u8]) -> Chunk<'_> {
        Chunk {
            flow,
            sequence,
            unordered: false,
            realtime: false,
            position: ChunkPosition::Whole(Offload::default()),
            data,
        }
    }

    fn put(r: &mut Reordering, ms: u64, c: &Chunk<'_>) {
        let _ = r.on_chunk(Time::from_millis(ms), c, Vec::with_capacity);
    }

    fn delivered(r: &mut Reordering) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| r.poll()).map(|p| p.bytes).collect()
    }

    #[test]
    fn marks_of_packets_that_never_come_take_no_more_than_the_limit() {
        const LIMIT: u64 = 1 << 20;
        let mut r = Reordering::new(Layer::L3, LIMIT);
        for flow in 0..500 {
            let far = Chunk { unordered: true, ..chunk(flow, 16_000, b"x") };
            put(&mut r, 0, &far);
            let sequence = 32_000;
            r.on_gave_up(Time::ZERO, &GaveUp { flow: flow + 500, sequence, count: 255 });
            r.on_gave_up(Time::ZERO, &GaveUp { flow, sequence, count: 255 });
        }
        // What a flow itself costs stays.
        let held = r.status().held_bytes;
        assert!(held <= LIMIT + 1000 * FLOW_COST, "{held}");
        assert_eq!(delivered(&mut r).len(), 500);
    }

    #[test]
    fn a_hole_in_one_flow_does_not_hold_up_another() {
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        put(&mut r, 0, &chunk(1, 1, b"b"));
        put(&mut r, 0, &chunk(2, 0, b"x"));
        assert_eq!(delivered(&mut r), [b"x"]);
        put(&mut r, 1, &chunk(1, 0, b"a"));
        assert_eq!(delivered(&mut r), [b"a", b"b"]);
        assert_eq!(r.expires_at(PATIENCE), None);
    }

    #[test]
    fn several_old_holes_expire_together() {
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        put(&mut r, 0, &chunk(1, 1, b"b"));
        put(&mut r, 10, &chunk(1, 3, b"d"));
        assert_eq!(r.expires_at(PATIENCE), Some(Time::from_millis(500)));
        r.expire(Time::from_millis(510), PATIENCE);
        assert_eq!(delivered(&mut r), [b"b", b"d"]);
        put(&mut r, 511, &chunk(1, 2, b"c"));
        assert!(delivered(&mut r).is_empty());
        assert_eq!(r.status().late, 1);
    }

    #[test]
    fn giving_up_releases_what_waits() {
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        put(&mut r, 0, &chunk(1, 2, b"c"));
        r.on_gave_up(Time::ZERO, &GaveUp { flow: 1, sequence: 0, count: 2 });
        assert_eq!(delivered(&mut r), [b"c"]);
        assert_eq!(r.blocked.len(), 0);
    }

    #[test]
    fn unordered_packets_are_delivered_once_and_at_once() {
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        let mut c = chunk(1, 5, b"x");
        c.unordered = true;
        put(&mut r, 0, &c);
        put(&mut r, 0, &c);
        assert_eq!(delivered(&mut r), [b"x"]);
        c.sequence = 3;
        put(&mut r, 0, &c);
        assert_eq!(delivered(&mut r), [b"x"]);
    }

    #[test]
    fn memory_stays_bounded_under_a_hostile_peer() {
        let limit = 256 << 10;
        let mut r = Reordering::new(Layer::L3, limit);
        let data = vec![7; 1400];
        for i in 0..200_000u32 {
            let mut c = chunk((i % 3000) as u16, i.wrapping_mul(77) & 0xff_ffff, &data);
            if i % 3 == 0 {
                c.position = ChunkPosition::Middle { offset: 60_000 };
            }
            put(&mut r, u64::from(i / 100), &c);
            delivered(&mut r);
        }
        assert!(r.status().held_bytes <= limit + 80_000 + 3000 * FLOW_COST, "{:?}", r.status());
        let held: u64 = r
            .flows
            .values()
            .map(|f| {
                FLOW_COST
                    + f.slots.len() as u64 * SLOT_COST
                    + f.slots.iter().map(Slot::memory).sum::<u64>()
            })
            .sum();
        assert_eq!(held, r.status().held_bytes);
    }

    #[test]
    fn a_packet_comes_together_from_chunks_in_any_order() {
        let whole: Vec<u8> = (0..5000u32).map(|i| i as u8).collect();
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        for (low, high) in [(3000, 5000), (1000, 3000), (500, 1500), (0, 1000)] {
            let mut c = chunk(9, 0, &whole[low..high]);
            c.position = ChunkPosition::of(
                Offload::default(),
                whole.len() as u32,
                low as u32,
                (high - low) as u32,
            );
            put(&mut r, 0, &c);
        }
        assert_eq!(delivered(&mut r), [whole]);
        assert_eq!(r.status().held_bytes, FLOW_COST);
    }
}
