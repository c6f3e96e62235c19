//! The header before each packet: `struct virtio_net_hdr` in the machine's
//! byte order (virtio 1.2, section 5.1.6; linux/virtio_net.h).

use braid_inner::{Checksum, Offload, Segmentation, SegmentationKind, Ticks};
use std::num::NonZeroU16;

/// Bytes of the header (the form without `num_buffers`).
pub(super) const HEADER_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

const UDP_HEADER_LEN: u16 = 8;
/// Where the checksum is in a TCP and in a UDP header.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
/// Offset of the byte whose upper half has TCP's header length in words.
const TCP_DATA_OFFSET: u16 = 12;

/// Reads the header of `packet`; `None` when the two don't match.
pub(super) fn decode(header: &[u8; HEADER_LEN], packet: &[u8]) -> Option<Offload> {
    let [flags, gso, _, _, size_0, size_1, start_0, start_1, offset_0, offset_1] = *header;
    let start = u16::from_ne_bytes([start_0, start_1]);
    let offset = u16::from_ne_bytes([offset_0, offset_1]);
    let checksum = if flags & NEEDS_CHECKSUM == 0 {
        Checksum::Complete
    } else {
        let end = usize::from(start) + usize::from(offset) + 2;
        (end <= packet.len()).then_some(Checksum::Partial { start, offset })?
    };
    let kind = match gso & !GSO_ECN {
        GSO_NONE => return Some(Offload { checksum, segmentation: None }),
        GSO_TCP_V4 => SegmentationKind::TcpV4,
        GSO_TCP_V6 => SegmentationKind::TcpV6,
        GSO_UDP => SegmentationKind::Udp,
        _ => return None,
    };
    if checksum == Checksum::Complete {
        return None;
    }
    let segment_size = NonZeroU16::new(u16::from_ne_bytes([size_0, size_1]))?;
    let header_len = header_len(kind, start, offset, packet)?;
    let ecn = gso & GSO_ECN != 0;
    let segmentation =
        Some(Segmentation { kind, ecn, header_len, segment_size, ticks: Ticks::NONE });
    Some(Offload { checksum, segmentation })
}

/// Writes the header that states what is left to do.
pub(super) fn encode(offload: &Offload) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    if let Checksum::Partial { start, offset } = offload.checksum {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    if let Some(segmentation) = offload.segmentation {
        let kind = match segmentation.kind {
            SegmentationKind::TcpV4 => GSO_TCP_V4,
            SegmentationKind::TcpV6 => GSO_TCP_V6,
            SegmentationKind::Udp => GSO_UDP,
        };
        header[1] = if segmentation.ecn { kind | GSO_ECN } else { kind };
        header[2..4].copy_from_slice(&segmentation.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&segmentation.segment_size.get().to_ne_bytes());
    }
    header
}

/// All headers' length. The kernel's own `hdr_len` is only a hint (it can be as long as the
/// packet's linear part), so the length is computed from the transport header, which starts where
/// the checksum does.
fn header_len(kind: SegmentationKind, start: u16, offset: u16, packet: &[u8]) -> Option<u16> {
    let len = match kind {
        SegmentationKind::TcpV4 | SegmentationKind::TcpV6 if offset == TCP_CHECKSUM => {
            let at = usize::from(start.checked_add(TCP_DATA_OFFSET)?);
            let words = packet.get(at)? >> 4;
            (words >= 5).then_some(u16::from(words) * 4)?
        }
        SegmentationKind::Udp if offset == UDP_CHECKSUM => UDP_HEADER_LEN,
        _ => return None,
    };
    let len = start.checked_add(len)?;
    (usize::from(len) <= packet.len()).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp_super_packet() -> (Offload, Vec<u8>) {
        let mut packet = vec![0; 20 + 32 + 3000];
        packet[0] = 0x45;
        packet[20 + 12] = 8 << 4;
        let offload = Offload {
            checksum: Checksum::Partial { start: 20, offset: 16 },
            segmentation: Some(Segmentation {
                kind: SegmentationKind::TcpV4,
                ecn: true,
                header_len: 52,
                segment_size: NonZeroU16::new(1448).unwrap(),
                ticks: Ticks::NONE,
            }),
        };
        (offload, packet)
    }

    #[test]
    fn a_header_says_what_was_written() {
        let (offload, packet) = tcp_super_packet();
        assert_eq!(decode(&encode(&offload), &packet), Some(offload));
        assert_eq!(decode(&encode(&Offload::default()), &[]), Some(Offload::default()));
    }

    #[test]
    fn the_kernels_hint_of_the_header_length_is_not_believed() {
        let (offload, packet) = tcp_super_packet();
        let mut header = encode(&offload);
        header[2..4].copy_from_slice(&2000_u16.to_ne_bytes());
        assert_eq!(decode(&header, &packet), Some(offload));
    }

    #[test]
    fn headers_that_point_outside_the_packet_are_refused() {
        let (offload, packet) = tcp_super_packet();
        let header = encode(&offload);
        assert_eq!(decode(&header, &packet[..37]), None, "checksum outside");
        assert_eq!(decode(&header, &packet[..51]), None, "options outside");
        let mut sizeless = header;
        sizeless[4..6].fill(0);
        assert_eq!(decode(&sizeless, &packet), None, "segments of no size");
        let mut unknown = header;
        unknown[1] = 3;
        assert_eq!(decode(&unknown, &packet), None, "UFO was never asked for");
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(header: [u8; HEADER_LEN], packet: Vec<u8>) {
            if let Some(offload) = decode(&header, &packet) {
                if let Some(segmentation) = offload.segmentation {
                    prop_assert!(usize::from(segmentation.header_len) <= packet.len());
                }
                prop_assert_eq!(decode(&encode(&offload), &packet), Some(offload));
            }
        }
    }
}
