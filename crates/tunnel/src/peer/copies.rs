//! Copies and parities: what goes twice so that nothing waits for a repair.

use super::datagram::{Datagram, chunk_of};
use super::parameters::LOSSY;
use super::schedule::Item;
use super::{Peer, Transmit};
use crate::path::sent::SentFrame;
use crate::redundancy::erasure::{OutgoingParity, SourceId};
use braid_inner::Class;
use braid_units::Time;
use braid_wire::{ErasureFrame, HEADER_LEN, SourceRef};

/// Real-time chunks shorter than this are rather copied than coded.
const LEAST_CODED: u32 = 300;
/// Repairs of bulk by a path that loses more get copies. Below that a copy of
/// each costs more than waiting for the few that are lost (six 3G links, 0.5 %).
const FRAGILE: f64 = 0.008;

impl Peer {
    /// A sparse packet gets a copy by a second path while the budget allows;
    /// real-time packets get parities where even that would be too dear.
    pub(super) fn copy_or_code(&mut self, frame: SentFrame, index: usize, now: Time) {
        let SentFrame::Chunk { key, offset, len } = frame else { return };
        let id = self.paths[index].id;
        if self.paths_up().nth(1).is_none() {
            return;
        }
        let Some(outgoing) = self.outgoing.get(key) else { return };
        let worth_it =
            matches!(outgoing.class, Class::Precious | Class::Realtime | Class::Interactive);
        let coded = self.coding && outgoing.is_realtime() && len >= LEAST_CODED;
        if !coded {
            if worth_it && self.budget.available().bytes() >= u64::from(len) {
                self.duplicates.push_back((frame, id));
            }
            return;
        }
        let source = SourceId { flow: outgoing.flow, sequence: outgoing.sequence, offset };
        let mut coded = std::mem::take(&mut self.parity_scratch);
        coded.clear();
        chunk_of(outgoing, offset, len).write(&mut coded, false);
        let parity = self.encoder.push(now, source, &coded, id);
        self.parity_scratch = coded;
        if let Some(parity) = parity {
            self.queue_parity(parity);
        }
    }

    /// Losing a repair too would hold the flow up for another round trip. Where
    /// nothing is lost, only late, a copy would be a third of the same. Bulk
    /// waits rather than send all repairs twice, unless its path loses many.
    pub(super) fn copy_repair(&mut self, repair: SentFrame, index: usize) {
        let SentFrame::Chunk { key, .. } = repair else { return };
        let bulk = self.outgoing.get(key).is_none_or(|packet| packet.class == Class::Bulk);
        let by = &self.paths[index];
        let risky = match bulk {
            true => by.loss_share() > FRAGILE,
            false => self.paths.iter().any(|path| path.loss_share() > LOSSY),
        };
        if risky {
            self.duplicates.push_back((repair, by.id));
        }
    }

    pub(super) fn queue_parity(&mut self, parity: OutgoingParity) {
        if self.parities.len() < 16 {
            let except = parity.paths.last().copied().unwrap_or(u8::MAX);
            self.parities.push_back((parity.parity, except));
        }
    }

    /// Copies of chunks, by another path than the first.
    pub(super) fn poll_duplicate(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((frame, except)) = self.duplicates.pop_front() {
            let SentFrame::Chunk { key, offset, len } = frame else { continue };
            if self.outgoing.get(key).is_none() {
                continue;
            }
            let bytes = u64::from(len);
            let Some(index) = self.choose_path(Item::Urgent, bytes, Some(except), now) else {
                continue;
            };
            if !self.budget.try_spend(bytes) {
                continue;
            }
            let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
            if self.write_chunk(&mut datagram, key, offset, len, out) == len {
                self.counters.duplicated += 1;
                return self.send_single(datagram, true, now, out);
            }
            // It doesn't fit this path's datagrams whole: no copy then.
            self.drop_frames(&datagram);
            out.truncate(datagram.start);
        }
        None
    }

    pub(super) fn poll_parity(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((parity, except)) = self.parities.pop_front() {
            let bytes = parity.body().len() as u64;
            let Some(index) = self.choose_path(Item::Urgent, bytes, Some(except), now) else {
                continue;
            };
            let sources: Vec<SourceRef> = parity
                .members()
                .iter()
                .map(|m| SourceRef {
                    flow: m.id.flow,
                    sequence: m.id.sequence,
                    offset: m.id.offset,
                    len: m.len,
                })
                .collect();
            let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
            ErasureFrame::write(out, &sources, parity.body());
            datagram.eliciting = true;
            if out.len() - datagram.start - HEADER_LEN > datagram.room {
                out.truncate(datagram.start);
                continue;
            }
            self.counters.parities += 1;
            return self.send_single(datagram, true, now, out);
        }
        None
    }
}
