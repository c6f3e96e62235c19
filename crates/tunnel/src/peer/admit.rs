//! Inner packets from our side enter the queue.

use super::{Peer, REPAIR_DATAGRAM, REPAIR_REALTIME, REPAIR_STREAM};
use crate::entry::{EntryQueue, FLOWS, Queued};
use crate::outgoing::PacketKey;
use braid_inner::{Class, ClassRules, Headers, InnerPacket, flow_hash};
use braid_units::Time;

/// IP protocol number of TCP.
const TCP: u8 = 6;
/// Real-time packets that waited longer than this are of no use any more.
const STALE_REALTIME: std::time::Duration = std::time::Duration::from_millis(400);

impl Peer {
    /// Queues a packet for the peer.
    pub(crate) fn admit(&mut self, packet: InnerPacket, rules: &ClassRules, now: Time) {
        self.counters.accepted += 1;
        self.counters.accepted_bytes += packet.bytes.len() as u64;
        self.last_used = now;
        self.last_admitted = now;
        let headers = Headers::parse(&packet.bytes, self.layer);
        let rule = rules.class_of(&packet.bytes, &headers).map(|index| index.0);
        let mode =
            rule.and_then(|r| self.class_modes.get(usize::from(r)).copied()).unwrap_or(self.mode);
        if !mode.is_adaptive() {
            self.bonding.push(packet, mode, self.layer, &headers);
            return;
        }
        let class = Class::of(&packet.bytes, &headers);
        let flow = EntryQueue::flow_of(flow_hash(&packet.bytes, self.layer, &self.hash_key));
        let at = self.working.at(now);
        self.entry.push(flow, Queued { packet, class, rule, at }, &self.entry_parameters);
        for buffer in self.entry.drain_dropped() {
            if self.spare.len() < 64 {
                self.spare.push(buffer);
            }
        }
    }

    /// The packet of `flow` that is being cut, or the next one from the queue,
    /// which gets its number now: what the queue drops leaves no hole.
    pub(super) fn head_packet(&mut self, flow: u16, now: Time) -> Option<PacketKey> {
        let index = usize::from(flow);
        if self.sequences.len() <= index {
            self.sequences.resize(FLOWS, 0);
            self.cutting.resize(FLOWS, None);
            self.elastic_until.resize(FLOWS, Time::ZERO);
        }
        if let Some(key) = self.cutting[index]
            && self.outgoing.get(key).is_some()
        {
            return Some(key);
        }
        let working = self.working.at(now);
        loop {
            let queued = self.entry.take(flow, working, &self.entry_parameters)?;
            let realtime = queued.class == Class::Realtime;
            if realtime && working - queued.at > STALE_REALTIME {
                self.counters.gave_up += 1;
                self.entry.cut(flow);
                self.recycle(queued.packet.bytes);
                continue;
            }
            let headers = Headers::parse(&queued.packet.bytes, self.layer);
            let stream = headers.ip.is_some_and(|ip| ip.protocol == TCP)
                || matches!(queued.class, Class::Precious);
            let (kind, worth) = match (realtime, stream) {
                (true, _) => (0, REPAIR_REALTIME),
                (_, true) => (2, REPAIR_STREAM),
                _ => (1, REPAIR_DATAGRAM),
            };
            let deadline = working + worth;
            let sequence = self.sequences[index];
            self.sequences[index] = sequence.wrapping_add(1) & 0xff_ffff;
            let key = self.outgoing.insert(queued.packet, flow, sequence, queued.class);
            self.deadlines[kind].push_back((deadline, key));
            self.cutting[index] = Some(key);
            return Some(key);
        }
    }
}
