//! Inner packets from our side enter the queue.

use super::{Peer, REPAIR_DATAGRAM, REPAIR_REALTIME, REPAIR_STREAM};
use crate::entry::{FLOWS, Queued};
use crate::outgoing::PacketKey;
use braid_inner::{Class, ClassRules, Headers, InnerPacket, PureAck, flow_key, join};
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
        self.use_now(now);
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
        let key = flow_key(&packet.bytes, &headers);
        let stream =
            headers.ip.is_some_and(|ip| ip.protocol == TCP) || matches!(class, Class::Precious);
        let at = self.working.at(now);
        let entry = &self.entry;
        let hash = key.hash(&self.hash_key);
        let flow = self.places.place(hash, at, |flow| entry.waits(flow));
        let ack = PureAck::read(&packet.bytes, &headers);
        let queued = Queued { packet, class, stream, rule, at };
        let Some(ack) = ack else {
            let held = self.acks.interrupt(flow, now);
            self.queue(flow, held.into_iter().chain([queued]));
            return;
        };
        let offered = self.acks.offer(flow, key, ack, queued, now);
        let (next, last) = match offered.supersedes_last {
            true => (None, offered.now),
            false => (offered.now, None),
        };
        self.queue(flow, offered.before.into_iter().chain(next));
        let parameters = &self.entry_parameters;
        let gave_way = last.and_then(|last| self.entry.push_superseding(flow, last, parameters));
        for gone in offered.replaced.into_iter().chain(gave_way) {
            self.counters.thinned += 1;
            self.recycle(gone.packet.bytes);
        }
        self.freed.extend(self.entry.drain_dropped());
    }

    /// Acknowledgements that were held back long enough go on.
    pub(super) fn release_acks(&mut self, now: Time) {
        while let Some((flow, queued)) = self.acks.poll(now) {
            self.queue(flow, [queued]);
        }
    }

    fn queue(&mut self, flow: u16, packets: impl IntoIterator<Item = Queued>) {
        for queued in packets {
            self.entry.push(flow, queued, &self.entry_parameters);
        }
        self.freed.extend(self.entry.drain_dropped());
    }

    /// The packet of `flow` that is being cut, or the next one from the queue,
    /// which gets its number now: what the queue drops leaves no hole.
    pub(super) fn head_packet(&mut self, flow: u16, now: Time) -> Option<PacketKey> {
        let index = usize::from(flow);
        if self.cutting.len() <= index {
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
            let mut packet = queued.packet;
            if queued.stream && packet.bytes.len() < self.join_limit {
                self.join_following(&mut packet, flow);
            }
            let (kind, worth) = match (realtime, queued.stream) {
                (true, _) => (0, REPAIR_REALTIME),
                (_, true) => (2, REPAIR_STREAM),
                _ => (1, REPAIR_DATAGRAM),
            };
            let deadline = working + worth;
            let sequence = self.sequences[index];
            self.sequences[index] = sequence.wrapping_add(1) & 0xff_ffff;
            let key = self.outgoing.insert(packet, flow, sequence, queued.class);
            self.deadlines[kind].push_back((deadline, key));
            self.cutting[index] = Some(key);
            return Some(key);
        }
    }

    /// Segments of a stream that wait together go as one super-packet: its
    /// header goes once.
    fn join_following(&mut self, packet: &mut InnerPacket, flow: u16) {
        let (layer, limit) = (self.layer, self.join_limit);
        self.entry.take_following(flow, |next| join(packet, next, layer, limit));
        self.freed.extend(self.entry.drain_dropped());
    }
}
