use super::queued::Queued;
use braid_inner::{InnerPacket, segment_count};

/// Counters.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct EntryStatus {
    /// Bytes waiting.
    pub bytes: u64,
    /// Packets waiting.
    pub packets: u64,
    /// Segments dropped to signal congestion.
    pub dropped: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
    /// Packets marked (ECN).
    pub marked: u64,
}

impl std::ops::Add for EntryStatus {
    type Output = EntryStatus;

    fn add(self, other: EntryStatus) -> EntryStatus {
        EntryStatus {
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
            dropped: self.dropped + other.dropped,
            overflowed: self.overflowed + other.overflowed,
            marked: self.marked + other.marked,
        }
    }
}

/// The account of all flows: what waits, what was dropped.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The counters.
    pub status: EntryStatus,
    /// Buffers that aren't needed any more, for reuse.
    pub freed: Vec<Vec<u8>>,
}

impl Account {
    /// A packet waits.
    pub fn on_push(&mut self, queued: &Queued) {
        self.status.bytes += queued.cost();
        self.status.packets += 1;
    }

    /// A packet waits no more.
    pub fn on_pop(&mut self, queued: &Queued) {
        self.status.bytes -= queued.cost();
        self.status.packets -= 1;
    }

    /// A packet took another's place.
    pub fn on_replace(&mut self, old: &Queued, new: &Queued) {
        self.status.bytes = self.status.bytes - old.cost() + new.cost();
    }

    /// All of a packet is dropped to signal congestion.
    pub fn on_dropped(&mut self, packet: InnerPacket) {
        self.status.dropped += segment_count(&packet) as u64;
        self.freed.push(packet.bytes);
    }
}
