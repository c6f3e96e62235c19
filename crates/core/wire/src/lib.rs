//! The wire format of the tunnel: parsing and writing only, no behaviour.
//!
//! `docs/protocol.md` describes the bytes. A datagram's first byte says what it
//! is ([`DatagramKind`]); data datagrams have a [`DataHeader`], a sealed
//! sequence of [`Frame`]s and a tag. What comes from the network is hostile:
//! every parser here is total (an error, never a panic) and allocates nothing.

#![forbid(unsafe_code)]

mod ack;
mod chunk;
mod erasure;
mod frame;
mod header;
mod header_context;
mod integer;
mod limit;
mod referrals;
mod treatment;

pub use ack::{ARRIVAL_UNIT_US, Ack, AckRanges, AckWriter, MAX_ACK_RANGES, MAX_ARRIVALS};
pub use chunk::{Chunk, ChunkPosition, Form, MAX_PACKET_LEN};
pub use erasure::{ErasureFrame, MAX_SOURCES, SourceRef, Sources};
pub use frame::{
    Abandoned, Close, ContextFrame, ContextKnown, Frame, Frames, Malformed, ModeCode, PacedFlow,
    PathStatus, Service, TunnelMode,
};
pub use header::{DataHeader, DatagramKind, HEADER_LEN, MAX_SESSION_INDEX, TAG_LEN};
pub use header_context::HeaderContext;
pub use integer::{MAX_VARINT, Sequence, expand, varint_len};
pub use limit::LimitFrame;
pub use referrals::{MAX_ENDPOINTS, MAX_REFERRALS, ReferralEntry, ReferralsFrame};
pub use treatment::TreatmentFrame;
