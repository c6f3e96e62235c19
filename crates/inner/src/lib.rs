//! Inner packets: what the TUN/TAP device gives and takes. Flow keys, traffic
//! classes, segmentation of super-packets, checksums, ECN marking. Pure.

mod packet;

pub use packet::{Checksum, InnerPacket, Offload, Segmentation, SegmentationKind};
