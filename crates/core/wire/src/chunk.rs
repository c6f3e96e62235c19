use crate::Malformed;
use crate::integer::{Reader, Sequence, put_varint, varint_len};
use braid_inner::{Checksum, Offload, Segmentation, SegmentationKind, Tick, Ticks};
use std::num::NonZeroU16;

/// Longest inner packet: the largest IP packet and an Ethernet header with two
/// VLAN tags.
pub const MAX_PACKET_LEN: usize = 65_535 + 22;

/// No header is longer: kind, flow and number, two lengths, the offload.
const LONGEST_HEADER: usize = 6 + 2 * 8 + 9 + 1 + TICK_LEN * Ticks::MAX;

pub(crate) const CHUNK: u8 = 0x80;
const FIRST: u8 = 0x01;
const LAST: u8 = 0x02;
const TO_END: u8 = 0x04;
const UNORDERED: u8 = 0x08;
const OFFLOAD: u8 = 0x10;
const REALTIME: u8 = 0x20;
const COMPRESSED: u8 = 0x40;

/// Some bytes of an inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The flow that the packet belongs to.
    pub flow: u16,
    /// The packet's number within its flow, low 24 bits.
    pub sequence: Sequence,
    /// Deliver at once; don't wait for earlier packets of the flow.
    pub unordered: bool,
    /// The packet is worthless soon: wait only briefly for what is missing.
    pub realtime: bool,
    /// Where the bytes belong.
    pub position: ChunkPosition,
    /// The bytes.
    pub data: &'a [u8],
}

/// What a packet's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The packet, and what is left to do on it.
    Full(Offload),
    /// The number of a context of its flow, what [`HeaderContext::compress`] made of its header
    /// by that, and its payload; how that is to be cut, if it's a super-packet's.
    ///
    /// [`HeaderContext::compress`]: crate::HeaderContext::compress
    Compressed(Option<Segmentation>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Full(Offload::default())
    }
}

impl From<Offload> for Form {
    fn from(offload: Offload) -> Self {
        Self::Full(offload)
    }
}

impl Form {
    /// What is left to do besides giving it its header again.
    fn offload(self) -> Offload {
        match self {
            Self::Full(offload) => offload,
            Self::Compressed(segmentation) => {
                Offload { segmentation, checksum: Checksum::Complete }
            }
        }
    }
}

/// Where a chunk's bytes lie in the inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPosition {
    /// The whole packet.
    Whole(Form),
    /// The packet's beginning.
    First {
        /// What the packet's bytes are.
        form: Form,
        /// The packet's length in bytes.
        total: u32,
    },
    /// Neither first nor last.
    Middle {
        /// Bytes from the packet's start.
        offset: u32,
    },
    /// The packet's end.
    Last {
        /// Bytes from the packet's start.
        offset: u32,
    },
}

impl ChunkPosition {
    /// Bytes from the packet's start.
    pub fn offset(self) -> u32 {
        match self {
            Self::Whole(_) | Self::First { .. } => 0,
            Self::Middle { offset } | Self::Last { offset } => offset,
        }
    }

    /// The position of `len` bytes at `offset` of a packet of `total` bytes.
    pub fn of(form: impl Into<Form>, total: u32, offset: u32, len: u32) -> Self {
        match (offset == 0, offset.saturating_add(len) >= total) {
            (true, true) => Self::Whole(form.into()),
            (true, false) => Self::First { form: form.into(), total },
            (false, true) => Self::Last { offset },
            (false, false) => Self::Middle { offset },
        }
    }

    /// Bytes of the chunk's header when it isn't the datagram's last frame and
    /// carries `len` bytes.
    pub fn header_len(self, len: u32) -> usize {
        6 + varint_len(u64::from(len))
            + match self {
                Self::Whole(form) => offload_len(form.offload()),
                Self::First { form, total } => {
                    offload_len(form.offload()) + varint_len(u64::from(total))
                }
                Self::Middle { offset } | Self::Last { offset } => varint_len(u64::from(offset)),
            }
    }
}

impl<'a> Chunk<'a> {
    /// Bytes of the header of a middle part at `offset` that is the datagram's
    /// last frame.
    pub fn middle_header_len(offset: u32) -> usize {
        6 + varint_len(u64::from(offset))
    }

    /// Appends the chunk; `to_end` leaves its length out since it's the
    /// datagram's last frame.
    pub fn write(&self, out: &mut Vec<u8>, to_end: bool) {
        let form = match self.position {
            ChunkPosition::Whole(form) | ChunkPosition::First { form, .. } => form,
            _ => Form::default(),
        };
        let offload = form.offload();
        let mut kind = CHUNK;
        kind |= match self.position {
            ChunkPosition::Whole(_) => FIRST | LAST,
            ChunkPosition::First { .. } => FIRST,
            ChunkPosition::Middle { .. } => 0,
            ChunkPosition::Last { .. } => LAST,
        };
        kind |= if to_end { TO_END } else { 0 };
        kind |= if self.unordered { UNORDERED } else { 0 };
        kind |= if self.realtime { REALTIME } else { 0 };
        kind |= if offload != Offload::default() { OFFLOAD } else { 0 };
        kind |= if matches!(form, Form::Compressed(_)) { COMPRESSED } else { 0 };
        out.reserve(LONGEST_HEADER + self.data.len());
        let [high, low] = self.flow.to_be_bytes();
        let [_, first, second, third] = self.sequence.to_be_bytes();
        out.extend_from_slice(&[kind, high, low, first, second, third]);
        match self.position {
            ChunkPosition::Whole(_) => {}
            ChunkPosition::First { total, .. } => put_varint(out, u64::from(total)),
            ChunkPosition::Middle { offset } | ChunkPosition::Last { offset } => {
                put_varint(out, u64::from(offset));
            }
        }
        write_offload(out, offload);
        if !to_end {
            put_varint(out, self.data.len() as u64);
        }
        out.extend_from_slice(self.data);
    }

    /// Appends a middle part at `offset` of a packet as the datagram's last frame,
    /// as [`Self::write`] does: of a large packet nearly all parts are such.
    #[inline]
    pub fn write_middle(
        flow: u16,
        sequence: Sequence,
        realtime: bool,
        offset: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        let kind = CHUNK | TO_END | if realtime { REALTIME } else { 0 };
        out.reserve(LONGEST_HEADER + data.len());
        let [high, low] = flow.to_be_bytes();
        let [_, first, second, third] = sequence.to_be_bytes();
        out.extend_from_slice(&[kind, high, low, first, second, third]);
        put_varint(out, u64::from(offset));
        out.extend_from_slice(data);
    }

    /// What [`Self::write_middle`] wrote, if that is all of a datagram's plaintext.
    /// `None` says nothing: [`Frames`](crate::Frames) tells what else it is.
    #[inline]
    pub fn only_middle(payload: &'a [u8]) -> Option<Self> {
        let (&[kind, f0, f1, s0, s1, s2], rest) = payload.split_first_chunk()?;
        if kind & !REALTIME != CHUNK | TO_END {
            return None;
        }
        let mut reader = Reader(rest);
        let offset = u32::try_from(reader.varint().ok()?).ok()?;
        let data = reader.0;
        let fits = (offset as usize).saturating_add(data.len()) <= MAX_PACKET_LEN;
        (offset > 0 && !data.is_empty() && fits).then(|| Self {
            flow: u16::from_be_bytes([f0, f1]),
            sequence: u32::from_be_bytes([0, s0, s1, s2]),
            unordered: false,
            realtime: kind & REALTIME != 0,
            position: ChunkPosition::Middle { offset },
            data,
        })
    }

    pub(crate) fn parse(kind: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        if kind & COMPRESSED != 0 && kind & FIRST == 0 {
            return Err(Malformed::Contradiction);
        }
        let flow = reader.u16()?;
        let sequence = reader.u24()?;
        let number = match kind & (FIRST | LAST) {
            0b11 => 0,
            _ => u32::try_from(reader.varint()?).map_err(|_| Malformed::TooLong)?,
        };
        let form = match kind & (OFFLOAD | COMPRESSED) {
            0 => Form::default(),
            OFFLOAD => Form::Full(parse_offload(reader)?),
            COMPRESSED => Form::Compressed(None),
            _ => match parse_offload(reader)? {
                Offload { checksum: Checksum::Complete, segmentation } => {
                    Form::Compressed(segmentation)
                }
                _ => return Err(Malformed::Contradiction),
            },
        };
        let len = if kind & TO_END != 0 {
            reader.0.len()
        } else {
            usize::try_from(reader.varint()?).map_err(|_| Malformed::TooLong)?
        };
        let data = reader.bytes(len)?;
        if data.is_empty() {
            return Err(Malformed::Empty);
        }
        let position = match kind & (FIRST | LAST) {
            0b11 => ChunkPosition::Whole(form),
            FIRST => ChunkPosition::First { form, total: number },
            LAST => ChunkPosition::Last { offset: number },
            _ => ChunkPosition::Middle { offset: number },
        };
        if kind & OFFLOAD != 0 && kind & FIRST == 0 {
            return Err(Malformed::Contradiction);
        }
        // Saturating: a usize may have 32 bits.
        let end = (position.offset() as usize).saturating_add(data.len());
        match position {
            _ if end > MAX_PACKET_LEN => return Err(Malformed::TooLong),
            ChunkPosition::First { total, .. } if total as usize > MAX_PACKET_LEN => {
                return Err(Malformed::TooLong);
            }
            ChunkPosition::First { total, .. } if data.len() >= total as usize => {
                return Err(Malformed::Contradiction);
            }
            ChunkPosition::Middle { offset: 0 } | ChunkPosition::Last { offset: 0 } => {
                return Err(Malformed::Contradiction);
            }
            _ => {}
        }
        Ok(Self {
            flow,
            sequence,
            unordered: kind & UNORDERED != 0,
            realtime: kind & REALTIME != 0,
            position,
            data,
        })
    }
}

const KIND_MASK: u8 = 0x03;
const ECN: u8 = 0x04;
const PARTIAL: u8 = 0x08;
const TICKS: u8 = 0x10;
/// Bytes of a tick: segment, value, echo.
const TICK_LEN: usize = 3;

fn offload_len(offload: Offload) -> usize {
    if offload == Offload::default() {
        return 0;
    }
    1 + offload.segmentation.map_or(0, |segmentation| 4 + ticks_len(&segmentation.ticks))
        + if matches!(offload.checksum, Checksum::Partial { .. }) { 4 } else { 0 }
}

fn ticks_len(ticks: &Ticks) -> usize {
    if ticks.is_empty() { 0 } else { 1 + TICK_LEN * ticks.as_slice().len() }
}

fn write_offload(out: &mut Vec<u8>, offload: Offload) {
    if offload == Offload::default() {
        return;
    }
    let mut flags = match offload.segmentation.map(|s| s.kind) {
        None => 0,
        Some(SegmentationKind::TcpV4) => 1,
        Some(SegmentationKind::TcpV6) => 2,
        Some(SegmentationKind::Udp) => 3,
    };
    if offload.segmentation.is_some_and(|s| s.ecn) {
        flags |= ECN;
    }
    let ticks = offload.segmentation.map_or(Ticks::NONE, |segmentation| segmentation.ticks);
    if !ticks.is_empty() {
        flags |= TICKS;
    }
    if matches!(offload.checksum, Checksum::Partial { .. }) {
        flags |= PARTIAL;
    }
    out.push(flags);
    if let Some(segmentation) = offload.segmentation {
        out.extend_from_slice(&segmentation.header_len.to_be_bytes());
        out.extend_from_slice(&segmentation.segment_size.get().to_be_bytes());
    }
    if let Checksum::Partial { start, offset } = offload.checksum {
        out.extend_from_slice(&start.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
    }
    if !ticks.is_empty() {
        out.push(ticks.as_slice().len() as u8);
        for &Tick { segment, value, echo } in ticks.as_slice() {
            out.extend_from_slice(&[segment, value, echo]);
        }
    }
}

fn parse_offload(reader: &mut Reader<'_>) -> Result<Offload, Malformed> {
    let flags = reader.u8()?;
    if flags & !(KIND_MASK | ECN | PARTIAL | TICKS) != 0 || flags == 0 {
        return Err(Malformed::Contradiction);
    }
    let kind = match flags & KIND_MASK {
        0 => None,
        1 => Some(SegmentationKind::TcpV4),
        2 => Some(SegmentationKind::TcpV6),
        _ => Some(SegmentationKind::Udp),
    };
    let mut segmentation = match kind {
        None if flags & (ECN | TICKS) != 0 => return Err(Malformed::Contradiction),
        Some(SegmentationKind::Udp) if flags & TICKS != 0 => return Err(Malformed::Contradiction),
        None => None,
        Some(kind) => Some(Segmentation {
            kind,
            ecn: flags & ECN != 0,
            header_len: reader.u16()?,
            segment_size: NonZeroU16::new(reader.u16()?).ok_or(Malformed::Contradiction)?,
            ticks: Ticks::NONE,
        }),
    };
    let checksum = if flags & PARTIAL != 0 {
        Checksum::Partial { start: reader.u16()?, offset: reader.u16()? }
    } else {
        Checksum::Complete
    };
    if let Some(segmentation) = &mut segmentation
        && flags & TICKS != 0
    {
        segmentation.ticks = parse_ticks(reader)?;
    }
    Ok(Offload { checksum, segmentation })
}

/// At least one; [`Ticks`] knows which may follow each other.
fn parse_ticks(reader: &mut Reader<'_>) -> Result<Ticks, Malformed> {
    let mut ticks = Ticks::NONE;
    for _ in 0..reader.u8()? {
        let tick = Tick { segment: reader.u8()?, value: reader.u8()?, echo: reader.u8()? };
        if !ticks.push(tick) {
            return Err(Malformed::Contradiction);
        }
    }
    if ticks.is_empty() { Err(Malformed::Contradiction) } else { Ok(ticks) }
}
