//! A data datagram being written for one path.

use super::Peer;
use crate::outgoing::{Outgoing, PacketKey};
use crate::path::sent::{Fate, SentFrame, SentPacket};
use braid_units::Time;
use braid_wire::{
    Chunk, ChunkPosition, DataHeader, Frame, GaveUp, HEADER_LEN, PathStatus, TAG_LEN,
};

/// A chunk shorter than this isn't worth its header, unless it's all there is.
pub(super) const LEAST_CHUNK: u32 = 64;

/// What is in the works.
pub(super) struct Datagram {
    /// Index of the path.
    pub path: usize,
    /// Where it begins in the output.
    pub start: usize,
    /// Plaintext bytes that it may have.
    pub room: usize,
    /// Frames noted with the path.
    pub frames: u16,
    /// It has frames that ask for an acknowledgement.
    pub eliciting: bool,
    /// It ends with a chunk without a length: nothing may follow.
    pub closed: bool,
    /// It asks whether the path takes datagrams of its size.
    pub mtu_probe: bool,
}

/// A packet that fills datagram after datagram of a batch: its flow takes what
/// it gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Its flow.
    pub flow: u16,
    /// The packet.
    pub key: PacketKey,
}

impl Datagram {
    /// Begins a datagram of at most `room` plaintext bytes at the end of `out`.
    pub fn begin(path: usize, room: usize, out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        Self { path, start, room, frames: 0, eliciting: false, closed: false, mtu_probe: false }
    }

    /// Plaintext bytes still free.
    pub fn left(&self, out: &[u8]) -> usize {
        if self.closed {
            return 0;
        }
        self.room.saturating_sub(out.len() - self.start - HEADER_LEN)
    }

    /// Nothing has been written into it.
    pub fn is_empty(&self, out: &[u8]) -> bool {
        out.len() == self.start + HEADER_LEN
    }
}

impl Peer {
    /// Control frames that ride on datagrams of the path, if there are any.
    #[inline(always)]
    pub(super) fn write_control(&mut self, datagram: &mut Datagram, out: &mut Vec<u8>) {
        let untold = self.mode_untold || self.paths[datagram.path].wish_untold;
        if untold && self.tells_wishes() || !self.gave_ups.is_empty() {
            self.write_news(datagram, out);
        }
    }

    #[cold]
    fn write_news(&mut self, datagram: &mut Datagram, out: &mut Vec<u8>) {
        let index = datagram.path;
        if self.paths[index].wish_untold
            && self.tells_wishes()
            && datagram.left(out) > PathStatus::MAX_LEN
        {
            let path = &mut self.paths[index];
            path.wish_untold = false;
            PathStatus {
                path: path.id,
                tier: path.wish.tier,
                standby: path.wish.standby,
                abandoned: false,
                cap: path.cap_down,
            }
            .write(out);
            let frame = SentFrame::PathStatus { path: path.id };
            path.sent.push_frame(frame);
            datagram.frames += 1;
            datagram.eliciting = true;
        }
        if self.mode_untold && self.tells_wishes() && datagram.left(out) > 8 {
            self.mode_untold = false;
            self.mode.to_wire().write(out);
            self.paths[index].sent.push_frame(SentFrame::Mode);
            datagram.frames += 1;
            datagram.eliciting = true;
        }
        while datagram.left(out) > GaveUp::LEN {
            let Some(gave_up) = self.gave_ups.pop_front() else { break };
            gave_up.write(out);
            self.paths[index].sent.push_frame(SentFrame::GaveUp(gave_up));
            datagram.frames += 1;
            datagram.eliciting = true;
        }
    }

    /// Appends a ping.
    pub(super) fn write_ping(&mut self, datagram: &mut Datagram, out: &mut Vec<u8>) {
        Frame::write_ping(out);
        datagram.eliciting = true;
    }

    /// Seals the datagram and notes it with its path. False, and the output as
    /// before, if there are no keys to seal it with.
    pub(super) fn finish_datagram(
        &mut self,
        datagram: Datagram,
        paced: bool,
        now: Time,
        out: &mut Vec<u8>,
    ) -> bool {
        let path = &mut self.paths[datagram.path];
        let number = path.sent.next_number();
        let Some(session) = self.sessions.sending(now) else {
            out.truncate(datagram.start);
            return false;
        };
        let header = DataHeader {
            receiver: session.remote_index,
            path: path.id,
            packet_number: (number & 0xff_ffff) as u32,
        }
        .to_bytes();
        out[datagram.start..datagram.start + HEADER_LEN].copy_from_slice(&header);
        let payload = &mut out[datagram.start + HEADER_LEN..];
        let tag = session.seal(path.id, number, &header, payload);
        out.extend_from_slice(&tag);
        debug_assert_eq!(tag.len(), TAG_LEN);
        let size = (out.len() - datagram.start) as u16;
        let fate = if datagram.eliciting { Fate::InFlight } else { Fate::Unwatched };
        let mut packet = SentPacket::new(now, size, fate);
        packet.mtu_probe = datagram.mtu_probe;
        packet.app_limited = path.is_underused(now);
        let first = datagram.eliciting && !path.sent.any_in_flight();
        path.on_sent(packet, datagram.frames, paced, now);
        if first {
            self.note_losses_of(datagram.path);
        }
        true
    }

    /// Writes as much of the bytes as fits and is sensible; returns how many.
    pub(super) fn write_chunk(
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

    /// Fills a datagram with what follows in a packet that has enough left, of
    /// the only flow; false if that isn't so. What was found out for the
    /// datagram before isn't asked again.
    pub(super) fn write_more_of(
        &mut self,
        run: Run,
        datagram: &mut Datagram,
        out: &mut Vec<u8>,
    ) -> bool {
        if !self.repairs.is_empty()
            || !datagram.is_empty(out)
            || self.outgoing.bytes() > self.memory / 4
            || self.entry.only_old_flow() != Some(run.flow)
        {
            return false;
        }
        let Some(outgoing) = self.outgoing.get_mut(run.key) else { return false };
        let offset = outgoing.cut;
        let room = datagram.room.saturating_sub(Chunk::middle_header_len(offset)) as u32;
        // The packet's end may have to wait for more.
        if room < LEAST_CHUNK || u64::from(outgoing.len() - offset) < datagram.room as u64 {
            return false;
        }
        let (sequence, realtime) = (outgoing.sequence, outgoing.is_realtime());
        let Some(data) = outgoing.packet.bytes.get(offset as usize..(offset + room) as usize)
        else {
            return false;
        };
        Chunk::write_middle(run.flow, sequence, realtime, offset, data, out);
        outgoing.cut += room;
        datagram.closed = true;
        datagram.eliciting = true;
        datagram.frames += 1;
        let frame = SentFrame::Chunk { key: run.key, offset, len: room };
        self.paths[datagram.path].sent.push_frame(frame);
        self.entry.charge_alone(run.flow, u64::from(room));
        true
    }

    /// Takes back the frames noted for a datagram that isn't sent.
    pub(super) fn drop_frames(&mut self, datagram: &Datagram) {
        self.paths[datagram.path].sent.pop_frames(datagram.frames);
    }

    /// The side that opened the paths says how they are to be used.
    fn tells_wishes(&self) -> bool {
        !self.config.endpoints.is_empty()
    }
}

/// Bytes of a packet as a chunk.
pub(super) fn chunk_of(outgoing: &Outgoing, offset: u32, len: u32) -> Chunk<'_> {
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
