//! Cutting super-packets (TSO, USO) between their segments.
//!
//! The header fields follow what Linux does in `tcp_gso_segment` and
//! `__udp_gso_segment`, so that a piece is what the kernel itself would have
//! made of these bytes.

use crate::checksum::{add, complete_at, put16, seal_ipv4};
use crate::headers::{Fragment, Headers, Ip, IpVersion, Layer, be16, be32, protocol};
use crate::packet::{Checksum, InnerPacket, Offload, Segmentation, SegmentationKind};
use crate::ticks::{Tick, Ticks, put_forward, timestamps};
use std::num::NonZeroU16;
use std::ops::Range;

/// Segments of a packet: 1 unless it is a super-packet.
pub fn segment_count(packet: &InnerPacket) -> usize {
    packet.offload.segmentation.map_or(1, |segmentation| {
        let payload = packet.bytes.len().saturating_sub(segmentation.header_len.into());
        count(payload, segmentation.segment_size)
    })
}

impl Segmentation {
    /// The segmentation of a packet fresh from the device, whose header length
    /// is read from the packet itself: the `hdr_len` of a virtio-net header is
    /// only a hint, Linux puts the bytes of its linear buffer there. `None`
    /// when there is nothing to cut: not such a packet, or a single segment.
    pub fn of(
        bytes: &[u8],
        layer: Layer,
        kind: SegmentationKind,
        segment_size: u16,
        ecn: bool,
    ) -> Option<Segmentation> {
        let segment_size = NonZeroU16::new(segment_size)?;
        let header_len = Headers::parse(bytes, layer).payload_start(bytes)?;
        let payload = bytes.len() - header_len;
        let header_len = u16::try_from(header_len).ok()?;
        (count(payload, segment_size) > 1).then_some(Segmentation {
            kind,
            ecn,
            header_len,
            segment_size,
            ticks: Ticks::NONE,
        })
    }
}

/// Why bytes cannot be cut as their [`Offload`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// There is no [`Segmentation`].
    #[error("not a super-packet")]
    NotSuperPacket,
    /// The headers aren't those of the [`SegmentationKind`], are cut off, or
    /// don't end at `header_len`.
    #[error("the headers do not match the segmentation")]
    Headers,
    /// The checksum isn't partial, or not the one of this transport.
    #[error("a super-packet needs a partial transport checksum")]
    Checksum,
    /// Shorter than its headers or longer than IP can say.
    #[error("impossible length of a super-packet")]
    Length,
    /// [`Ticks`] of segments that aren't there, or no timestamps to put forward.
    #[error("the ticks are not those of these segments")]
    Ticks,
    /// No such segments, or a payload that is not theirs.
    #[error("the payload is not that of the segments asked for")]
    Range,
}

/// How a super-packet falls into segments: all that is needed to make
/// standalone packets from parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    packet_len: usize,
    ip: Ip,
    segmentation: Segmentation,
    /// Where the checksum field is, bytes from the transport header.
    checksum_offset: u16,
}

impl Segments {
    /// Reads the headers of a super-packet of `packet_len` bytes. Of its bytes
    /// only the headers are needed; `header` may be longer.
    ///
    /// # Errors
    /// [`SegmentError::NotSuperPacket`] when `offload` has no segmentation; else what of headers,
    /// checksum, length or ticks doesn't fit it.
    pub fn of(
        header: &[u8],
        packet_len: usize,
        offload: Offload,
        layer: Layer,
    ) -> Result<Segments, SegmentError> {
        let segmentation = offload.segmentation.ok_or(SegmentError::NotSuperPacket)?;
        let header_len = usize::from(segmentation.header_len);
        let header = header.get(..header_len).ok_or(SegmentError::Headers)?;
        let headers = Headers::parse(header, layer);
        let ip = headers.ip.filter(|ip| ip.fragment == Fragment::Whole);
        let ip = ip.ok_or(SegmentError::Headers)?;
        let (expected_protocol, expected_version, checksum_offset) = match segmentation.kind {
            SegmentationKind::TcpV4 => (protocol::TCP, Some(IpVersion::V4), 16),
            SegmentationKind::TcpV6 => (protocol::TCP, Some(IpVersion::V6), 16),
            SegmentationKind::Udp => (protocol::UDP, None, 6),
        };
        if ip.protocol != expected_protocol
            || expected_version.is_some_and(|version| version != ip.version)
            || headers.payload_start(header) != Some(header_len)
        {
            return Err(SegmentError::Headers);
        }
        let expected = Checksum::Partial { start: ip.transport as u16, offset: checksum_offset };
        if offload.checksum != expected {
            return Err(SegmentError::Checksum);
        }
        let fixed_header = match ip.version {
            IpVersion::V4 => 0,
            IpVersion::V6 => 40,
        };
        if packet_len < header_len || packet_len - ip.start - fixed_header > u16::MAX.into() {
            return Err(SegmentError::Length);
        }
        let segments = Segments { packet_len, ip, segmentation, checksum_offset };
        if let Some(last) = segmentation.ticks.as_slice().last()
            && (segmentation.kind == SegmentationKind::Udp
                || usize::from(last.segment) >= segments.count()
                || header.get(ip.transport..).and_then(timestamps).is_none())
        {
            return Err(SegmentError::Ticks);
        }
        Ok(segments)
    }

    /// Number of segments, at least 1.
    pub fn count(&self) -> usize {
        count(self.packet_len - self.header_len(), self.segmentation.segment_size)
    }

    /// Bytes of the headers, which every piece begins with.
    pub fn header_len(&self) -> usize {
        self.segmentation.header_len.into()
    }

    /// Where in the super-packet the payload of `segments` is, in bytes from
    /// its start. `None` when the range is empty or not within
    /// `0..self.count()`.
    pub fn payload(&self, segments: Range<usize>) -> Option<Range<usize>> {
        if segments.is_empty() || segments.end > self.count() {
            return None;
        }
        let size = usize::from(self.segmentation.segment_size.get());
        let header_len = self.header_len();
        let end = (header_len + segments.end * size).min(self.packet_len);
        Some(header_len + segments.start * size..end)
    }

    /// Runs of segments between [`Ticks`]: all of them when there is none.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let (count, ticks) = (self.count(), self.segmentation.ticks);
        let start = move |run: usize| match run.checked_sub(1) {
            None => 0,
            Some(tick) => ticks.as_slice().get(tick).map_or(count, |tick| tick.segment.into()),
        };
        (0..=ticks.as_slice().len()).map(move |run| start(run)..start(run + 1))
    }

    /// The segments whose payload lies whole within `bytes` of the
    /// super-packet; may be empty.
    pub fn whole_within(&self, bytes: Range<usize>) -> Range<usize> {
        let size = usize::from(self.segmentation.segment_size.get());
        let header_len = self.header_len();
        let start = bytes.start.saturating_sub(header_len).div_ceil(size).min(self.count());
        let end = if bytes.end >= self.packet_len {
            self.count()
        } else {
            bytes.end.saturating_sub(header_len) / size
        };
        start..end.max(start)
    }

    /// Appends to `out` a standalone packet of the given segments: a single
    /// packet or a smaller super-packet; returns what is left to be done on
    /// it. `header` begins with the super-packet's headers, `payload` is that
    /// of the segments and nothing more, see [`Segments::payload`]. `out` is
    /// unchanged after an error.
    ///
    /// Lengths are the piece's own; the IPv4 identification and the TCP
    /// sequence number are those of its first segment; FIN and PSH stay only
    /// with the last segment, CWR only with the first. The checksum stays
    /// partial, with the pseudo-header sum of the new length.
    ///
    /// # Errors
    /// [`SegmentError::Range`] when there are no such segments or `payload` is of another length,
    /// [`SegmentError::Headers`] when `header` is cut off or isn't the super-packet's.
    pub fn extract(
        &self,
        header: &[u8],
        payload: &[u8],
        segments: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Offload, SegmentError> {
        let header = header.get(..self.header_len()).ok_or(SegmentError::Headers)?;
        let place = self.payload(segments.clone()).ok_or(SegmentError::Range)?;
        if payload.len() != place.len() {
            return Err(SegmentError::Range);
        }
        let at = out.len();
        out.reserve(header.len() + payload.len());
        out.extend_from_slice(header);
        out.extend_from_slice(payload);
        let rewritten =
            out.get_mut(at..).and_then(|piece| self.rewrite_header(piece, segments.clone()));
        if rewritten.is_none() {
            out.truncate(at);
            return Err(SegmentError::Headers);
        }
        Ok(self.offload(segments))
    }

    fn offload(&self, segments: Range<usize>) -> Offload {
        let mut segmentation = self.segmentation;
        segmentation.ecn &= segments.start == 0;
        segmentation.ticks = segmentation.ticks.within(segments.start, segments.end);
        Offload {
            checksum: Checksum::Partial {
                start: self.ip.transport as u16,
                offset: self.checksum_offset,
            },
            segmentation: (segments.len() > 1).then_some(segmentation),
        }
    }

    /// Makes the super-packet's header that `piece` begins with the one of
    /// `segments`.
    fn rewrite_header(&self, piece: &mut [u8], segments: Range<usize>) -> Option<()> {
        let transport_len = piece.len().checked_sub(self.ip.transport)? as u16;
        let ip_len = piece.len().checked_sub(self.ip.start)?;
        let (ip_header, transport) = piece
            .get_mut(self.ip.start..)?
            .split_at_mut_checked(self.ip.transport - self.ip.start)?;
        match self.ip.version {
            IpVersion::V4 => {
                put16(ip_header, 2, ip_len as u16)?;
                let id = be16(ip_header, 4)?.wrapping_add(segments.start as u16);
                put16(ip_header, 4, id)?;
                seal_ipv4(ip_header);
            }
            IpVersion::V6 => put16(ip_header, 4, (ip_len - 40) as u16)?,
        }
        match self.segmentation.kind {
            SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => {
                self.rewrite_tcp(transport, segments)?;
            }
            SegmentationKind::Udp => put16(transport, 4, transport_len)?,
        }
        let checksum_offset = self.checksum_offset.into();
        let old_len = (self.packet_len - self.ip.transport) as u16;
        let pseudo = add(add(be16(transport, checksum_offset)?, !old_len), transport_len);
        put16(transport, checksum_offset, pseudo)
    }

    fn rewrite_tcp(&self, tcp: &mut [u8], segments: Range<usize>) -> Option<()> {
        const FIN_PSH: u16 = 0x09;
        const CWR: u16 = 0x80;
        let before = segments.start * usize::from(self.segmentation.segment_size.get());
        let sequence = be32(tcp, 4)?.wrapping_add(before as u32);
        *tcp.get_mut(4..)?.first_chunk_mut()? = sequence.to_be_bytes();
        let mut flags = be16(tcp, 12)?;
        if segments.end < self.count() {
            flags &= !FIN_PSH;
        }
        if segments.start > 0 {
            flags &= !CWR;
        }
        put16(tcp, 12, flags)?;
        match self.segmentation.ticks.at(segments.start) {
            unchanged if unchanged == Tick::default() => Some(()),
            tick => put_forward(tcp, tick),
        }
    }
}

/// Takes the first segment out of a super-packet, as if it were lost in front
/// of it: the cheapest congestion signal to a sender without ECN. `false`, and
/// nothing done, when there is only one segment: drop the packet instead.
pub fn drop_first_segment(packet: &mut InnerPacket, layer: Layer) -> bool {
    let InnerPacket { bytes, offload } = packet;
    let Ok(segments) = Segments::of(bytes, bytes.len(), *offload, layer) else { return false };
    let rest = 1..segments.count();
    let Some(first) = segments.payload(0..1) else { return false };
    if rest.is_empty() {
        return false;
    }
    bytes.drain(first);
    *offload = segments.offload(rest.clone());
    segments.rewrite_header(bytes, rest).is_some()
}

/// Cuts a super-packet at its [`Ticks`] into packets that a device can take,
/// and gives those behind the first run to `take`, the last one first; the
/// first one stays in `packet`. `buffer` gives an empty buffer for so many bytes. What has
/// no ticks stays as it is, and so does what can't be cut, for
/// [`check`](crate::check) to refuse.
pub fn cut_at_ticks(
    packet: &mut InnerPacket,
    layer: Layer,
    mut buffer: impl FnMut(usize) -> Vec<u8>,
    mut take: impl FnMut(InnerPacket),
) {
    let InnerPacket { bytes, offload } = packet;
    if offload.segmentation.is_none_or(|segmentation| segmentation.ticks.is_empty()) {
        return;
    }
    let Ok(segments) = Segments::of(bytes, bytes.len(), *offload, layer) else { return };
    let mut runs = segments.runs();
    let Some(first) = runs.next() else { return };
    for run in runs.rev() {
        let Some(payload) = segments.payload(run.clone()).and_then(|place| bytes.get(place)) else {
            return;
        };
        let mut piece = buffer(segments.header_len() + payload.len());
        piece.clear();
        if let Ok(offload) = segments.extract(bytes, payload, run, &mut piece) {
            take(InnerPacket { bytes: piece, offload });
        }
    }
    let Some(payload) = segments.payload(first.clone()) else { return };
    bytes.truncate(payload.end);
    *offload = segments.offload(first.clone());
    // Its headers were read above, so they can be written.
    segments.rewrite_header(bytes, first);
}

/// Cuts a packet into single ones with complete checksums and gives them to
/// `take` in order, for devices without offloads. A packet that isn't a
/// super-packet is given as it is, its checksum completed. `scratch` is
/// working space to reuse.
///
/// # Errors
/// Those of [`Segments::of`] and [`Segments::extract`]; [`SegmentError::Checksum`] when the
/// checksum's field lies behind the packet's end.
pub fn for_each_segment(
    packet: &InnerPacket,
    layer: Layer,
    scratch: &mut Vec<u8>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), SegmentError> {
    let bytes = &packet.bytes;
    let mut finish = |piece: &mut Vec<u8>, offload: Offload| {
        if let Checksum::Partial { start, offset } = offload.checksum {
            complete_at(piece, start.into(), offset.into()).map_err(|_| SegmentError::Checksum)?;
        }
        take(piece);
        Ok(())
    };
    if packet.offload.segmentation.is_none() {
        scratch.clear();
        scratch.extend_from_slice(bytes);
        return finish(scratch, packet.offload);
    }
    let segments = Segments::of(bytes, bytes.len(), packet.offload, layer)?;
    for index in 0..segments.count() {
        let one = index..index + 1;
        let payload = segments.payload(one.clone()).and_then(|place| bytes.get(place));
        scratch.clear();
        let offload = segments.extract(bytes, payload.ok_or(SegmentError::Range)?, one, scratch)?;
        finish(scratch, offload)?;
    }
    Ok(())
}

/// [`for_each_segment`] into packets of their own.
///
/// # Errors
/// As [`for_each_segment`].
pub fn split_all(packet: &InnerPacket, layer: Layer) -> Result<Vec<InnerPacket>, SegmentError> {
    let mut packets = Vec::with_capacity(segment_count(packet));
    for_each_segment(packet, layer, &mut Vec::new(), |bytes| {
        packets.push(InnerPacket { bytes: bytes.to_vec(), offload: Offload::default() });
    })?;
    Ok(packets)
}

fn count(payload: usize, segment_size: NonZeroU16) -> usize {
    payload.div_ceil(usize::from(segment_size.get())).max(1)
}
