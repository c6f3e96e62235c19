//! Packets between their first byte's departure and their last byte's
//! acknowledgement: what is lost is sent again, until that comes too late.

mod asked;
mod redundancy;

pub(super) use redundancy::{LOSSY, Redundancy};

use crate::carried::CarriedPacket;
use crate::entry::FlowRedundancy;
use crate::outgoing::{Outgoing, OutgoingPackets, PacketKey};
use crate::path::sent::SentFrame;
use crate::peer::paths::PathSet;
use braid_inner::Class;
use braid_units::{Ratio, Time};
use braid_wire::Abandoned;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a lost packet of each kind is worth repairing: a stream's until its sender's own
/// timer has mostly sent it again (RFC 6298, section 2.4: a second), a datagram's until who asks
/// would ask again, a real-time one's until its listener has gone on (ITU-T G.114: 150 ms).
/// The first two are ours; not measured apart.
const REPAIR_STREAM: Duration = Duration::from_millis(1200);
const REPAIR_DATAGRAM: Duration = Duration::from_millis(500);
const REPAIR_REALTIME: Duration = Duration::from_millis(150);
/// But for real-time packets, whose listeners wait no longer: so many round trips
/// of the slowest path more, or a repair of its repair would come too late.
const REPAIR_ROUND_TRIPS: u32 = 3;
/// The kinds of packets by their deadlines: places of [`Reliability::deadlines`].
const REALTIME: usize = 0;
const DATAGRAM: usize = 1;
const STREAM: usize = 2;

/// Counters of what was sent beside the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReliabilityCounters {
    /// Chunks sent again.
    pub repaired: u64,
    /// Chunks sent twice on purpose.
    pub duplicated: u64,
    /// Parities sent.
    pub parities: u64,
    /// Packets given up after their deadline.
    pub abandoned: u64,
}

/// Sees to it that what was sent arrives.
#[derive(Debug)]
pub(crate) struct Reliability {
    /// Most bytes of packets that aren't acknowledged.
    limit: u64,
    /// Of the slowest path.
    round_trip: Duration,
    pub(super) outgoing: OutgoingPackets,
    /// Chunks to be sent again.
    repairs: VecDeque<SentFrame>,
    /// Deadlines by kind of packet, each in order.
    deadlines: [VecDeque<(Time, PacketKey)>; 3],
    /// Packets given up of which the peer is to be told.
    pub(super) abandoned: VecDeque<Abandoned>,
    pub(super) redundancy: Redundancy,
    pub(super) counters: ReliabilityCounters,
}

impl Reliability {
    /// Nothing is on its way; no more than about `limit` bytes will be. Copies and
    /// parities may take `redundancy` of what the paths can carry.
    pub fn new(limit: u64, redundancy: Ratio) -> Self {
        Self {
            limit,
            round_trip: Duration::ZERO,
            outgoing: OutgoingPackets::default(),
            repairs: VecDeque::new(),
            deadlines: Default::default(),
            abandoned: VecDeque::new(),
            redundancy: Redundancy::new(redundancy),
            counters: ReliabilityCounters::default(),
        }
    }

    /// The peer restarted: nothing that was sent means anything to it.
    pub fn restart(&mut self, freed: &mut Vec<Vec<u8>>) {
        for key in self.outgoing.keys().collect::<Vec<_>>() {
            freed.extend(self.outgoing.remove(key).map(|packet| packet.bytes));
        }
        self.repairs.clear();
        self.abandoned.clear();
        self.deadlines = Default::default();
        self.redundancy.restart();
    }

    /// The class of a packet; one that is gone is bulk.
    pub fn class_of(&self, key: PacketKey) -> Class {
        self.outgoing.get(key).map_or(Class::Bulk, |packet| packet.class)
    }

    /// Takes over how long the slowest path's round trip is.
    pub fn tune(&mut self, paths: &PathSet) {
        self.round_trip = paths.slowest_round_trip();
        self.redundancy.tune(paths);
    }

    /// A packet is sent from now on. `working` is the time that stands still while
    /// no path works. A `stream`'s is worth a repair for longer.
    #[inline]
    pub fn insert(
        &mut self,
        packet: CarriedPacket,
        (flow, sequence): (u16, u32),
        (class, redundancy): (Class, FlowRedundancy),
        stream: bool,
        working: Time,
    ) -> PacketKey {
        let kind = match (class, stream) {
            (Class::Realtime, _) => REALTIME,
            (_, true) => STREAM,
            _ => DATAGRAM,
        };
        let key = self.outgoing.insert(packet, flow, sequence, (class, redundancy));
        self.deadlines[kind].push_back((working + self.worth(kind), key));
        key
    }

    /// How long a packet of this kind is worth repairing.
    fn worth(&self, kind: usize) -> Duration {
        match kind {
            REALTIME => REPAIR_REALTIME,
            STREAM => REPAIR_STREAM + self.round_trip * REPAIR_ROUND_TRIPS,
            _ => REPAIR_DATAGRAM + self.round_trip * REPAIR_ROUND_TRIPS,
        }
    }

    /// The packet, unless all of it was acknowledged or given up.
    pub fn get(&self, key: PacketKey) -> Option<&Outgoing> {
        self.outgoing.get(key)
    }

    /// So much waits for acknowledgements that nothing new is sent.
    pub fn is_full(&self) -> bool {
        self.outgoing.bytes() > self.limit
    }

    /// Bytes that aren't acknowledged, with what they are packets of.
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.outgoing.bytes()
    }

    /// The peer has this frame. Returns the packet that is complete thereby.
    #[inline]
    pub fn on_arrived(&mut self, frame: SentFrame) -> Option<CarriedPacket> {
        let SentFrame::Chunk { key, offset, len } = frame else { return None };
        let complete = self.outgoing.get_mut(key)?.on_acked(offset, len);
        if complete { self.outgoing.remove(key) } else { None }
    }

    /// These bytes of the packet were lost.
    pub fn on_lost(&mut self, frame: SentFrame) {
        match frame {
            SentFrame::Chunk { key, .. } if self.outgoing.get(key).is_none() => {}
            SentFrame::Chunk { .. } => self.repairs.push_back(frame),
            SentFrame::Abandoned(abandoned) => self.abandoned.push_back(abandoned),
            SentFrame::Announcement(_)
            | SentFrame::PathStatus { .. }
            | SentFrame::Treatment { .. } => {}
        }
    }

    /// Nothing is to be sent again.
    pub fn has_no_repairs(&self) -> bool {
        self.repairs.is_empty()
    }

    /// Chunks that are to be sent again, some of which may have arrived meanwhile.
    pub fn repairs_waiting(&self) -> usize {
        self.repairs.len()
    }

    /// What is to be sent again next: the packet, its first missing byte and how
    /// many. Repairs whose bytes have arrived meanwhile are dropped.
    #[inline]
    pub fn next_repair(&mut self) -> Option<(PacketKey, u32, u32)> {
        if self.repairs.is_empty() { None } else { self.find_repair() }
    }

    fn find_repair(&mut self) -> Option<(PacketKey, u32, u32)> {
        while let Some(frame) = self.repairs.front_mut() {
            let SentFrame::Chunk { key, offset, len } = frame else {
                self.repairs.pop_front();
                continue;
            };
            let Some((low, count)) =
                self.outgoing.get(*key).and_then(|p| p.first_missing(*offset, *len))
            else {
                self.repairs.pop_front();
                continue;
            };
            if (low, count) != (*offset, *len) {
                let rest = (*offset + *len) - (low + count);
                let (key, after) = (*key, low + count);
                (*offset, *len) = (low, count);
                if rest > 0 {
                    let later = SentFrame::Chunk { key, offset: after, len: rest };
                    self.repairs.insert(1, later);
                }
            }
            let Some(&SentFrame::Chunk { key, offset, len }) = self.repairs.front() else {
                return None;
            };
            return Some((key, offset, len));
        }
        None
    }

    /// So many bytes of [`Self::next_repair`] were sent again.
    pub fn on_repaired(&mut self, written: u32) {
        self.counters.repaired += 1;
        if let Some(SentFrame::Chunk { offset, len, .. }) = self.repairs.front_mut() {
            if written < *len {
                *offset += written;
                *len -= written;
                return;
            }
            self.repairs.pop_front();
        }
    }

    /// Packets whose repair would come too late are given up; `on_abandoned` is
    /// told of each, its flow and key. Of one that leaves part by part, as flows take
    /// turns on slow paths, time counts from its last part; real-time packets can't wait.
    pub fn abandon_late(
        &mut self,
        freed: &mut Vec<Vec<u8>>,
        working: Time,
        mut on_abandoned: impl FnMut(u16, PacketKey),
    ) {
        for kind in [REALTIME, DATAGRAM, STREAM] {
            while let Some(&(deadline, key)) = self.deadlines[kind].front() {
                if deadline > working && self.outgoing.get(key).is_some() {
                    break;
                }
                self.deadlines[kind].pop_front();
                let Some(outgoing) = self.outgoing.get(key) else { continue };
                if kind != REALTIME && outgoing.cut < outgoing.len() {
                    self.deadlines[kind].push_back((working + self.worth(kind), key));
                    continue;
                }
                let (flow, sequence) = (outgoing.flow, outgoing.sequence);
                self.counters.abandoned += 1;
                self.abandoned.push_back(Abandoned { flow, sequence, count: 1 });
                on_abandoned(flow, key);
                freed.extend(self.outgoing.remove(key).map(|packet| packet.bytes));
            }
        }
    }

    /// All packets are given up, in the order of each flow: somebody else is to get them,
    /// from `packets`, with their flows. `on_abandoned` is told of each, its flow and key.
    pub fn abandon_all(
        &mut self,
        packets: &mut Vec<(u16, CarriedPacket)>,
        mut on_abandoned: impl FnMut(u16, PacketKey),
    ) {
        let mut keys: Vec<(u16, u32, PacketKey)> = Vec::new();
        for key in self.outgoing.keys() {
            keys.extend(self.outgoing.get(key).map(|it| (it.flow, it.sequence, key)));
        }
        // By their numbers, which wrap: from the oldest on.
        keys.sort_by(|a, b| {
            let age = a.1.wrapping_sub(b.1) as i32;
            a.0.cmp(&b.0).then(age.cmp(&0))
        });
        for (flow, sequence, key) in keys {
            self.counters.abandoned += 1;
            self.abandoned.push_back(Abandoned { flow, sequence, count: 1 });
            on_abandoned(flow, key);
            packets.extend(self.outgoing.remove(key).map(|packet| (flow, packet)));
        }
        self.repairs.clear();
        self.deadlines = Default::default();
    }

    /// The next deadline of a packet, by the clock that stands still while no
    /// path works.
    pub fn deadlines(&self) -> impl Iterator<Item = Time> + '_ {
        self.deadlines.iter().filter_map(|kind| kind.front().map(|(at, _)| *at))
    }

    /// Nothing is on its way, or waits to be sent again.
    pub fn is_idle(&self) -> bool {
        self.outgoing.bytes() == 0 && self.repairs.is_empty() && !self.redundancy.has_duplicates()
    }

    /// Gives back memory that isn't in use. Keys that are remembered somewhere
    /// (`keys_remembered`) must not come to mean other packets.
    pub fn rest(&mut self, keys_remembered: bool) {
        self.deadlines = Default::default();
        self.repairs.shrink_to_fit();
        self.redundancy.rest();
        if !keys_remembered {
            self.outgoing = OutgoingPackets::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_wire::Form;

    fn reliability() -> Reliability {
        Reliability::new(1000, Ratio::from_fraction(0.05))
    }

    fn insert(reliability: &mut Reliability, len: usize, class: Class) -> PacketKey {
        let packet = CarriedPacket { bytes: vec![0; len], form: Form::default() };
        let worth = (class, FlowRedundancy::Usual);
        reliability.insert(packet, (1, 2), worth, false, Time::from_millis(10))
    }

    #[test]
    fn only_what_is_still_missing_is_sent_again() {
        let mut reliability = reliability();
        let key = insert(&mut reliability, 100, Class::Bulk);
        let chunk = |offset, len| SentFrame::Chunk { key, offset, len };
        reliability.on_lost(chunk(0, 90));
        assert!(reliability.on_arrived(chunk(20, 30)).is_none());
        assert_eq!(reliability.next_repair(), Some((key, 0, 20)));
        reliability.on_repaired(5);
        assert_eq!(reliability.next_repair(), Some((key, 5, 15)));
        reliability.on_repaired(15);
        assert_eq!(reliability.next_repair(), Some((key, 50, 40)));
        // The rest arrives after all.
        assert!(reliability.on_arrived(chunk(0, 20)).is_none());
        assert!(reliability.on_arrived(chunk(50, 50)).is_some());
        assert_eq!(reliability.next_repair(), None);
        assert!(reliability.is_idle());
    }

    #[test]
    fn a_packet_is_given_up_at_its_deadline_and_the_peer_told() {
        let mut reliability = reliability();
        let key = insert(&mut reliability, 100, Class::Realtime);
        let at = Time::from_millis(10) + REPAIR_REALTIME;
        assert_eq!(reliability.deadlines().min(), Some(at));
        let mut told = Vec::new();
        let mut give_up = |now| {
            let mut freed = Vec::new();
            reliability.abandon_late(&mut freed, now, |flow, key| told.push((flow, key)));
            freed.len()
        };
        assert_eq!(give_up(Time::from_millis(159)), 0);
        assert_eq!(give_up(at), 1);
        assert_eq!(told, [(1, key)]);
        assert_eq!(reliability.abandoned, [Abandoned { flow: 1, sequence: 2, count: 1 }]);
        assert!(reliability.get(key).is_none());
    }

    #[test]
    fn a_packet_that_leaves_part_by_part_is_not_given_up_meanwhile() {
        let mut reliability = reliability();
        let key = insert(&mut reliability, 100, Class::Bulk);
        let given_up = |reliability: &mut Reliability, at| {
            let mut count = 0;
            reliability.abandon_late(&mut Vec::new(), at, |_, _| count += 1);
            count
        };
        let deadline = Time::from_millis(10) + REPAIR_DATAGRAM;
        assert_eq!(given_up(&mut reliability, deadline), 0);
        reliability.outgoing.get_mut(key).unwrap().cut = 100;
        assert_eq!(given_up(&mut reliability, deadline), 0, "its time begins");
        assert_eq!(given_up(&mut reliability, deadline + REPAIR_DATAGRAM), 1);
    }

    #[test]
    fn what_the_peer_has_needs_no_deadline() {
        let mut reliability = reliability();
        let key = insert(&mut reliability, 100, Class::Bulk);
        assert!(reliability.on_arrived(SentFrame::Chunk { key, offset: 0, len: 100 }).is_some());
        reliability.abandon_late(&mut Vec::new(), Time::from_millis(10), |_, _| panic!("arrived"));
        assert_eq!(reliability.deadlines().count(), 0);
        assert_eq!(reliability.counters.abandoned, 0);
    }

    #[test]
    fn too_much_on_its_way_holds_back_what_is_new() {
        let mut reliability = reliability();
        insert(&mut reliability, 1000, Class::Bulk);
        assert!(!reliability.is_full());
        insert(&mut reliability, 1, Class::Bulk);
        assert!(reliability.is_full());
        let mut freed = Vec::new();
        reliability.restart(&mut freed);
        assert_eq!((freed.len(), reliability.unacknowledged_bytes()), (2, 0));
    }
}
