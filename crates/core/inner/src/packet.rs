use crate::ticks::Ticks;
use std::num::NonZeroU16;

/// A packet as it crosses the TUN/TAP device: an IP packet (L3) or an Ethernet
/// frame (L2), perhaps a super-packet of many segments still to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerPacket {
    /// From the first byte of the IP (or Ethernet) header.
    pub bytes: Vec<u8>,
    /// What is left to be done on it.
    pub offload: Offload,
}

/// Work that the sender's kernel left to the device, as the virtio-net header
/// says it (virtio 1.2, section 5.1.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// State of the transport checksum.
    pub checksum: Checksum,
    /// Present on a super-packet.
    pub segmentation: Option<Segmentation>,
}

/// State of the transport checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing to do.
    #[default]
    Complete,
    /// The field at `start + offset` holds the pseudo-header's sum; the sum of
    /// all bytes from `start` on is still to be added.
    Partial {
        /// Where summing starts, bytes from the packet's first byte.
        start: u16,
        /// Where the checksum is, bytes from `start`.
        offset: u16,
    },
}

/// How a super-packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// The transport and the IP version.
    pub kind: SegmentationKind,
    /// TCP with ECN: CWR only in the first segment.
    pub ecn: bool,
    /// Bytes of all headers before the payload.
    pub header_len: u16,
    /// Payload bytes of each segment but the last.
    pub segment_size: NonZeroU16,
    /// Where the timestamps of TCP change; never on a packet from or to a
    /// device.
    pub ticks: Ticks,
}

/// Transport of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationKind {
    /// TCP over IPv4 (TSO).
    TcpV4,
    /// TCP over IPv6 (TSO).
    TcpV6,
    /// UDP over either (USO).
    Udp,
}
