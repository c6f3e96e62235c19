//! What is sent to the peer, and in which order: feedback, probes, repairs,
//! copies, then the queue.

use super::Peer;
use super::datagram::{Datagram, LEAST_CHUNK, Run};
use super::schedule::{Choice, Item};
use crate::config::LinkId;
use crate::path::Controller;
use crate::path::sent::SentFrame;
use braid_units::{Rate, Time};
use braid_wire::{Close, HEADER_LEN, TAG_LEN};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most datagrams in one batch (UDP_SEGMENT takes 64, and 64 KB).
const BATCH: usize = 44;
/// A batch lasts no longer than this at the path's rate.
const BATCH_TIME: Duration = Duration::from_micros(600);
/// Datagrams of swift paths hold whole blocks of the cipher only: the eight bytes
/// that one of 1472 has beyond them cost as much time as 300 others.
const CIPHER_BLOCK: usize = 16;
/// How long a remainder waits for more to go with it.
const FILL_WAIT: Duration = Duration::from_millis(2);
/// What is sent next has about so many bytes: paths are chosen for that.
const LIKELY: u64 = 1400;
/// So little room in a datagram can't be used: a chunk of [`LEAST_CHUNK`] with
/// its header needs more.
const NEARLY_FULL: usize = LEAST_CHUNK as usize + 18;

/// What is to be sent next, and by which path.
struct Next {
    choice: Choice,
    /// Of the queue: the flow and what its next bytes are.
    queued: Option<(u16, Item)>,
}

/// What a datagram may be filled with.
struct Ask {
    /// What comes first, if that's known already.
    queued: Option<(u16, Item)>,
    /// Its path was just chosen for what comes next.
    first: bool,
    /// The pacer holds all else back.
    only_urgent: bool,
}

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
            self.look_at_paths();
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

    /// Repairs and the queue, as many datagrams for one path as it may send at
    /// once.
    fn poll_data(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let Some(Next { choice, mut queued }) = self.next_data(now) else {
            self.note_spare();
            return None;
        };
        let index = choice.path;
        let rate = self.paths[index].congestion.pacing_rate();
        let most = self.batch_size(index, rate);
        let room = match self.paths[index].room() {
            room if self.paths[index].is_swift() => room - room % CIPHER_BLOCK,
            room => room,
        };
        let mut segment = 0;
        let mut run = None;
        for count in 0..most {
            // What is urgent doesn't ask the pacer.
            let paced = count > 0 && !self.paths[index].is_available(now);
            let start = out.len();
            // None may be longer than the first: the kernel cuts by its size.
            let room = if count == 0 { room } else { segment - HEADER_LEN - TAG_LEN };
            let mut datagram = Datagram::begin(index, room, out);
            if !paced {
                self.write_control(&mut datagram, out);
            }
            let follows = match run {
                Some(run) if !paced => self.write_more_of(run, &mut datagram, out),
                _ => false,
            };
            if !follows {
                let queued = queued.take();
                let ask = Ask { queued, first: count == 0, only_urgent: paced };
                run = self.fill(&mut datagram, choice, ask, now, out);
            }
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
            let size = out.len() - start;
            if segment == 0 {
                segment = size;
            }
            // One that a chunk without a length has closed may have a byte less.
            if !full || size < segment {
                break;
            }
        }
        if out.is_empty() { None } else { self.transmit(index, segment) }
    }

    /// When all that waited has gone, what is late is sent again sooner.
    pub(super) fn note_spare(&mut self) {
        if !self.spare && self.entry.is_empty() && self.repairs.is_empty() {
            self.spare = true;
            self.look_for_losses();
        }
    }

    /// What is to be sent next; if it's the queue's, its flow is at the head then.
    fn next_data(&mut self, now: Time) -> Option<Next> {
        if !self.repairs.is_empty() {
            self.drop_settled_repairs();
            if !self.repairs.is_empty()
                && let Some(choice) = self.choose(Item::Repair, LIKELY, None, now)
            {
                return Some(Next { choice, queued: None });
            }
        }
        if self.outgoing.bytes() > self.memory / 4 || self.waits_for_more(now).is_some() {
            return None;
        }
        for _ in 0..=self.entry.active_flows() {
            let (flow, item) = self.next_item(now)?;
            if let Some(choice) = self.choose_for_queue(item, LIKELY, now) {
                return Some(Next { choice, queued: Some((flow, item)) });
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
        let room = self.survey.least_room?;
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

    /// Fills a datagram with what may go by its path. If it ends in the midst of
    /// a packet that could go on so: that.
    fn fill(
        &mut self,
        datagram: &mut Datagram,
        choice: Choice,
        Ask { mut queued, mut first, only_urgent }: Ask,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<Run> {
        // Items for which the path was chosen: others like them don't differ
        // by enough to ask again for the same datagram.
        let (mut urgent_chosen, mut bulk_chosen) = (false, false);
        while datagram.left(out) > 16 {
            self.drop_settled_repairs();
            if let Some(&SentFrame::Chunk { key, offset, len }) = self.repairs.front() {
                if only_urgent {
                    break;
                }
                let chosen = first || self.remains(choice, Item::Repair, LIKELY, now);
                if chosen {
                    let written = self.write_chunk(datagram, key, offset, len, out);
                    if written == 0 {
                        break;
                    }
                    self.repairs.pop_front();
                    self.counters.repaired += 1;
                    let repair = SentFrame::Chunk { key, offset, len: written };
                    self.copy_repair(repair, datagram.path);
                    if written < len {
                        let (offset, len) = (offset + written, len - written);
                        self.repairs.push_front(SentFrame::Chunk { key, offset, len });
                    }
                    first = false;
                    continue;
                }
            }
            let next = match queued.take() {
                Some(known) => Some(known),
                None if self.outgoing.bytes() > self.memory / 4 => None,
                // The end of a packet goes with what is already here, but a new
                // datagram for it alone waits a moment.
                None if datagram.is_empty(out) && self.waits_for_more(now).is_some() => None,
                None => self.next_item(now),
            };
            let Some((flow, item)) = next else { break };
            let urgent = item == Item::Urgent;
            if only_urgent && !urgent {
                break;
            }
            // What fills whatever it gets fills a batch too: a choice for each
            // datagram would make as many system calls.
            let stays = matches!(item, Item::Bulk { elastic: true, .. });
            let chosen = if urgent { &mut urgent_chosen } else { &mut bulk_chosen };
            let asked = std::mem::replace(chosen, true);
            if !first && !stays && !asked && !self.remains(choice, item, LIKELY, now) {
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
                } else if stays && datagram.closed {
                    return Some(Run { flow, key });
                }
            }
        }
        None
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

    pub(super) fn send_single(
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
