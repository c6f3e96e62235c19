//! Parities and copies on their way: each by another path than what it stands for.

use super::datagram::{Datagram, Outlet, Transmit};
use super::scheduler::{Item, Scheduler};
use crate::path::sent::SentFrame;
use crate::peer::reliability::Reliability;
use crate::peer::traffic::Sending;
use braid_inner::Class;
use braid_wire::{ErasureFrame, HEADER_LEN, SourceRef};

/// The next one, if one waits and has a path.
pub(super) fn poll(
    scheduler: &Scheduler,
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> Option<Transmit> {
    let parity = poll_parity(scheduler, reliability, outlet);
    parity
        .or_else(|| poll_duplicate(scheduler, reliability, outlet))
        .or_else(|| poll_asked(scheduler, reliability, outlet))
}

/// Parities, by another path than most of their chunks.
fn poll_parity(
    scheduler: &Scheduler,
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> Option<Transmit> {
    while let Some((parity, except)) = reliability.redundancy.pop_parity() {
        let bytes = parity.body().len() as u64;
        let Some(index) =
            scheduler.choose_path(outlet.paths, Item::Urgent, bytes, Some(except), outlet.now)
        else {
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
        let mut datagram = outlet.begin(index);
        ErasureFrame::write(outlet.out, &sources, parity.body());
        datagram.eliciting = true;
        if outlet.out.len() - datagram.start - HEADER_LEN > datagram.room {
            outlet.out.truncate(datagram.start);
            continue;
        }
        reliability.counters.parities += 1;
        return outlet.send_single(datagram, true);
    }
    None
}

/// Copies of chunks, by another path than the first.
fn poll_duplicate(
    scheduler: &Scheduler,
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> Option<Transmit> {
    while let Some((frame, except)) = reliability.redundancy.pop_duplicate() {
        let SentFrame::Chunk { key, offset, len } = frame else { continue };
        if reliability.outgoing.get(key).is_none() {
            continue;
        }
        let bytes = u64::from(len);
        let Some(index) =
            scheduler.choose_path(outlet.paths, Item::Urgent, bytes, Some(except), outlet.now)
        else {
            continue;
        };
        if !reliability.redundancy.try_spend(bytes) {
            continue;
        }
        let bytes_of = (key, offset, len);
        let mut datagram: Datagram = outlet.begin(index);
        if datagram.write_chunk(&reliability.outgoing, bytes_of, Sending::Copy, outlet) == len {
            reliability.counters.duplicated += 1;
            return outlet.send_single(datagram, true);
        }
        // It doesn't fit this path's datagrams whole: no copy then.
        outlet.discard(datagram);
    }
    None
}

/// Copies that a rule asks for. They wait until another path than the first one's takes them,
/// or until their chunks have arrived.
fn poll_asked(
    scheduler: &Scheduler,
    reliability: &mut Reliability,
    outlet: &mut Outlet<'_>,
) -> Option<Transmit> {
    for place in 0..reliability.redundancy.asked.paths() {
        let Some((except, (key, _, len))) =
            reliability.redundancy.asked.next(place, &reliability.outgoing)
        else {
            continue;
        };
        // Many of them must not overrun a path, and nothing waits for them.
        let item = match reliability.class_of(key) {
            Class::Bulk => Item::Repair { backlog: u64::MAX },
            _ => Item::Urgent,
        };
        let bytes = u64::from(len);
        let Some(index) =
            scheduler.choose_path(outlet.paths, item, bytes, Some(except), outlet.now)
        else {
            continue;
        };
        let mut datagram = outlet.begin(index);
        while let Some((_, chunk)) = reliability.redundancy.asked.next(place, &reliability.outgoing)
        {
            let written = datagram.write_chunk(&reliability.outgoing, chunk, Sending::Copy, outlet);
            if written == 0 && !datagram.is_empty(outlet.out) {
                break;
            }
            reliability.counters.duplicated += u64::from(written > 0);
            reliability.redundancy.asked.on_sent(place, written);
        }
        if datagram.is_empty(outlet.out) {
            outlet.discard(datagram);
            continue;
        }
        return outlet.send_single(datagram, true);
    }
    None
}
