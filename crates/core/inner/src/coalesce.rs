//! Merging packets of one flow into super-packets (what GRO does), so that the
//! exit of the tunnel writes few large packets instead of many small ones.

use crate::checksum::{pseudo_header, put16, seal_ipv4, sum, verify};
use crate::flow::{FlowKey, flow_key};
use crate::headers::{Fragment, Headers, Ip, IpVersion, Layer, be16, be32, protocol};
use crate::packet::{Checksum, InnerPacket, Offload, Segmentation, SegmentationKind};
use crate::ticks::{TIMESTAMPS_LEN, Tick, Ticks, advance, timestamps};
use std::num::NonZeroU16;

/// Merges consecutive packets of a flow. Packets of one flow leave in the order
/// in which they came; between flows the order may change.
///
/// TCP segments are merged when they follow each other in sequence and their
/// headers differ in nothing but the fields that segmentation writes anew; UDP
/// datagrams when they are of one size, the last perhaps smaller. Cutting the
/// result gives the same packets back, except that the IPv4 identification of
/// packets with "don't fragment", which means nothing (RFC 6864), is
/// renumbered. A wrong checksum stays visible: its packet is not merged.
#[derive(Debug)]
pub struct Coalescer {
    layer: Layer,
    checksums: Checksums,
    /// In the order in which they were opened.
    open: Vec<(FlowKey, Train)>,
    room: Vec<Vec<u8>>,
    joined: Vec<Vec<u8>>,
}

/// What is believed of checksums that count as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// They are computed before a packet is merged.
    Verify,
    /// They are known to be right; merging would hide a wrong one.
    Assume,
}

/// Flows merged at the same time.
const MAX_TRAINS: usize = 8;
/// IP packet bytes of a super-packet.
const MAX_IP_LEN: usize = 65535;
/// `UDP_MAX_SEGMENTS` of Linux before 6.9.
const MAX_UDP_SEGMENTS: usize = 64;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

impl Coalescer {
    /// With nothing waiting.
    pub fn new(layer: Layer, checksums: Checksums) -> Coalescer {
        Coalescer {
            layer,
            checksums,
            open: Vec::with_capacity(MAX_TRAINS),
            room: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Lends an empty buffer with room for a super-packet, so that none has to
    /// be allocated. It comes back as a packet's.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        self.room.push(buffer);
    }

    /// A further buffer would be of use.
    pub fn wants_room(&self) -> bool {
        self.room.is_empty()
    }

    /// Buffers of packets that were merged into others since the last call.
    pub fn drain_joined(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.joined.drain(..)
    }

    /// Takes the next packet; packets that no further one can join go to
    /// `out`.
    pub fn push(&mut self, packet: InnerPacket, out: &mut Vec<InnerPacket>) {
        let headers = Headers::parse(&packet.bytes, self.layer);
        let key = flow_key(&packet.bytes, &headers);
        let car = Car::of(&packet, &headers, self.layer, self.checksums);
        if let Some(index) = self.open.iter().position(|(open, _)| *open == key) {
            let joined = car.as_ref().and_then(|car| {
                let (_, train) = self.open.get_mut(index)?;
                train.accepts(&packet.bytes, car, Timestamps::Stay).then(|| {
                    if !train.merged
                        && let Some(room) = self.room.pop()
                    {
                        self.joined.push(train.move_to(room));
                    }
                    train.join(&packet.bytes, car)
                })
            });
            if joined.is_none() || joined == Some(Then::Close) {
                out.push(self.open.remove(index).1.finish());
            }
            if joined.is_some() {
                self.joined.push(packet.bytes);
                return;
            }
        }
        match car {
            Some(car) if !car.closes(car.segment_size) => {
                if self.open.len() == MAX_TRAINS {
                    out.push(self.open.remove(0).1.finish());
                }
                self.open.push((key, Train::new(packet, car)));
            }
            _ => out.push(packet),
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Gives out all that waits; call it when no packet is at hand.
    pub fn flush(&mut self, out: &mut Vec<InnerPacket>) {
        out.extend(self.open.drain(..).map(|(_, train)| train.finish()));
    }
}

/// Appends `next` to `head` if they are segments of one TCP stream, follow each
/// other and would be merged by a [`Coalescer`], or differ besides in their
/// timestamps, which are noted as [`Ticks`]; says whether it did. The sum of
/// both has at most `limit` bytes. Checksums are verified: joining would hide a
/// wrong one.
pub fn join(head: &mut InnerPacket, next: &InnerPacket, layer: Layer, limit: usize) -> bool {
    if head.bytes.len() + next.bytes.len() > limit {
        return false;
    }
    let car = |packet: &InnerPacket| {
        let headers = Headers::parse(&packet.bytes, layer);
        Car::of(packet, &headers, layer, Checksums::Verify)
            .filter(|car| car.kind != SegmentationKind::Udp)
    };
    let (Some(first), Some(car)) = (car(head), car(next)) else { return false };
    if first.closes(first.segment_size) {
        return false;
    }
    let ticks = head.offload.segmentation.map_or(Ticks::NONE, |found| found.ticks);
    let packet = InnerPacket { bytes: std::mem::take(&mut head.bytes), offload: head.offload };
    let mut train = Train { packet, first, count: first.count, merged: false, ticks };
    let joins = train.accepts(&next.bytes, &car, Timestamps::Advance);
    if joins {
        train.join(&next.bytes, &car);
    }
    *head = train.finish();
    joins
}

/// What can be merged: a TCP segment or UDP datagram, or a super-packet.
#[derive(Clone, Copy, Debug)]
struct Car {
    ip: Ip,
    kind: SegmentationKind,
    header_len: usize,
    payload_len: usize,
    /// The payload length when it is a single packet.
    segment_size: NonZeroU16,
    count: usize,
    /// TCP only, else 0.
    sequence: u32,
    /// TCP only, else 0.
    flags: u8,
}

impl Car {
    fn of(
        packet: &InnerPacket,
        headers: &Headers,
        layer: Layer,
        checksums: Checksums,
    ) -> Option<Car> {
        let InnerPacket { bytes, offload } = packet;
        let ip = headers.ip.filter(|ip| ip.fragment == Fragment::Whole && ip.end == bytes.len())?;
        let header_len = headers.payload_start(bytes)?;
        let payload_len = bytes.len() - header_len;
        let (kind, checksum_offset) = match (ip.protocol, ip.version) {
            (protocol::TCP, IpVersion::V4) => (SegmentationKind::TcpV4, 16),
            (protocol::TCP, IpVersion::V6) => (SegmentationKind::TcpV6, 16),
            _ => (SegmentationKind::Udp, 6),
        };
        let plain_ip = match ip.version {
            IpVersion::V4 => {
                ip.transport == ip.start + 20
                    && sum(bytes.get(ip.start..ip.transport)?) == 0xffff
                    && usize::from(be16(bytes, ip.start + 2)?) == bytes.len() - ip.start
            }
            IpVersion::V6 => {
                ip.transport == ip.start + 40
                    && usize::from(be16(bytes, ip.start + 4)?) == bytes.len() - ip.transport
            }
        };
        let plain_transport = match kind {
            SegmentationKind::Udp => {
                usize::from(be16(bytes, ip.transport + 4)?) == bytes.len() - ip.transport
            }
            _ => bytes.get(ip.transport + 13)? & (ACK | SYN | RST | URG) == ACK,
        };
        if !plain_ip || !plain_transport {
            return None;
        }
        let sound = match (offload.checksum, checksums) {
            (Checksum::Partial { start, offset }, _) => {
                usize::from(start) == ip.transport && offset == checksum_offset
            }
            (Checksum::Complete, Checksums::Verify) => verify(bytes, layer) == Some(true),
            // A UDP datagram without a checksum must not get one.
            (Checksum::Complete, Checksums::Assume) => {
                kind != SegmentationKind::Udp || be16(bytes, ip.transport + 6)? != 0
            }
        };
        if !sound {
            return None;
        }
        let single = NonZeroU16::new(u16::try_from(payload_len).ok()?)?;
        let (segment_size, count) = match offload.segmentation {
            None => (single, 1),
            Some(found)
                if found.kind == kind
                    && usize::from(found.header_len) == header_len
                    && offload.checksum != Checksum::Complete =>
            {
                let size = usize::from(found.segment_size.get());
                (found.segment_size, payload_len.div_ceil(size))
            }
            Some(_) => return None,
        };
        let (sequence, flags) = match kind {
            SegmentationKind::Udp => (0, 0),
            _ => (be32(bytes, ip.transport + 4)?, *bytes.get(ip.transport + 13)?),
        };
        Some(Car { ip, kind, header_len, payload_len, segment_size, count, sequence, flags })
    }

    /// Whether nothing may follow it in a train of that segment size.
    fn closes(&self, segment_size: NonZeroU16) -> bool {
        self.flags & (FIN | PSH) != 0
            || !self.payload_len.is_multiple_of(usize::from(segment_size.get()))
            || self.kind == SegmentationKind::Udp && self.count >= MAX_UDP_SEGMENTS
    }
}

/// A super-packet in the making. While it is a train, its last segment is full.
#[derive(Debug)]
struct Train {
    packet: InnerPacket,
    /// As the first packet was.
    first: Car,
    /// Segments.
    count: usize,
    merged: bool,
    /// Where a packet with other timestamps was joined.
    ticks: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Wait,
    Close,
}

/// Those of TCP in a packet that joins others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timestamps {
    /// They are the same, as a device wants it.
    Stay,
    /// They may be later, which is noted.
    Advance,
}

impl Train {
    fn new(packet: InnerPacket, first: Car) -> Train {
        Train { packet, first, count: first.count, merged: false, ticks: Ticks::NONE }
    }

    /// Whether it can join; a tick on the way is noted.
    fn accepts(&mut self, bytes: &[u8], car: &Car, timestamps: Timestamps) -> bool {
        let payload_len = self.packet.bytes.len() - self.first.header_len;
        let size_fits = match car.count {
            1 => car.segment_size <= self.first.segment_size,
            _ => car.segment_size == self.first.segment_size,
        };
        let room = match car.kind {
            SegmentationKind::Udp => self.count + car.count <= MAX_UDP_SEGMENTS,
            _ => car.sequence == self.first.sequence.wrapping_add(payload_len as u32),
        };
        size_fits
            && room
            && self.packet.bytes.len() - self.first.ip.start + car.payload_len <= MAX_IP_LEN
            && car.flags & CWR == 0
            && match timestamps {
                Timestamps::Stay => self.same_headers(bytes, car, car.header_len) == Some(true),
                Timestamps::Advance => self.advances(bytes, car) == Some(true),
            }
    }

    /// As [`Self::same_headers`], but the timestamps may have gone on.
    fn advances(&mut self, bytes: &[u8], car: &Car) -> Option<bool> {
        let transport = car.ip.transport;
        let Some(at) = bytes.get(transport..car.header_len).and_then(timestamps) else {
            return self.same_headers(bytes, car, car.header_len);
        };
        let at = transport + at;
        if !self.same_headers(bytes, car, at)? {
            return Some(false);
        }
        let (value, echo) = advance(&self.packet.bytes, bytes, at)?;
        let last = self.ticks.at(usize::MAX);
        let segment = u8::try_from(self.count).ok()?;
        Some(
            (value, echo) == (last.value, last.echo)
                || self.ticks.push(Tick { segment, value, echo }),
        )
    }

    /// Whether the headers differ only where segmentation writes, and in the
    /// timestamps where these start at `stamped`.
    fn same_headers(&self, bytes: &[u8], car: &Car, stamped: usize) -> Option<bool> {
        let (ours, theirs) = (&self.packet.bytes, bytes);
        let Car { ip, kind, header_len, .. } = self.first;
        if car.kind != kind || car.header_len != header_len || car.ip.transport != ip.transport {
            return Some(false);
        }
        let same = |from: usize, to: usize| ours.get(from..to) == theirs.get(from..to);
        let ip_same = match ip.version {
            IpVersion::V4 => {
                const DONT_FRAGMENT: u16 = 0x4000;
                let id = |bytes: &[u8]| be16(bytes, ip.start + 4);
                // All but length, identification, checksum.
                same(0, ip.start + 2)
                    && same(ip.start + 6, ip.start + 10)
                    && same(ip.start + 12, ip.transport)
                    && (be16(ours, ip.start + 6)? & DONT_FRAGMENT != 0
                        || id(ours)?.wrapping_add(self.count as u16) == id(theirs)?)
            }
            IpVersion::V6 => same(0, ip.start + 4) && same(ip.start + 6, ip.transport),
        };
        let at = ip.transport;
        let transport_same = match kind {
            SegmentationKind::Udp => same(at, at + 4),
            // All but sequence number, FIN, PSH, CWR, checksum.
            _ => {
                let differ = ours.get(at + 13)? ^ theirs.get(at + 13)?;
                same(at, at + 4)
                    && same(at + 8, at + 13)
                    && differ & !(FIN | PSH | CWR) == 0
                    && same(at + 14, at + 16)
                    && same(at + 18, stamped)
                    && (stamped == header_len || same(stamped + TIMESTAMPS_LEN, header_len))
            }
        };
        Some(ip_same && transport_same)
    }

    /// Goes on in another buffer; returns the old one.
    fn move_to(&mut self, mut room: Vec<u8>) -> Vec<u8> {
        room.clear();
        room.extend_from_slice(&self.packet.bytes);
        std::mem::replace(&mut self.packet.bytes, room)
    }

    fn join(&mut self, bytes: &[u8], car: &Car) -> Then {
        self.packet.bytes.extend_from_slice(bytes.get(car.header_len..).unwrap_or_default());
        if let Some(flags) = self.packet.bytes.get_mut(self.first.ip.transport + 13)
            && self.first.kind != SegmentationKind::Udp
        {
            *flags |= car.flags & (FIN | PSH);
        }
        self.count += car.count;
        self.merged = true;
        let full = self.first.kind == SegmentationKind::Udp && self.count >= MAX_UDP_SEGMENTS;
        if full || car.closes(self.first.segment_size) { Then::Close } else { Then::Wait }
    }

    fn finish(self) -> InnerPacket {
        let Train { mut packet, first, merged, ticks, .. } = self;
        if merged {
            finish_headers(&mut packet.bytes, &first);
            packet.offload = Offload {
                checksum: Checksum::Partial {
                    start: first.ip.transport as u16,
                    offset: if first.kind == SegmentationKind::Udp { 6 } else { 16 },
                },
                segmentation: Some(Segmentation {
                    kind: first.kind,
                    ecn: first.flags & CWR != 0,
                    header_len: first.header_len as u16,
                    segment_size: first.segment_size,
                    ticks,
                }),
            };
        }
        packet
    }
}

/// Lengths and checksums of the whole.
fn finish_headers(bytes: &mut [u8], first: &Car) -> Option<()> {
    let ip = &first.ip;
    let ip_len = bytes.len() - ip.start;
    let transport_len = bytes.len() - ip.transport;
    match ip.version {
        IpVersion::V4 => {
            put16(bytes, ip.start + 2, ip_len as u16)?;
            seal_ipv4(bytes.get_mut(ip.start..ip.transport)?);
        }
        IpVersion::V6 => put16(bytes, ip.start + 4, transport_len as u16)?,
    }
    let pseudo = pseudo_header(ip.src, ip.dst, ip.protocol, transport_len);
    match first.kind {
        SegmentationKind::Udp => {
            put16(bytes, ip.transport + 4, transport_len as u16)?;
            put16(bytes, ip.transport + 6, pseudo)
        }
        _ => put16(bytes, ip.transport + 16, pseudo),
    }
}
