//! Order per flow: a hole in one flow never holds up another.

use super::assembly::{Assembly, Notes, Rejected};
use super::holes::Holes;
use super::sequence_map::SequenceMap;
use crate::index_map::IndexMap;
use braid_inner::{InnerPacket, Layer, cut_at_ticks};
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition, GaveUp, expand};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// How far a flow's packets may be ahead of the one it waits for.
const WINDOW: u64 = 16_384;
/// A packet farther ahead than this isn't believed: a quarter of the 24-bit numbers on the
/// wire.
const FARTHEST: u64 = 1 << 22;
/// What a place in a flow's window costs.
const SLOT_COST: u64 = 64;
/// Memory of so many assemblies is kept.
const NOTES_KEPT: usize = 256;
/// What a flow costs.
const FLOW_COST: u64 = 96;

/// How long a flow waits for a missing packet at the most.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Timeout for flows that repairs are worth waiting for.
    pub ordered: Duration,
    /// Timeout for real-time flows.
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
    flows: IndexMap<u16, FlowOrder>,
    holes: Holes,
    /// Flows that wait.
    blocked: usize,
    /// Memory of assemblies that are done.
    notes: Vec<Notes>,
    ready: VecDeque<InnerPacket>,
    status: ExitStatus,
}

/// The order of one flow. Sparse: a packet far ahead costs no more than one
/// that is near.
#[derive(Debug, Default)]
pub struct FlowOrder {
    /// The packet waited for.
    next: u64,
    /// Later ones that have come, whole or in part.
    held: SequenceMap<Held>,
    /// Later ones that were delivered already, or won't come.
    gone: BTreeSet<u64>,
    blocked_since: Option<Time>,
    realtime: bool,
}

/// A packet that has come, whole or in part, and since when.
#[derive(Debug)]
struct Held {
    since: Time,
    state: State,
}

#[derive(Debug)]
enum State {
    Partial(Assembly),
    /// Incomplete, and nothing more will come.
    Abandoned(Assembly),
    Complete(InnerPacket),
}

impl Held {
    fn memory(&self) -> u64 {
        SLOT_COST
            + match &self.state {
                State::Partial(assembly) | State::Abandoned(assembly) => assembly.memory(),
                State::Complete(packet) => packet.bytes.capacity() as u64,
            }
    }
}

impl FlowOrder {
    /// Since when it has waited.
    pub(super) fn blocked_since(&self) -> Option<Time> {
        self.blocked_since
    }

    /// Its packets are worth nothing soon.
    pub(super) fn is_realtime(&self) -> bool {
        self.realtime
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.gone.is_empty()
    }

    #[cfg(test)]
    fn memory(&self) -> u64 {
        SLOT_COST * self.gone.len() as u64 + self.held.values().map(Held::memory).sum::<u64>()
    }
}

impl Reordering {
    /// Holds at most about `limit` bytes.
    pub fn new(layer: Layer, limit: u64) -> Self {
        Self {
            layer,
            limit,
            flows: IndexMap::default(),
            holes: Holes::default(),
            blocked: 0,
            notes: Vec::new(),
            ready: VecDeque::new(),
            status: ExitStatus::default(),
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
        // The common case of large packets: the next part of the one waited for.
        if let ChunkPosition::Middle { offset } = chunk.position
            && let Some(flow) = self.flows.get_mut(&chunk.flow)
            && flow.realtime == chunk.realtime
            && let Some((first, Held { state: State::Partial(assembly), .. })) =
                flow.held.first_mut()
            && first == flow.next
            && chunk.sequence == (first & 0x00ff_ffff) as u32
            && assembly.append(offset, chunk.data)
        {
            return Ok(());
        }
        let known = self.flows.len();
        let mut flow = self.flows.entry(chunk.flow).or_default();
        let created = flow.next == 0 && flow.is_empty();
        let number = expand(chunk.sequence, 24, flow.next);
        let otherwise = flow.realtime != chunk.realtime;
        flow.realtime = chunk.realtime;
        if otherwise && flow.blocked_since.is_some() {
            self.holes.note(chunk.flow, flow);
            self.holes.prune(&self.flows);
            flow = self.flows.entry(chunk.flow).or_default();
        }
        if number < flow.next || number > flow.next + FARTHEST {
            self.status.late += 1;
            return Err(Rejected::Duplicate);
        }
        // That of others: in order, whole, nothing waits.
        if number == flow.next
            && flow.is_empty()
            && let ChunkPosition::Whole(offload) = chunk.position
        {
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
        self.status.held_bytes += FLOW_COST * (self.flows.len() - known) as u64;
        let result = self.insert(now, number, chunk, buffer);
        self.after_change(chunk.flow);
        while self.status.held_bytes > self.limit && self.expire_first() {}
        if self.status.held_bytes > self.limit {
            self.forget_marks(chunk.flow);
        }
        result
    }

    /// The sender won't complete these packets.
    pub fn on_gave_up(&mut self, gave_up: &GaveUp) {
        let Some(flow) = self.flows.get_mut(&gave_up.flow) else {
            // Nothing of the flow has come; its first packets are the ones.
            self.flows.entry(gave_up.flow).or_default();
            self.status.held_bytes += FLOW_COST;
            return self.on_gave_up(gave_up);
        };
        let first = expand(gave_up.sequence, 24, flow.next);
        for number in first..first + u64::from(gave_up.count) {
            if number < flow.next || number >= flow.next + WINDOW {
                continue;
            }
            // What has come of it is saved when its turn comes.
            if let Some(held) = flow.held.get_mut(number) {
                if let State::Partial(assembly) = &mut held.state {
                    held.state = State::Abandoned(std::mem::take(assembly));
                }
                continue;
            }
            // Nothing else would ever remove these notes: they have to fit.
            if self.status.held_bytes + SLOT_COST > self.limit {
                break;
            }
            if flow.gone.insert(number) {
                self.status.held_bytes += SLOT_COST;
            }
        }
        self.after_change(gave_up.flow);
    }

    /// When the next hole will have been waited for long enough.
    pub fn expires_at(&self, patience: Patience) -> Option<Time> {
        // Flows wait differently long: look at the oldest of each kind.
        let ordered = self.holes.oldest(false).map(|(since, _)| since + patience.ordered);
        let realtime = self.holes.oldest(true).map(|(since, _)| since + patience.realtime);
        ordered.into_iter().chain(realtime).min()
    }

    /// Stops waiting where the patience is over.
    pub fn expire(&mut self, now: Time, patience: Patience) {
        for (realtime, patience) in [(false, patience.ordered), (true, patience.realtime)] {
            while let Some((since, flow)) = self.holes.oldest(realtime)
                && now >= since + patience
            {
                self.skip_hole(flow);
            }
        }
    }

    /// [`Self::poll`] has something to deliver.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next packet to deliver. `buffer` gives an empty buffer of some
    /// capacity.
    pub fn poll(&mut self, buffer: impl FnMut(usize) -> Vec<u8>) -> Option<InnerPacket> {
        let mut packet = self.ready.pop_front()?;
        cut_at_ticks(&mut packet, self.layer, buffer, |piece| self.ready.push_front(piece));
        Some(packet)
    }

    /// The counters.
    pub fn status(&self) -> ExitStatus {
        let waiting = self
            .flows
            .values()
            .filter(|flow| flow.blocked_since.is_some())
            .map(|flow| flow.held.len() as u64)
            .sum();
        ExitStatus { waiting, ..self.status }
    }

    fn insert(
        &mut self,
        now: Time,
        number: u64,
        chunk: &Chunk<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<(), Rejected> {
        let Some(flow) = self.flows.get_mut(&chunk.flow) else { return Ok(()) };
        // Too far ahead: what's in front is given up for it.
        while number >= flow.next + WINDOW {
            let held = flow.held.first().map(|(number, _)| number);
            let first = held.into_iter().chain(flow.gone.first().copied()).min();
            match first.filter(|first| first + WINDOW <= number) {
                Some(first) => {
                    flow.next = first;
                    Self::close(self.layer, flow, first, &mut self.ready, &mut self.status);
                }
                None => flow.next = number - WINDOW + 1,
            }
        }
        if number < flow.next || flow.gone.contains(&number) {
            self.status.duplicates += 1;
            return Err(Rejected::Duplicate);
        }
        let mut before = 0;
        match flow.held.get_mut(number) {
            Some(held) => before = held.memory(),
            None => {
                let capacity = match chunk.position {
                    ChunkPosition::Whole(_) => chunk.data.len(),
                    ChunkPosition::First { total, .. } => total as usize,
                    ChunkPosition::Last { offset } => offset as usize + chunk.data.len(),
                    // Not known yet: room for what's likely, grown if need be.
                    ChunkPosition::Middle { offset } => {
                        (offset as usize + chunk.data.len()).max(4096)
                    }
                };
                let notes = self.notes.pop().unwrap_or_default();
                let state = State::Partial(Assembly::new(buffer(capacity), notes));
                flow.held.insert(number, Held { since: now, state });
            }
        }
        let Some(held) = flow.held.get_mut(number) else { return Ok(()) };
        let result = match &mut held.state {
            State::Complete(_) | State::Abandoned(_) => Err(Rejected::Duplicate),
            State::Partial(assembly) => assembly.insert(chunk),
        };
        self.status.held_bytes = self.status.held_bytes + held.memory() - before;
        match result {
            Ok(true) => self.complete(chunk, number),
            Ok(false) => {}
            Err(Rejected::Duplicate) => self.status.duplicates += 1,
            Err(Rejected::Contradiction) => self.status.rejected += 1,
        }
        result.map(|_| ())
    }

    /// A packet is whole now: it goes at once, or waits for its turn.
    fn complete(&mut self, chunk: &Chunk<'_>, number: u64) {
        let Some(flow) = self.flows.get_mut(&chunk.flow) else { return };
        let Some(held) = flow.held.get_mut(number) else { return };
        self.status.held_bytes -= held.memory();
        let State::Partial(assembly) = &mut held.state else { return };
        let Some((packet, notes)) = std::mem::take(assembly).finish() else { return };
        if self.notes.len() < NOTES_KEPT {
            self.notes.push(notes);
        }
        if chunk.unordered {
            flow.held.remove(number);
            self.status.delivered += 1;
            self.ready.push_back(packet);
            flow.gone.insert(number);
            self.status.held_bytes += SLOT_COST;
        } else {
            self.status.reordered += u64::from(number > flow.next);
            held.state = State::Complete(packet);
            self.status.held_bytes += held.memory();
        }
    }

    /// Delivers what is in order now and notes what the flow waits for.
    fn after_change(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        loop {
            if flow.gone.remove(&flow.next) {
                self.status.held_bytes -= SLOT_COST;
                flow.next += 1;
                continue;
            }
            match flow.held.first() {
                Some((first, held))
                    if first == flow.next && !matches!(held.state, State::Partial(_)) =>
                {
                    let number = flow.next;
                    Self::close(self.layer, flow, number, &mut self.ready, &mut self.status);
                }
                _ => break,
            }
        }
        // A hole began when the first packet behind it came.
        let since = flow.held.first().map(|(_, held)| held.since);
        if since != flow.blocked_since {
            self.blocked -= usize::from(flow.blocked_since.is_some());
            self.blocked += usize::from(since.is_some());
            flow.blocked_since = since;
            self.holes.note(id, flow);
            self.holes.set_waiting(self.blocked);
            self.holes.prune(&self.flows);
        }
    }

    /// Nothing waits any more, yet there are notes of packets that came out of
    /// order and were delivered: only duplicates could want them.
    fn forget_marks(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if let Some(last) = flow.gone.last() {
            flow.next = flow.next.max(last + 1);
            self.status.held_bytes -= SLOT_COST * flow.gone.len() as u64;
            flow.gone.clear();
        }
    }

    fn expire_first(&mut self) -> bool {
        let oldest = [false, true].into_iter().filter_map(|realtime| self.holes.oldest(realtime));
        match oldest.min() {
            Some((_, flow)) => {
                self.skip_hole(flow);
                true
            }
            None => false,
        }
    }

    /// Gives up what the flow waits for.
    fn skip_hole(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some((first, held)) = flow.held.first() else { return };
        let noted = flow.gone.range(flow.next..first).count() as u64;
        self.status.missed += first - flow.next - noted;
        self.status.held_bytes -= SLOT_COST * noted;
        flow.gone = flow.gone.split_off(&first);
        let partial = matches!(held.state, State::Partial(_));
        flow.next = first;
        if partial {
            Self::close(self.layer, flow, first, &mut self.ready, &mut self.status);
        }
        self.after_change(id);
    }

    /// Ends the waiting for a packet that is held; if it's the next one, the
    /// flow goes on behind it. What has come of
    /// it is delivered.
    fn close(
        layer: Layer,
        flow: &mut FlowOrder,
        number: u64,
        ready: &mut VecDeque<InnerPacket>,
        status: &mut ExitStatus,
    ) {
        if number == flow.next {
            flow.next += 1;
        }
        if flow.gone.remove(&number) {
            status.held_bytes -= SLOT_COST;
        }
        let Some(held) = flow.held.remove(number) else { return };
        status.held_bytes -= held.memory();
        match held.state {
            State::Complete(packet) => {
                status.delivered += 1;
                ready.push_back(packet);
            }
            State::Partial(assembly) | State::Abandoned(assembly) => {
                status.missed += 1;
                assembly.salvage(layer, |packet| {
                    status.delivered += 1;
                    ready.push_back(packet);
                });
            }
        }
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
        std::iter::from_fn(|| r.poll(Vec::with_capacity)).map(|p| p.bytes).collect()
    }

    #[test]
    fn marks_of_packets_that_never_come_take_no_more_than_the_limit() {
        const LIMIT: u64 = 1 << 20;
        let mut r = Reordering::new(Layer::L3, LIMIT);
        for flow in 0..500 {
            let far = Chunk { unordered: true, ..chunk(flow, 16_000, b"x") };
            put(&mut r, 0, &far);
            let sequence = 32_000;
            r.on_gave_up(&GaveUp { flow: flow + 500, sequence, count: 255 });
            r.on_gave_up(&GaveUp { flow, sequence, count: 255 });
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
        r.on_gave_up(&GaveUp { flow: 1, sequence: 0, count: 2 });
        assert_eq!(delivered(&mut r), [b"c"]);
        assert_eq!(r.blocked, 0);
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
        let held: u64 = r.flows.values().map(|f| FLOW_COST + f.memory()).sum();
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
