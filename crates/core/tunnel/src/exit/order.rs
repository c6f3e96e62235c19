//! Order per flow: a hole in one flow never holds up another.

use super::assembly::Rejected;
use super::delivery::{Delivered, Delivery, ExitStatus, Ready};
use super::flow_order::FlowOrder;
use super::holes::Holes;
use crate::carried::CarriedPacket;
use crate::index_map::IndexMap;
use braid_inner::{Layer, cut_at_ticks};
use braid_units::Time;
use braid_wire::{Abandoned, Chunk, ChunkPosition, ContextFrame};
use std::collections::hash_map::Entry;
use std::time::Duration;

/// What a flow costs, in bytes: its entry in the table, rounded up.
const FLOW_COST: u64 = 96;

/// How long a flow waits for a missing packet at the most.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Timeout for flows that repairs are worth waiting for.
    pub ordered: Duration,
    /// Timeout for real-time flows.
    pub realtime: Duration,
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
    delivery: Delivery,
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
            delivery: Delivery::new(layer),
        }
    }

    /// Takes a chunk in. `now` is the time that stands still while nothing at
    /// all arrives. `buffer` gives an empty buffer of some capacity.
    ///
    /// # Errors
    /// When nothing in it is new, or it contradicts what came before.
    pub fn on_chunk(
        &mut self,
        now: Time,
        chunk: &Chunk<'_>,
        buffer: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<(), Rejected> {
        if let ChunkPosition::Middle { offset } = chunk.position
            && let Some(flow) = self.flows.get_mut(&chunk.flow)
            && flow.append(chunk, offset)
        {
            return Ok(());
        }
        self.delivery.turn_to(chunk.flow);
        let mut flow = flow_of(&mut self.flows, chunk.flow, &mut self.delivery);
        let number = flow.number_of(chunk.sequence);
        if flow.set_realtime(chunk.realtime) && flow.blocked_since().is_some() {
            self.holes.note(chunk.flow, flow);
            self.holes.prune(&self.flows);
            flow = flow_of(&mut self.flows, chunk.flow, &mut self.delivery);
        }
        let Some(number) = number else {
            self.delivery.status.late += 1;
            return Err(Rejected::Duplicate);
        };
        if let ChunkPosition::Whole(form) = chunk.position
            && flow.passes(number)
        {
            let mut bytes = buffer(chunk.data.len());
            bytes.clear();
            bytes.extend_from_slice(chunk.data);
            self.delivery.deliver(CarriedPacket { bytes, form });
            return Ok(());
        }
        let result = flow.insert(now, number, chunk, buffer, &mut self.delivery);
        self.after_change(chunk.flow);
        while self.is_over_limit() && self.expire_first() {}
        if self.is_over_limit()
            && let Some(flow) = self.flows.get_mut(&chunk.flow)
        {
            self.delivery.turn_to(chunk.flow);
            flow.forget_gone(&mut self.delivery);
        }
        result
    }

    /// The sender won't complete these packets.
    pub fn on_abandoned(&mut self, abandoned: &Abandoned) {
        self.delivery.turn_to(abandoned.flow);
        // Of a flow of which nothing has come its first packets are the ones.
        let flow = flow_of(&mut self.flows, abandoned.flow, &mut self.delivery);
        flow.abandon(abandoned.sequence, abandoned.count, self.limit, &mut self.delivery);
        self.after_change(abandoned.flow);
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
        !self.delivery.ready.is_empty()
    }

    /// The next packet to deliver. `buffer` gives an empty buffer of some
    /// capacity.
    #[inline]
    pub fn poll(&mut self, buffer: impl FnMut(usize) -> Vec<u8>) -> Option<Delivered> {
        let Delivery { ready, status, contexts, .. } = &mut self.delivery;
        loop {
            let Ready { flow, packet } = ready.pop_front()?;
            let Some(mut packet) = contexts.restore(flow, packet) else {
                status.rejected += 1;
                continue;
            };
            cut_at_ticks(&mut packet, self.layer, buffer, |packet| {
                ready.push_front(Ready { flow, packet: packet.into() })
            });
            return Some(Delivered { flow, packet });
        }
    }

    /// The peer told of a header that it compresses by; false if it's of no use.
    pub fn learn_context(&mut self, frame: &ContextFrame<'_>) -> bool {
        self.delivery.contexts.learn(frame.flow, frame.number, frame.header)
    }

    /// The counters.
    pub fn status(&self) -> ExitStatus {
        let blocked = self.flows.values().filter(|flow| flow.blocked_since().is_some());
        ExitStatus { waiting: blocked.map(FlowOrder::waiting).sum(), ..self.delivery.status }
    }

    fn is_over_limit(&self) -> bool {
        self.delivery.status.held_bytes > self.limit
    }

    /// Delivers what is in order now and notes what the flow waits for.
    fn after_change(&mut self, id: u16) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let before = flow.blocked_since();
        flow.advance(&mut self.delivery);
        let since = flow.blocked_since();
        if since != before {
            self.blocked -= usize::from(before.is_some());
            self.blocked += usize::from(since.is_some());
            self.holes.note(id, flow);
            self.holes.set_waiting(self.blocked);
            self.holes.prune(&self.flows);
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
        self.delivery.turn_to(id);
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.skip_hole(&mut self.delivery);
        }
        self.after_change(id);
    }
}

/// The flow of this number; a new one is accounted for.
fn flow_of<'a>(
    flows: &'a mut IndexMap<u16, FlowOrder>,
    id: u16,
    delivery: &mut Delivery,
) -> &'a mut FlowOrder {
    match flows.entry(id) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => {
            delivery.hold(FLOW_COST);
            place.insert(FlowOrder::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::{
        Checksum, InnerPacket, Offload, Segmentation, SegmentationKind, Ticks, checksum,
    };
    use braid_wire::{Form, HeaderContext};
    use std::net::Ipv4Addr;
    use std::num::NonZeroU16;

    const PATIENCE: Patience =
        Patience { ordered: Duration::from_millis(500), realtime: Duration::from_millis(100) };

    fn chunk(flow: u16, sequence: u32, data: &[u8]) -> Chunk<'_> {
        Chunk {
            flow,
            sequence,
            unordered: false,
            realtime: false,
            position: ChunkPosition::Whole(Offload::default().into()),
            data,
        }
    }

    fn put(r: &mut Reordering, ms: u64, c: &Chunk<'_>) {
        let _ = r.on_chunk(Time::from_millis(ms), c, Vec::with_capacity);
    }

    fn delivered(r: &mut Reordering) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| r.poll(Vec::with_capacity)).map(|d| d.packet.bytes).collect()
    }

    #[test]
    fn marks_of_packets_that_never_come_take_no_more_than_the_limit() {
        const LIMIT: u64 = 1 << 20;
        let mut r = Reordering::new(Layer::L3, LIMIT);
        for flow in 0..500 {
            let far = Chunk { unordered: true, ..chunk(flow, 16_000, b"x") };
            put(&mut r, 0, &far);
            let sequence = 32_000;
            r.on_abandoned(&Abandoned { flow: flow + 500, sequence, count: 255 });
            r.on_abandoned(&Abandoned { flow, sequence, count: 255 });
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
        r.on_abandoned(&Abandoned { flow: 1, sequence: 0, count: 2 });
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

    /// TCP over IPv4 from a port: four segments of 100 bytes, their payload the bytes 0 to 3.
    fn super_packet(sequence: u32) -> InnerPacket {
        let mut bytes = vec![0x45, 0, 0x01, 0xb8, 0, 9, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !checksum::sum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let pseudo = checksum::pseudo_header(src, dst, 6, 420);
        bytes.extend([0, 7, 0, 80]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0]);
        bytes.extend(pseudo.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend((0..4).flat_map(|segment| [segment; 100]));
        let segmentation = Segmentation {
            kind: SegmentationKind::TcpV4,
            ecn: false,
            header_len: 40,
            segment_size: NonZeroU16::new(100).unwrap(),
            ticks: Ticks::NONE,
        };
        let checksum = Checksum::Partial { start: 20, offset: 16 };
        InnerPacket { bytes, offload: Offload { checksum, segmentation: Some(segmentation) } }
    }

    /// What is delivered of a packet of which only these bytes come.
    fn salvaged(
        r: &mut Reordering,
        sequence: u32,
        packet: &CarriedPacket,
        parts: &[(usize, usize)],
    ) -> Vec<InnerPacket> {
        let total = packet.bytes.len() as u32;
        for &(low, high) in parts {
            let mut c = chunk(9, sequence, &packet.bytes[low..high]);
            c.position = ChunkPosition::of(packet.form, total, low as u32, (high - low) as u32);
            put(r, 0, &c);
        }
        r.on_abandoned(&Abandoned { flow: 9, sequence, count: 1 });
        std::iter::from_fn(|| r.poll(Vec::with_capacity)).map(|d| d.packet).collect()
    }

    #[test]
    fn of_an_incomplete_packet_with_a_compressed_header_the_whole_segments_are_delivered() {
        let mut r = Reordering::new(Layer::L3, 1 << 20);
        let header = &super_packet(0).bytes[..40];
        assert!(r.learn_context(&ContextFrame { flow: 9, number: 3, header }));
        let packet = super_packet(5000);
        let full: CarriedPacket = packet.clone().into();
        let context = HeaderContext::of_header(header, Layer::L3).unwrap();
        let mut bytes = vec![3];
        let checksum = packet.offload.checksum;
        let payload = context.compress(&packet.bytes, checksum, &mut bytes).unwrap();
        let less = payload - bytes.len();
        bytes.extend_from_slice(&packet.bytes[payload..]);
        let form = Form::Compressed(packet.offload.segmentation);
        let compressed = CarriedPacket { bytes, form };
        // All but bytes 250 to 300: of the third segment half is missing.
        let parts = [(0, 290), (340, 440)];
        let expected = salvaged(&mut r, 0, &full, &parts);
        assert_eq!(expected.len(), 2, "the first two together, and the last");
        let parts = [(0, 290 - less), (340 - less, 440 - less)];
        assert_eq!(salvaged(&mut r, 1, &compressed, &parts), expected);
        // Without all that stands for the header nothing can be made.
        assert_eq!(salvaged(&mut r, 2, &compressed, &[(0, 3), (100, 340)]), []);
        let whole = salvaged(&mut r, 3, &compressed, &[(0, compressed.bytes.len())]);
        assert_eq!(whole, [packet]);
    }
}
