//! Inner packets: what the TUN/TAP device gives and takes. Flow keys, traffic
//! classes, segmentation of super-packets, checksums, ECN marking. Pure: no
//! I/O, no clock, and bytes from outside never panic.
//!
//! Everything starts from [`Headers::parse`], which walks a packet once.

mod class;
mod flow;
mod headers;
mod packet;

pub use class::{Class, ClassIndex, ClassRule, ClassRules};
pub use flow::{BondingHash, FlowKey, HashKey, Selector, flow_hash, flow_key};
pub use headers::{Ethernet, Fragment, Headers, Ip, IpVersion, Layer};
pub use packet::{Checksum, InnerPacket, Offload, Segmentation, SegmentationKind};
