//! The edge for packets that come from the peer: authenticated, yet perhaps
//! hostile. What passes can be handed to the kernel with its offloads.

use crate::checksum::sum;
use crate::headers::{Headers, Ip, IpVersion, Layer, be16};
use crate::packet::{Checksum, Offload, SegmentationKind};
use crate::segment::{SegmentError, Segments};
use std::net::IpAddr;

/// Checks a packet and its offloads against each other.
///
/// On [`Layer::L3`] it must be an IP packet of exactly the length its header
/// says, with a right IPv4 header checksum. On [`Layer::L2`] any frame passes
/// that asks for no offloads: what is inside is between the hosts. Offloads are
/// held to what Linux accepts from a device (`virtio_net_hdr_to_skb`).
///
/// # Errors
/// The first thing that is wrong: too long, no such packet or frame, another length or header
/// checksum than it should have, or offloads that don't fit the headers.
pub fn check(bytes: &[u8], offload: Offload, layer: Layer) -> Result<Checked, Malformed> {
    if bytes.len() > MAX_LEN {
        return Err(Malformed::TooLong);
    }
    let headers = Headers::parse(bytes, layer);
    let addresses = match layer {
        Layer::L3 => {
            let ip = headers.ip.as_ref().ok_or(Malformed::NotIp)?;
            check_ip_header(bytes, ip)?;
            Addresses::Ip { src: ip.src, dst: ip.dst }
        }
        Layer::L2 => {
            let ethernet = headers.ethernet.as_ref().ok_or(Malformed::NotEthernet)?;
            Addresses::Ethernet { src: ethernet.src, dst: ethernet.dst }
        }
    };
    check_checksum(bytes, offload.checksum, &headers)?;
    if offload.segmentation.is_some() {
        check_segmentation(bytes, offload, layer, &headers)?;
    }
    Ok(Checked { headers, addresses })
}

/// What is known of a packet that passed [`check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Where its headers are.
    pub headers: Headers,
    /// Between whom it goes, for cryptokey routing or the bridge table.
    pub addresses: Addresses,
}

/// Between whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// On [`Layer::L3`].
    Ip {
        /// Source.
        src: IpAddr,
        /// Destination.
        dst: IpAddr,
    },
    /// On [`Layer::L2`].
    Ethernet {
        /// Source.
        src: [u8; 6],
        /// Destination.
        dst: [u8; 6],
    },
}

/// Why a packet must not reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No whole IPv4 or IPv6 header.
    #[error("not an IP packet")]
    NotIp,
    /// No whole Ethernet header.
    #[error("not an Ethernet frame")]
    NotEthernet,
    /// Longer than IP in Ethernet can be.
    #[error("longer than any packet")]
    TooLong,
    /// The IP header's length is not that of the packet.
    #[error("the IP header says another length")]
    IpLength,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    HeaderChecksum,
    /// A partial checksum that starts in front of the transport header, or
    /// whose field is outside of the packet.
    #[error("impossible partial checksum")]
    Checksum,
    /// The segmentation does not fit the headers.
    #[error("{0}")]
    Segmentation(#[from] SegmentError),
    /// One segment only, too many, too small, or of a size that is special in
    /// the kernel.
    #[error("implausible segment size")]
    SegmentSize,
    /// The UDP header of a super-packet says another length.
    #[error("the UDP header says another length")]
    UdpLength,
}

/// An IPv6 packet of the largest payload behind Ethernet with four tags.
const MAX_LEN: usize = 14 + 16 + 40 + 65535;
/// `UDP_MAX_SEGMENTS` of Linux; 64 before Linux 6.9.
const MAX_UDP_SEGMENTS: usize = 128;
/// `TCP_MIN_GSO_SIZE` of Linux: the smallest MSS without its options.
const MIN_TCP_SEGMENT: u16 = 8;
/// `GSO_BY_FRAGS` of Linux: this size has another meaning.
const SPECIAL_SEGMENT: u16 = 0xffff;

fn check_ip_header(bytes: &[u8], ip: &Ip) -> Result<(), Malformed> {
    let field = |at| be16(bytes, ip.start + at).map(usize::from).ok_or(Malformed::NotIp);
    let len = match ip.version {
        IpVersion::V4 => {
            let header = bytes.get(ip.start..ip.transport).ok_or(Malformed::NotIp)?;
            if sum(header) != 0xffff {
                return Err(Malformed::HeaderChecksum);
            }
            field(2)?
        }
        IpVersion::V6 => 40 + field(4)?,
    };
    if len == bytes.len() - ip.start { Ok(()) } else { Err(Malformed::IpLength) }
}

fn check_checksum(bytes: &[u8], checksum: Checksum, headers: &Headers) -> Result<(), Malformed> {
    let Checksum::Partial { start, offset } = checksum else { return Ok(()) };
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    let transport = headers.ip.as_ref().ok_or(Malformed::Checksum)?.transport;
    if start < transport || field + 2 > bytes.len() {
        return Err(Malformed::Checksum);
    }
    Ok(())
}

fn check_segmentation(
    bytes: &[u8],
    offload: Offload,
    layer: Layer,
    headers: &Headers,
) -> Result<(), Malformed> {
    let segments = Segments::of(bytes, bytes.len(), offload, layer)?;
    let segmentation = offload.segmentation.ok_or(SegmentError::NotSuperPacket)?;
    let ip = headers.ip.as_ref().ok_or(Malformed::NotIp)?;
    check_ip_header(bytes, ip)?;
    if !segmentation.ticks.is_empty() {
        return Err(SegmentError::Ticks.into());
    }
    let size = segmentation.segment_size.get();
    let plausible = segments.count() > 1
        && size != SPECIAL_SEGMENT
        && match segmentation.kind {
            SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => size >= MIN_TCP_SEGMENT,
            SegmentationKind::Udp => segments.count() <= MAX_UDP_SEGMENTS,
        };
    if !plausible {
        return Err(Malformed::SegmentSize);
    }
    if segmentation.kind == SegmentationKind::Udp
        && be16(bytes, ip.transport + 4).map(usize::from) != Some(bytes.len() - ip.transport)
    {
        return Err(Malformed::UdpLength);
    }
    Ok(())
}
