//! Inner packets that are being sent or wait to be acknowledged.

use crate::carried::CarriedPacket;
use crate::entry::FlowRedundancy;
use crate::ranges;
use braid_inner::Class;
use braid_wire::{Chunk, ChunkPosition};

/// Names a packet in the [`OutgoingPackets`]; one that was removed is never
/// mistaken for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketKey {
    slot: u32,
    generation: u32,
}

/// An inner packet on its way to the peer.
#[derive(Debug)]
pub struct Outgoing {
    /// The packet itself.
    pub packet: CarriedPacket,
    /// Its flow.
    pub flow: u16,
    /// Its number in the flow.
    pub sequence: u32,
    /// What it's worth.
    pub class: Class,
    /// What is sent beside it.
    pub redundancy: FlowRedundancy,
    /// Bytes handed out for the first time so far.
    pub cut: u32,
    /// The peer has all bytes before this one.
    acked_to: u32,
    /// Others that it has: disjoint, ascending. Mostly there are none: then no
    /// memory but the packet's own is looked at.
    acked: Vec<(u32, u32)>,
}

/// The packets between their first byte's departure and their last byte's
/// acknowledgement.
#[derive(Debug, Default)]
pub struct OutgoingPackets {
    slots: Vec<Slot>,
    free: Vec<u32>,
    spare_ranges: Vec<Vec<(u32, u32)>>,
    bytes: u64,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    packet: Option<Outgoing>,
}

impl OutgoingPackets {
    /// Adds a packet of which nothing has been sent.
    pub fn insert(
        &mut self,
        packet: CarriedPacket,
        flow: u16,
        sequence: u32,
        (class, redundancy): (Class, FlowRedundancy),
    ) -> PacketKey {
        self.bytes += packet.bytes.len() as u64;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, packet: None });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        let acked = self.spare_ranges.pop().unwrap_or_default();
        let (cut, acked_to) = (0, 0);
        let packet = Outgoing { packet, flow, sequence, class, redundancy, cut, acked_to, acked };
        entry.packet = Some(packet);
        PacketKey { slot, generation: entry.generation }
    }

    /// The packet, unless it's done.
    pub fn get(&self, key: PacketKey) -> Option<&Outgoing> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.generation == key.generation { slot.packet.as_ref() } else { None }
    }

    /// As [`Self::get`].
    pub fn get_mut(&mut self, key: PacketKey) -> Option<&mut Outgoing> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation == key.generation { slot.packet.as_mut() } else { None }
    }

    /// Takes the packet out.
    pub fn remove(&mut self, key: PacketKey) -> Option<CarriedPacket> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let mut outgoing = slot.packet.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        if outgoing.acked.capacity() > 0 {
            outgoing.acked.clear();
            self.spare_ranges.push(outgoing.acked);
        }
        self.free.push(key.slot);
        self.bytes -= outgoing.packet.bytes.len() as u64;
        Some(outgoing.packet)
    }

    /// Bytes of all packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The keys of all packets. O(slots).
    pub fn keys(&self) -> impl Iterator<Item = PacketKey> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.packet.is_some())
            .map(|(i, s)| PacketKey { slot: i as u32, generation: s.generation })
    }
}

impl Outgoing {
    /// A part of it, for the wire.
    pub fn chunk(&self, offset: u32, len: u32) -> Chunk<'_> {
        let end = (offset + len) as usize;
        Chunk {
            flow: self.flow,
            sequence: self.sequence,
            unordered: false,
            realtime: self.is_realtime(),
            position: ChunkPosition::of(self.packet.form, self.len(), offset, len),
            data: self.packet.bytes.get(offset as usize..end).unwrap_or(&[]),
        }
    }

    /// Worthless after a short time.
    pub fn is_realtime(&self) -> bool {
        self.class == Class::Realtime
    }

    /// The packet's length in bytes.
    pub fn len(&self) -> u32 {
        self.packet.bytes.len() as u32
    }

    /// The peer has these bytes. True when it has the whole packet now.
    pub fn on_acked(&mut self, offset: u32, len: u32) -> bool {
        let end = offset + len;
        if offset > self.acked_to {
            ranges::insert(&mut self.acked, offset, end);
            return false;
        }
        self.acked_to = self.acked_to.max(end);
        while let Some(&(low, high)) = self.acked.first()
            && low <= self.acked_to
        {
            self.acked_to = self.acked_to.max(high);
            self.acked.remove(0);
        }
        self.acked_to == self.len()
    }

    /// The first part of `offset..offset + len` that the peer isn't known to
    /// have, as `(offset, len)`.
    pub fn first_missing(&self, offset: u32, len: u32) -> Option<(u32, u32)> {
        let end = (offset + len).min(self.len());
        let mut start = offset.max(self.acked_to);
        for &(low, high) in &self.acked {
            if high <= start {
                continue;
            }
            if low > start {
                return (start < end).then(|| (start, low.min(end) - start));
            }
            start = high;
        }
        (start < end).then(|| (start, end - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_wire::Form;

    const USUAL: (Class, FlowRedundancy) = (Class::Bulk, FlowRedundancy::Usual);

    fn outgoing(len: usize) -> (OutgoingPackets, PacketKey) {
        let mut packets = OutgoingPackets::default();
        let packet = CarriedPacket { bytes: vec![0; len], form: Form::default() };
        let key = packets.insert(packet, 1, 2, USUAL);
        (packets, key)
    }

    #[test]
    fn a_packet_is_done_when_every_byte_is_acknowledged_in_any_order() {
        let (mut packets, key) = outgoing(100);
        let p = packets.get_mut(key).unwrap();
        assert!(!p.on_acked(50, 50));
        assert!(!p.on_acked(0, 20));
        assert_eq!(p.first_missing(0, 100), Some((20, 30)));
        assert_eq!(p.first_missing(60, 10), None);
        assert!(!p.on_acked(10, 20));
        assert_eq!(p.first_missing(25, 75), Some((30, 20)));
        assert!(p.on_acked(30, 20));
    }

    #[test]
    fn a_removed_key_stays_dead_when_the_slot_is_used_again() {
        let (mut packets, key) = outgoing(10);
        assert!(packets.remove(key).is_some());
        let packet = CarriedPacket { bytes: vec![1; 5], form: Form::default() };
        let other = packets.insert(packet, 1, 3, USUAL);
        assert!(packets.get(key).is_none() && packets.remove(key).is_none());
        assert_eq!(packets.get(other).map(Outgoing::len), Some(5));
        assert_eq!(packets.bytes(), 5);
    }
}
