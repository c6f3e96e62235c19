//! Inner packets: what the TUN/TAP device gives and takes. Flow keys, traffic
//! classes, segmentation of super-packets, checksums, ECN marking. Pure: no
//! I/O, no clock, and bytes from outside never panic.
//!
//! Everything starts from [`Headers::parse`], which walks a packet once.

#![forbid(unsafe_code)]

mod ack;
mod challenge;
pub mod checksum;
mod clamp;
mod class;
mod coalesce;
mod ecn;
mod flow;
mod headers;
mod packet;
mod segment;
mod tcp_option;
mod ticks;
mod validate;

pub use ack::PureAck;
pub use challenge::{End, challenge};
pub use clamp::clamp_mss;
pub use class::{Class, ClassIndex, ClassRule, ClassRules};
pub use coalesce::{Checksums, Coalescer, join};
pub use ecn::{Ecn, ecn, set_ce};
pub use flow::{BondingHash, FlowKey, HashKey, Selector, flow_hash, flow_key};
pub use headers::{Ethernet, Fragment, Headers, Ip, IpVersion, Layer};
pub use packet::{Checksum, InnerPacket, Offload, Segmentation, SegmentationKind};
pub use segment::{
    SegmentError, Segments, cut_at_ticks, drop_first_segment, for_each_segment, segment_count,
    split_all,
};
pub use ticks::{Tick, Ticks};
pub use validate::{Addresses, Checked, Malformed, check};
