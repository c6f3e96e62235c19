//! A data datagram being written for one path, and the way out for it.

use crate::id::LinkId;
use crate::outgoing::{OutgoingPackets, PacketKey};
use crate::path::sent::{Fate, SentFrame, SentPacket, SentPackets};
use crate::peer::paths::PathSet;
use crate::peer::timers::TimerTable;
use crate::peer::traffic::{Sending, Traffic};
use crate::session::Sessions;
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition, DataHeader, Frame, HEADER_LEN, TAG_LEN};
use std::net::{IpAddr, SocketAddr};

/// A chunk shorter than this, in bytes, isn't worth its header of some 10, unless it's all
/// there is. Ours; not measured apart.
pub(super) const LEAST_CHUNK: u32 = 64;

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

/// Where datagrams are sealed and given to their paths.
#[derive(Debug)]
pub(in crate::peer) struct Outlet<'a> {
    pub paths: &'a mut PathSet,
    pub sessions: &'a mut Sessions,
    pub timers: &'a mut TimerTable,
    /// Buffers that aren't needed any more.
    pub freed: &'a mut Vec<Vec<u8>>,
    /// Who is told which path carries what.
    pub traffic: &'a mut Traffic,
    /// The CPU is the bottleneck, not the links.
    pub cpu_bound: bool,
    pub now: Time,
    /// The time that stands still while no path works.
    pub working: Time,
    /// Where the datagrams are written.
    pub out: &'a mut Vec<u8>,
}

/// A datagram being written.
pub(in crate::peer) struct Datagram {
    /// Index of the path.
    pub path: usize,
    /// Where it begins in the output.
    pub start: usize,
    /// Plaintext bytes that it may have.
    pub room: usize,
    /// Frames noted with the path.
    frames: u16,
    /// It has frames that ask for an acknowledgement.
    pub eliciting: bool,
    /// It ends with a chunk without a length: nothing may follow.
    pub closed: bool,
    /// It asks whether the path takes datagrams of its size.
    pub mtu_probe: bool,
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

    /// A frame was written that must reach the peer.
    pub fn note(&mut self, frame: SentFrame, sent: &mut SentPackets) {
        sent.push_frame(frame);
        self.frames += 1;
        self.eliciting = true;
    }

    /// Appends a ping.
    pub fn write_ping(&mut self, out: &mut Vec<u8>) {
        Frame::write_ping(out);
        self.eliciting = true;
    }

    /// Writes as much of the bytes as fits and is sensible; returns how many.
    pub fn write_chunk(
        &mut self,
        outgoing: &OutgoingPackets,
        (key, offset, len): (PacketKey, u32, u32),
        why: Sending,
        outlet: &mut Outlet<'_>,
    ) -> u32 {
        let Some(outgoing) = outgoing.get(key) else { return 0 };
        let left = self.left(outlet.out);
        let whole = ChunkPosition::of(outgoing.packet.form, outgoing.len(), offset, len);
        let header = whole.header_len(len);
        let (take, to_end) = if header + len as usize <= left {
            (len, false)
        } else {
            // Cut where the datagram ends; without its length the chunk's
            // header is shorter.
            let cut = ChunkPosition::of(outgoing.packet.form, outgoing.len(), offset, len - 1);
            let header = cut.header_len(0) - 1;
            let room = left.saturating_sub(header) as u32;
            if room < LEAST_CHUNK.min(len) {
                return 0;
            }
            (room.min(len), true)
        };
        outgoing.chunk(offset, take).write(outlet.out, to_end);
        self.closed = to_end;
        let frame = SentFrame::Chunk { key, offset, len: take };
        let path = &mut outlet.paths[self.path];
        self.note(frame, &mut path.sent);
        outlet.traffic.on_sent(outgoing.flow, path.id, take, why);
        take
    }

    /// Fills it with what follows in a packet; returns how many bytes. None if the
    /// packet hasn't got enough left: its end may have to wait for more.
    pub fn write_middle(
        &mut self,
        outgoing: &mut OutgoingPackets,
        key: PacketKey,
        outlet: &mut Outlet<'_>,
    ) -> Option<u32> {
        let outgoing = outgoing.get_mut(key)?;
        let offset = outgoing.cut;
        let room = self.room.saturating_sub(Chunk::middle_header_len(offset)) as u32;
        if room < LEAST_CHUNK || u64::from(outgoing.len() - offset) < self.room as u64 {
            return None;
        }
        let (flow, sequence, realtime) = (outgoing.flow, outgoing.sequence, outgoing.is_realtime());
        let data = outgoing.packet.bytes.get(offset as usize..(offset + room) as usize)?;
        Chunk::write_middle(flow, sequence, realtime, offset, data, outlet.out);
        outgoing.cut += room;
        self.closed = true;
        let frame = SentFrame::Chunk { key, offset, len: room };
        let path = &mut outlet.paths[self.path];
        self.note(frame, &mut path.sent);
        outlet.traffic.on_sent(flow, path.id, room, Sending::First);
        Some(room)
    }
}

impl Outlet<'_> {
    /// Begins a datagram as large as the path of this place takes.
    pub fn begin(&mut self, path: usize) -> Datagram {
        Datagram::begin(path, self.paths[path].room(), self.out)
    }

    /// Sends a datagram alone.
    pub fn send_single(&mut self, datagram: Datagram, paced: bool) -> Option<Transmit> {
        let (index, start) = (datagram.path, datagram.start);
        if !self.finish(datagram, paced) {
            return None;
        }
        self.transmit(index, self.out.len() - start)
    }

    /// What was written is for the path of this place.
    pub fn transmit(&self, index: usize, segment: usize) -> Option<Transmit> {
        let path = self.paths.get(index)?;
        Some(Transmit { link: path.link, remote: path.remote, local: path.local, segment })
    }

    /// Seals the datagram and notes it with its path. False, and the output as
    /// before, if there are no keys to seal it with.
    pub fn finish(&mut self, datagram: Datagram, paced: bool) -> bool {
        let path = &mut self.paths[datagram.path];
        let number = path.sent.next_number();
        let Some(session) = self.sessions.sending(self.now) else {
            self.out.truncate(datagram.start);
            return false;
        };
        let header = DataHeader {
            receiver: session.remote_index,
            path: path.id,
            packet_number: (number & 0xff_ffff) as u32,
        }
        .to_bytes();
        let out = &mut *self.out;
        out[datagram.start..datagram.start + HEADER_LEN].copy_from_slice(&header);
        let payload = &mut out[datagram.start + HEADER_LEN..];
        let tag = session.seal(path.id, number, &header, payload);
        out.extend_from_slice(&tag);
        debug_assert_eq!(tag.len(), TAG_LEN);
        let size = (out.len() - datagram.start) as u16;
        let fate = if datagram.eliciting { Fate::InFlight } else { Fate::Unwatched };
        let mut packet = SentPacket::new(self.now, size, fate);
        packet.mtu_probe = datagram.mtu_probe;
        packet.app_limited = path.is_underused(self.now);
        let first = datagram.eliciting && !path.sent.any_in_flight();
        path.on_sent(packet, datagram.frames, paced, self.now);
        if first {
            self.paths.note_losses_of(datagram.path, self.timers);
        }
        true
    }

    /// The datagram isn't sent after all.
    pub fn discard(&mut self, datagram: Datagram) {
        self.paths[datagram.path].sent.pop_frames(datagram.frames);
        self.out.truncate(datagram.start);
    }
}
