use crate::integer::{Reader, Sequence, put_u24, put_varint};
use crate::{MAX_PACKET_LEN, Malformed};

/// Most sources that one parity covers.
pub const MAX_SOURCES: usize = 32;

pub(crate) const ERASURE: u8 = 0x05;

/// Names one source chunk of a parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRef {
    /// The chunk's flow.
    pub flow: u16,
    /// The packet's number in it.
    pub sequence: Sequence,
    /// The chunk's offset in the packet.
    pub offset: u32,
    /// Bytes of the chunk as coded.
    pub len: u16,
}

/// Parity over some chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureFrame<'a> {
    /// The chunks covered.
    pub sources: Sources<'a>,
    /// The parity itself.
    pub body: &'a [u8],
}

/// The sources of an [`ErasureFrame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a> {
    bytes: &'a [u8],
    count: u8,
}

impl Sources<'_> {
    /// The sources one by one.
    pub fn iter(&self) -> impl Iterator<Item = SourceRef> {
        let mut reader = Reader(self.bytes);
        (0..self.count).map_while(move |_| parse_source(&mut reader).ok())
    }
}

impl<'a> ErasureFrame<'a> {
    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = reader.u8()?;
        if count == 0 || usize::from(count) > MAX_SOURCES {
            return Err(Malformed::TooLong);
        }
        let start = reader.0;
        for _ in 0..count {
            parse_source(reader)?;
        }
        let bytes = &start[..start.len() - reader.0.len()];
        let len = reader.u16()?;
        let body = reader.bytes(usize::from(len))?;
        Ok(Self { sources: Sources { bytes, count }, body })
    }

    /// Appends a frame. There must be 1 to [`MAX_SOURCES`] sources and at most
    /// 65535 bytes of `body`.
    pub fn write(out: &mut Vec<u8>, sources: &[SourceRef], body: &[u8]) {
        debug_assert!(sources.len() <= MAX_SOURCES && body.len() <= usize::from(u16::MAX));
        out.push(ERASURE);
        out.push(sources.len() as u8);
        for source in sources {
            out.extend_from_slice(&source.flow.to_be_bytes());
            put_u24(out, source.sequence);
            put_varint(out, u64::from(source.offset));
            out.extend_from_slice(&source.len.to_be_bytes());
        }
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(body);
    }
}

fn parse_source(reader: &mut Reader<'_>) -> Result<SourceRef, Malformed> {
    let (flow, sequence) = (reader.u16()?, reader.u24()?);
    let offset = u32::try_from(reader.varint()?).map_err(|_| Malformed::TooLong)?;
    if offset as usize >= MAX_PACKET_LEN {
        return Err(Malformed::TooLong);
    }
    Ok(SourceRef { flow, sequence, offset, len: reader.u16()? })
}
