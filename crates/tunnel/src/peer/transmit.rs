//! What is sent to the peer, and in which order: feedback, probes, repairs,
//! copies, then the queue.

use super::datagram::Datagram;
use super::schedule::Item;
use super::{PathState, Peer};
use crate::config::LinkId;
use crate::outgoing::PacketKey;
use crate::path::sent::SentFrame;
use crate::redundancy::erasure::{OutgoingParity, SourceId};
use braid_inner::Class;
use braid_units::{Rate, Time};
use braid_wire::{Chunk, ChunkPosition, Close, ErasureFrame, HEADER_LEN, SourceRef, TAG_LEN};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most datagrams in one batch (UDP_SEGMENT takes 64, and 64 KB).
const BATCH: usize = 44;
/// A batch lasts no longer than this at the path's rate.
const BATCH_TIME: Duration = Duration::from_micros(600);
/// Largest header of a chunk of a single packet.
const BONDED_HEADER: usize = 20;
/// How long a remainder waits for more to go with it.
const FILL_WAIT: Duration = Duration::from_millis(2);
/// Real-time chunks shorter than this are rather copied than coded.
const LEAST_CODED: u32 = 300;
/// A chunk shorter than this isn't worth its header, unless it's all there is.
const LEAST_CHUNK: u32 = 64;
/// So little room in a datagram can't be used: a chunk of [`LEAST_CHUNK`] with
/// its header needs more.
const NEARLY_FULL: usize = LEAST_CHUNK as usize + 18;

/// Datagrams to be sent by one socket, all of `segment` bytes but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// By which link.
    pub link: LinkId,
    /// To where.
    pub remote: SocketAddr,
    /// From which address, where the socket has several.
    pub local: Option<IpAddr>,
    /// Bytes of each datagram but the last.
    pub segment: usize,
}

impl Peer {
    /// Appends the next datagrams to `out`, which is empty.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        self.sessions.sending(now)?;
        if now >= self.chores_at || self.feedback_copy.is_some() {
            let chore = self.poll_feedback(now, out).or_else(|| self.poll_probe(now, out));
            if chore.is_some() {
                return chore;
            }
            self.chores_at = self.next_chore(now);
        }
        self.poll_parity(now, out)
            .or_else(|| self.poll_duplicate(now, out))
            .or_else(|| self.poll_bonded(now, out))
            .or_else(|| self.poll_data(now, out))
    }

    /// One datagram with the reports of all paths, by the path that gets them
    /// there soonest, and a copy by the second: feedback must not die with a
    /// path.
    fn poll_feedback(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(index) = self.feedback_copy.take() {
            if self.paths.get(index).is_some_and(|p| p.liveness.is_up())
                && let Some(transmit) = self.send_feedback(index, now, out)
            {
                self.feedback_sent(now);
                return Some(transmit);
            }
            self.feedback_sent(now);
        }
        let interval = self.feedback_interval();
        let due =
            self.paths.iter().filter_map(|p| p.received.report_at(interval)).any(|at| at <= now);
        if !due {
            return None;
        }
        // Of paths that don't work, one by which something came has the best
        // chance: answering always by the quickest of old, which may stay dark,
        // would keep both ends from seeing that another is back.
        let promise = |p: &crate::path::Path| match p.liveness.is_up() {
            true => 0,
            false if p.received.has_news() => 1,
            false => 2,
        };
        let (mut first, mut second) = (None, None);
        for (index, path) in self.paths.iter().enumerate() {
            if path.state() == PathState::LinkDown {
                continue;
            }
            let new = Some((promise(path), path.arrival_us(100, now), index));
            if first.is_none() || new < first {
                (first, second) = (new, first);
            } else if second.is_none() || new < second {
                second = new;
            }
        }
        let Some((_, _, first)) = first else {
            self.feedback_sent(now);
            return None;
        };
        let transmit = self.send_feedback(first, now, out);
        match second {
            Some((_, _, second)) if transmit.is_some() => self.feedback_copy = Some(second),
            _ => self.feedback_sent(now),
        }
        transmit
    }

    /// When the next report or probe is due.
    fn next_chore(&self, now: Time) -> Time {
        let (interval, idle) = (self.feedback_interval(), self.idle_probe(now));
        let chores = self.paths.iter().flat_map(|p| {
            [
                p.received.report_at(interval),
                p.liveness.probe_at(p.last_eliciting, idle),
                if p.liveness.is_up() { p.mtu.next_deadline() } else { None },
            ]
        });
        chores.flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    fn send_feedback(&mut self, index: usize, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
        for i in 0..self.paths.len() {
            let left = datagram.left(out);
            let path = &mut self.paths[i];
            if path.received.has_news() {
                path.received.write_report(path.id, now, left, out);
            }
        }
        self.write_control(&mut datagram, out);
        if datagram.is_empty(out) {
            out.truncate(datagram.start);
            return None;
        }
        self.send_single(datagram, false, now, out)
    }

    fn feedback_sent(&mut self, now: Time) {
        for path in &mut self.paths {
            if path.received.has_news() {
                path.received.on_reported(now);
            }
        }
    }

    /// A goodbye by every path.
    pub(crate) fn say_goodbye(&mut self, now: Time, to: &mut Vec<(Transmit, Vec<u8>)>) {
        for index in 0..self.paths.len() {
            let mut out = Vec::new();
            let datagram = Datagram::begin(index, self.paths[index].room(), &mut out);
            Close { reason: 0 }.write(&mut out);
            if let Some(transmit) = self.send_single(datagram, false, now, &mut out) {
                to.push((transmit, out));
            }
        }
    }

    /// Liveness and MTU probes, and news of the paths' wishes.
    fn poll_probe(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let idle = self.idle_probe(now);
        if std::mem::take(&mut self.confirm) {
            let index = self.paths.iter().position(|p| p.liveness.is_up()).unwrap_or(0);
            if index < self.paths.len() {
                let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
                self.write_ping(&mut datagram, out);
                return self.send_single(datagram, false, now, out);
            }
        }
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            let due = path.liveness.probe_at(path.last_eliciting, idle).is_some_and(|at| at <= now);
            let tell =
                path.liveness.is_up() && path.wish_untold && !self.config.endpoints.is_empty();
            if due || tell {
                path.liveness.on_probe(now);
                // While the path is silent its wish can't have arrived.
                path.wish_untold |= !path.liveness.is_up();
                let mut datagram = Datagram::begin(index, path.room(), out);
                self.write_ping(&mut datagram, out);
                self.write_control(&mut datagram, out);
                return self.send_single(datagram, false, now, out);
            }
            if path.liveness.is_up()
                && let Some(size) = path.mtu.poll_probe(now)
            {
                let room = usize::from(size).saturating_sub(HEADER_LEN + TAG_LEN);
                let mut datagram = Datagram::begin(index, room, out);
                self.write_ping(&mut datagram, out);
                out.resize(datagram.start + HEADER_LEN + room, 0);
                datagram.mtu_probe = true;
                return self.send_single(datagram, false, now, out);
            }
        }
        None
    }

    /// Copies of chunks, by another path than the first.
    fn poll_duplicate(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
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

    fn poll_parity(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
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

    /// Whole packets of the bonding modes, in two datagrams or more where they
    /// don't fit the path's.
    fn poll_bonded(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.bonded.is_none() {
            self.bonded = self.next_bonded(now);
        }
        let mut bonded = self.bonded.take()?;
        let &index = bonded.paths.last()?;
        let total = bonded.packet.bytes.len() as u32;
        let mut datagram = Datagram::begin(index, self.paths.get(index)?.room(), out);
        let offset = bonded.sent;
        let rest = ChunkPosition::of(bonded.packet.offload, total, offset, total - offset);
        let header = rest.header_len(total - offset).max(BONDED_HEADER);
        let len = (total - offset).min(datagram.room.saturating_sub(header) as u32);
        Chunk {
            flow: bonded.flow,
            sequence: bonded.sequence,
            unordered: true,
            realtime: true,
            position: ChunkPosition::of(bonded.packet.offload, total, offset, len),
            data: &bonded.packet.bytes[offset as usize..(offset + len) as usize],
        }
        .write(out, true);
        datagram.eliciting = true;
        datagram.closed = true;
        bonded.sent += len;
        if bonded.sent >= total {
            bonded.sent = 0;
            bonded.paths.pop();
        }
        if bonded.paths.is_empty() {
            self.recycle(bonded.packet.bytes);
        } else {
            self.bonded = Some(bonded);
        }
        self.send_single(datagram, false, now, out)
    }

    /// Repairs and the queue, as many datagrams for one path as it may send at
    /// once.
    fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let index = self.next_data_path(now)?;
        let rate = self.paths[index].congestion.pacing_rate();
        let most = self.batch_size(index, rate);
        let room = self.paths[index].room();
        let mut segment = 0;
        for count in 0..most {
            if count > 0 && !self.paths[index].is_available(now) {
                break;
            }
            let start = out.len();
            // None may be longer than the first: the kernel cuts by its size.
            let room = if count == 0 { room } else { segment - HEADER_LEN - TAG_LEN };
            let mut datagram = Datagram::begin(index, room, out);
            self.write_control(&mut datagram, out);
            self.fill(&mut datagram, count > 0, now, out);
            if datagram.is_empty(out) {
                out.truncate(start);
                break;
            }
            let left = datagram.left(out);
            if (1..NEARLY_FULL).contains(&left) && !self.entry.is_empty() {
                // Padding, so that the batch goes on.
                out.resize(out.len() + left, 0);
            }
            let full = datagram.left(out) == 0;
            if !self.finish_datagram(datagram, true, now, out) {
                break;
            }
            if segment == 0 {
                segment = out.len() - start;
            }
            if !full {
                break;
            }
        }
        if out.is_empty() { None } else { self.transmit(index, segment) }
    }

    /// The path for what is to be sent next; the queue's flow that it's for is
    /// at the head then.
    fn next_data_path(&mut self, now: Time) -> Option<usize> {
        if !self.repairs.is_empty() {
            self.drop_settled_repairs();
            if !self.repairs.is_empty() {
                let chosen = self.choose_path(Item::Repair, 1400, None, now);
                if chosen.is_some() {
                    return chosen;
                }
            }
        }
        if self.outgoing.bytes() > self.memory / 4 || self.waits_for_more(now).is_some() {
            return None;
        }
        for _ in 0..=self.entry.active_flows() {
            let (flow, item) = self.next_item(now)?;
            let chosen = self.choose_path(item, 1400, None, now);
            if chosen.is_some() {
                return chosen;
            }
            self.entry.skip(flow);
        }
        None
    }

    /// A remainder of an elastic flow that fills no datagram waits a moment for
    /// what comes next (as Nagle's algorithm does, RFC 896): else a third of
    /// the datagrams would carry the last few bytes of a packet. Until when, if
    /// so.
    pub(super) fn waits_for_more(&self, now: Time) -> Option<Time> {
        let until = self.last_admitted + FILL_WAIT;
        if now >= until || !self.repairs.is_empty() || self.entry.active_flows() != 1 {
            return None;
        }
        let flow = self.entry.only_flow()?;
        let key = self.cutting.get(usize::from(flow)).copied().flatten()?;
        let outgoing = self.outgoing.get(key)?;
        let waiting = u64::from(outgoing.len() - outgoing.cut) + self.entry.status().bytes;
        let elastic = self.elastic_until.get(usize::from(flow)).is_some_and(|at| now < *at);
        let room = self.paths.iter().filter(|p| p.liveness.is_up()).map(|p| p.room()).min()?;
        (elastic && outgoing.cut > 0 && waiting < room as u64).then_some(until)
    }

    /// The flow whose turn it is, and what its next bytes are.
    fn next_item(&mut self, now: Time) -> Option<(u16, Item)> {
        loop {
            let head = self.entry.head()?;
            let Some(key) = self.head_packet(head.flow, now) else { continue };
            let working = self.working.at(now);
            let waited = working - head.backlogged_since;
            let elastic = self.is_elastic(head.flow, waited, now);
            let outgoing = self.outgoing.get(key)?;
            let small = outgoing.len() <= 512;
            let rest = u64::from(outgoing.len() - outgoing.cut);
            let sparse = head.sparse && rest <= 3000;
            let item = if outgoing.is_realtime() || ((sparse || small) && !elastic) {
                Item::Urgent
            } else {
                Item::Bulk { backlog: head.backlog + rest, waited, elastic }
            };
            return Some((head.flow, item));
        }
    }

    /// Fills a datagram with what may go by its path.
    fn fill(&mut self, datagram: &mut Datagram, same_path: bool, now: Time, out: &mut Vec<u8>) {
        let mut first = !same_path;
        // Items for which the path was chosen: others like them don't differ
        // by enough to ask again for the same datagram.
        let (mut urgent_chosen, mut bulk_chosen) = (false, false);
        while datagram.left(out) > 16 {
            self.drop_settled_repairs();
            if let Some(&SentFrame::Chunk { key, offset, len }) = self.repairs.front() {
                let chosen =
                    first || self.choose_path(Item::Repair, 1400, None, now) == Some(datagram.path);
                if chosen {
                    let written = self.write_chunk(datagram, key, offset, len, out);
                    if written == 0 {
                        break;
                    }
                    self.repairs.pop_front();
                    self.counters.repaired += 1;
                    // Losing the repair too would hold the flow up for another
                    // round trip.
                    let copy = SentFrame::Chunk { key, offset, len: written };
                    self.duplicates.push_back((copy, self.paths[datagram.path].id));
                    if written < len {
                        let (offset, len) = (offset + written, len - written);
                        self.repairs.push_front(SentFrame::Chunk { key, offset, len });
                    }
                    first = false;
                    continue;
                }
            }
            if self.outgoing.bytes() > self.memory / 4 {
                break;
            }
            // The end of a packet goes with what is already here, but a new
            // datagram for it alone waits a moment.
            if datagram.is_empty(out) && self.waits_for_more(now).is_some() {
                break;
            }
            let Some((flow, item)) = self.next_item(now) else { break };
            let urgent = item == Item::Urgent;
            // What fills whatever it gets fills a batch too: a choice for each
            // datagram would make as many system calls.
            let stays = matches!(item, Item::Bulk { elastic: true, .. });
            let chosen = if urgent { &mut urgent_chosen } else { &mut bulk_chosen };
            let asked = std::mem::replace(chosen, true);
            if !first
                && !stays
                && !asked
                && self.choose_path(item, 1400, None, now) != Some(datagram.path)
            {
                break;
            }
            first = false;
            let Some(key) = self.cutting.get(usize::from(flow)).copied().flatten() else { break };
            let Some(outgoing) = self.outgoing.get(key) else { break };
            let (offset, total) = (outgoing.cut, outgoing.len());
            let written = self.write_chunk(datagram, key, offset, total - offset, out);
            if written == 0 {
                break;
            }
            self.entry.charge(flow, u64::from(written));
            if urgent {
                let frame = SentFrame::Chunk { key, offset, len: written };
                self.copy_or_code(frame, datagram.path, now);
            }
            if let Some(outgoing) = self.outgoing.get_mut(key) {
                outgoing.cut += written;
                if outgoing.cut >= total {
                    self.cutting[usize::from(flow)] = None;
                    self.entry.cut(flow);
                }
            }
        }
    }

    /// A sparse packet gets a copy by a second path while the budget allows;
    /// real-time packets get parities where even that would be too dear.
    fn copy_or_code(&mut self, frame: SentFrame, index: usize, now: Time) {
        let SentFrame::Chunk { key, offset, len } = frame else { return };
        let id = self.paths[index].id;
        if self.paths.iter().filter(|p| p.liveness.is_up()).count() < 2 {
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

    pub(super) fn queue_parity(&mut self, parity: OutgoingParity) {
        if self.parities.len() < 16 {
            let except = parity.paths.last().copied().unwrap_or(u8::MAX);
            self.parities.push_back((parity.parity, except));
        }
    }

    /// Repairs whose bytes have arrived meanwhile are not sent.
    fn drop_settled_repairs(&mut self) {
        while let Some(frame) = self.repairs.front_mut() {
            let SentFrame::Chunk { key, offset, len } = frame else {
                self.repairs.pop_front();
                continue;
            };
            match self.outgoing.get(*key).and_then(|p| p.first_missing(*offset, *len)) {
                None => {
                    self.repairs.pop_front();
                }
                Some((low, count)) if (low, count) == (*offset, *len) => break,
                Some((low, count)) => {
                    let rest = (*offset + *len) - (low + count);
                    let (key, after) = (*key, low + count);
                    (*offset, *len) = (low, count);
                    if rest > 0 {
                        let later = SentFrame::Chunk { key, offset: after, len: rest };
                        self.repairs.insert(1, later);
                    }
                    break;
                }
            }
        }
    }

    /// Writes as much of the bytes as fits and is sensible; returns how many.
    fn write_chunk(
        &mut self,
        datagram: &mut Datagram,
        key: PacketKey,
        offset: u32,
        len: u32,
        out: &mut Vec<u8>,
    ) -> u32 {
        let Some(outgoing) = self.outgoing.get(key) else { return 0 };
        let left = datagram.left(out);
        let whole = ChunkPosition::of(outgoing.packet.offload, outgoing.len(), offset, len);
        let header = whole.header_len(len);
        let (take, to_end) = if header + len as usize <= left {
            (len, false)
        } else {
            // Cut where the datagram ends; without its length the chunk's
            // header is shorter.
            let cut = ChunkPosition::of(outgoing.packet.offload, outgoing.len(), offset, len - 1);
            let header = cut.header_len(0) - 1;
            let room = left.saturating_sub(header) as u32;
            if room < LEAST_CHUNK.min(len) {
                return 0;
            }
            (room.min(len), true)
        };
        chunk_of(outgoing, offset, take).write(out, to_end);
        datagram.closed = to_end;
        datagram.eliciting = true;
        datagram.frames += 1;
        self.paths[datagram.path].sent.push_frame(SentFrame::Chunk { key, offset, len: take });
        take
    }

    /// Takes back the frames noted for a datagram that isn't sent.
    fn drop_frames(&mut self, datagram: &Datagram) {
        self.paths[datagram.path].sent.pop_frames(datagram.frames);
    }

    fn send_single(
        &mut self,
        datagram: Datagram,
        paced: bool,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (index, start) = (datagram.path, datagram.start);
        if !self.finish_datagram(datagram, paced, now, out) {
            return None;
        }
        self.transmit(index, out.len() - start)
    }

    fn transmit(&self, index: usize, segment: usize) -> Option<Transmit> {
        let path = self.paths.get(index)?;
        Some(Transmit { link: path.link, remote: path.remote, local: path.local, segment })
    }

    /// How many datagrams may leave together: slow links see no bursts.
    fn batch_size(&self, index: usize, rate: Rate) -> usize {
        let datagram = u64::from(self.paths[index].mtu.current()).max(1);
        let by_time = rate.bytes_in(BATCH_TIME) / datagram;
        (by_time as usize).clamp(1, BATCH)
    }
}

fn chunk_of(outgoing: &crate::outgoing::Outgoing, offset: u32, len: u32) -> Chunk<'_> {
    let end = (offset + len) as usize;
    Chunk {
        flow: outgoing.flow,
        sequence: outgoing.sequence,
        unordered: false,
        realtime: outgoing.is_realtime(),
        position: ChunkPosition::of(outgoing.packet.offload, outgoing.len(), offset, len),
        data: outgoing.packet.bytes.get(offset as usize..end).unwrap_or(&[]),
    }
}
