use crate::ack::ACK;
use crate::chunk::CHUNK;
use crate::erasure::ERASURE;
use crate::integer::{Reader, Sequence, put_u24, put_varint};
use crate::limit::LIMIT;
use crate::referrals::REFERRALS;
use crate::treatment::TREATMENT;
use crate::{Ack, Chunk, ErasureFrame, HeaderContext, LimitFrame, ReferralsFrame, TreatmentFrame};
use braid_units::Rate;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ABANDONED: u8 = 0x03;
const PATH_STATUS: u8 = 0x04;
const CLOSE: u8 = 0x06;
const MODE: u8 = 0x07;
const SERVICE: u8 = 0x08;
const PACED: u8 = 0x0c;
const CONTEXT: u8 = 0x0d;
const CONTEXT_KNOWN: u8 = 0x0e;

/// Why bytes aren't what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end in the middle of something.
    #[error("truncated")]
    Truncated,
    /// A kind that doesn't exist.
    #[error("unknown kind of frame")]
    UnknownFrame,
    /// A length or count above its bound.
    #[error("too long")]
    TooLong,
    /// A chunk without data.
    #[error("empty chunk")]
    Empty,
    /// Fields that can't be true together.
    #[error("contradictory fields")]
    Contradiction,
}

/// One frame of a data datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Nothing; asks for an acknowledgement. Probes are pings with padding.
    Ping,
    /// Received packets of a path.
    Ack(Ack<'a>),
    /// Some bytes of an inner packet.
    Chunk(Chunk<'a>),
    /// Packets that won't come any more.
    Abandoned(Abandoned),
    /// What the sender wants done with a path.
    PathStatus(PathStatus),
    /// Parity of some chunks.
    Erasure(ErasureFrame<'a>),
    /// The sender ends the session.
    Close(Close),
    /// The mode that the sender wants in the other direction.
    Mode(TunnelMode),
    /// What the sender says of who serves the home.
    Service(Service),
    /// How the sender wants a flow of the other direction treated.
    Treatment(TreatmentFrame),
    /// Other concentrators by which the home may be served.
    Referrals(ReferralsFrame<'a>),
    /// What the receiver is to send at the most.
    Limit(LimitFrame),
    /// A flow whose sender paces.
    Paced(PacedFlow),
    /// A header that packets of a flow will be told by.
    Context(ContextFrame<'a>),
    /// The sender knows such a header.
    ContextKnown(ContextKnown),
}

/// Packets `sequence ..= sequence + count - 1` of a flow won't be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The flow.
    pub flow: u16,
    /// The first packet given up, low 24 bits.
    pub sequence: Sequence,
    /// How many, at least 1.
    pub count: u8,
}

/// The sender of this flow's data spaces them out in time: acknowledgements of it aren't to be
/// held back. It comes last in a datagram: who doesn't know the frame drops what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedFlow {
    /// The flow, as the sender of this frame numbers it.
    pub flow: u16,
}

/// A header by which the sender means to compress those of a flow, once the receiver has said
/// that it knows it. It comes last in a datagram: who doesn't know the frame drops what is behind
/// it, and never says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextFrame<'a> {
    /// The flow, as the sender numbers it.
    pub flow: u16,
    /// Which of the flow's contexts.
    pub number: u8,
    /// The bytes before a packet's payload, [`HeaderContext::MAX_LEN`] at most.
    pub header: &'a [u8],
}

/// The sender knows this context of a flow of the receiver's. It comes last in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextKnown {
    /// The flow, as the receiver of this frame numbers it.
    pub flow: u16,
    /// Which of its contexts.
    pub number: u8,
}

/// The home's wish for a path, obeyed by the concentrator when it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// The path.
    pub path: u8,
    /// Lower tiers are used first.
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// The path goes away: use it no longer.
    pub abandoned: bool,
    /// Limit of what the receiver of this frame sends by the path; above
    /// [`MAX_VARINT`](crate::MAX_VARINT) bytes a second it's written as that.
    pub cap: Option<Rate>,
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// [`Close::SHUTDOWN`], [`Close::RESTART`], or one that isn't known here.
    pub reason: u8,
}

impl Close {
    /// Orderly; so is what isn't known.
    pub const SHUTDOWN: u8 = 0;
    /// The program begins anew in a moment, at the same address.
    pub const RESTART: u8 = 1;
}

/// A mode's number on the wire.
pub type ModeCode = u8;

/// The mode wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelMode {
    /// See `docs/protocol.md`.
    pub mode: ModeCode,
    /// Hash policy of `balance-xor`.
    pub hash: u8,
}

/// What one end says of who serves the home. It comes last in a datagram: who doesn't know the
/// frame drops what is behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// From a concentrator: how willing it is to serve the home, from 0, very, to
    /// [`Service::DRAINING`]. From a home: [`Service::HERE`],
    /// [`Service::ELSEWHERE`], or [`Service::HERE_AFTER_SILENCE`].
    pub word: u8,
    /// Rises with each change of the word, so that one that is late counts no more.
    pub epoch: u64,
}

impl Service {
    /// The concentrator is about to go: serve the home by another one, if there is one.
    pub const DRAINING: u8 = u8::MAX;
    /// The concentrator serves as many homes as it is for: it takes the home on only where no other
    /// works.
    pub const FULL: u8 = Self::DRAINING - 1;
    /// The home is served by the receiver.
    pub const HERE: u8 = 0;
    /// The home is served by another concentrator.
    pub const ELSEWHERE: u8 = 1;
    /// The home is served by the receiver, since the one before fell silent just now.
    pub const HERE_AFTER_SILENCE: u8 = 2;
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 10;
}

/// Iterates over the frames of an opened datagram; ends after the first error.
pub struct Frames<'a>(Reader<'a>);

impl<'a> Frames<'a> {
    /// Frames of `payload`, the plaintext of a data datagram.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(Reader(payload))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.0.0.first(), None | Some(&PADDING)) {
            return None;
        }
        let frame = Frame::parse(&mut self.0);
        if frame.is_err() {
            self.0 = Reader(&[]);
        }
        Some(frame)
    }
}

impl<'a> Frame<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            kind if kind & CHUNK != 0 => Frame::Chunk(Chunk::parse(kind, reader)?),
            PING => Frame::Ping,
            ACK => Frame::Ack(Ack::parse(reader)?),
            ABANDONED => Frame::Abandoned(Abandoned::parse(reader)?),
            PATH_STATUS => Frame::PathStatus(PathStatus::parse(reader)?),
            ERASURE => Frame::Erasure(ErasureFrame::parse(reader)?),
            CLOSE => Frame::Close(Close { reason: reader.u8()? }),
            MODE => Frame::Mode(TunnelMode { mode: reader.u8()?, hash: reader.u8()? }),
            SERVICE => Frame::Service(Service { word: reader.u8()?, epoch: reader.varint()? }),
            TREATMENT => Frame::Treatment(TreatmentFrame::parse(reader)?),
            REFERRALS => Frame::Referrals(ReferralsFrame::parse(reader)?),
            LIMIT => Frame::Limit(LimitFrame::parse(reader)?),
            PACED => Frame::Paced(PacedFlow { flow: reader.u16()? }),
            CONTEXT => Frame::Context(ContextFrame::parse(reader)?),
            CONTEXT_KNOWN => {
                Frame::ContextKnown(ContextKnown { flow: reader.u16()?, number: reader.u8()? })
            }
            _ => return Err(Malformed::UnknownFrame),
        })
    }

    /// Appends a ping.
    pub fn write_ping(out: &mut Vec<u8>) {
        out.push(PING);
    }
}

impl Abandoned {
    /// Bytes of the frame.
    pub const LEN: usize = 7;

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (flow, sequence, count) = (reader.u16()?, reader.u24()?, reader.u8()?);
        if count == 0 {
            return Err(Malformed::Empty);
        }
        Ok(Self { flow, sequence, count })
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(ABANDONED);
        out.extend_from_slice(&self.flow.to_be_bytes());
        put_u24(out, self.sequence);
        out.push(self.count);
    }
}

impl PacedFlow {
    /// Bytes of the frame.
    pub const LEN: usize = 3;

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(PACED);
        out.extend_from_slice(&self.flow.to_be_bytes());
    }
}

impl<'a> ContextFrame<'a> {
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 5 + HeaderContext::MAX_LEN;

    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (flow, number, len) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let len = usize::from(len);
        if len > HeaderContext::MAX_LEN {
            return Err(Malformed::TooLong);
        }
        Ok(Self { flow, number, header: reader.bytes(len)? })
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let header = &self.header[..self.header.len().min(HeaderContext::MAX_LEN)];
        out.push(CONTEXT);
        out.extend_from_slice(&self.flow.to_be_bytes());
        out.extend_from_slice(&[self.number, header.len() as u8]);
        out.extend_from_slice(header);
    }
}

impl ContextKnown {
    /// Bytes of the frame.
    pub const LEN: usize = 4;

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(CONTEXT_KNOWN);
        out.extend_from_slice(&self.flow.to_be_bytes());
        out.push(self.number);
    }
}

impl PathStatus {
    /// Most bytes of the frame.
    pub const MAX_LEN: usize = 12;

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (path, tier, flags) = (reader.u8()?, reader.u8()?, reader.u8()?);
        if flags & !0x07 != 0 {
            return Err(Malformed::Contradiction);
        }
        let cap =
            if flags & 0x04 != 0 { Some(Rate::from_bytes_per_sec(reader.varint()?)) } else { None };
        Ok(Self { path, tier, standby: flags & 0x01 != 0, abandoned: flags & 0x02 != 0, cap })
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.standby)
            | u8::from(self.abandoned) << 1
            | u8::from(self.cap.is_some()) << 2;
        out.extend_from_slice(&[PATH_STATUS, self.path, self.tier, flags]);
        if let Some(cap) = self.cap {
            put_varint(out, cap.bytes_per_sec());
        }
    }
}

impl Close {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[CLOSE, self.reason]);
    }
}

impl TunnelMode {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[MODE, self.mode, self.hash]);
    }
}

impl Service {
    /// Appends the frame; an epoch above [`MAX_VARINT`](crate::MAX_VARINT) is written as that.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[SERVICE, self.word]);
        put_varint(out, self.epoch);
    }
}
