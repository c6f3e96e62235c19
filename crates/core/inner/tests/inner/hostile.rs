//! Whatever the bytes, nothing panics and nothing is invented.

use crate::build::any_spec;
use braid_inner::*;
use proptest::prelude::*;
use std::num::NonZeroU16;

fn any_offload() -> impl Strategy<Value = Offload> {
    let checksum = prop_oneof![
        Just(Checksum::Complete),
        (0..80u16, 0..20u16).prop_map(|(start, offset)| Checksum::Partial { start, offset }),
        (any::<u16>(), any::<u16>())
            .prop_map(|(start, offset)| Checksum::Partial { start, offset }),
    ];
    let kind = prop_oneof![
        Just(SegmentationKind::TcpV4),
        Just(SegmentationKind::TcpV6),
        Just(SegmentationKind::Udp),
    ];
    let header_len = prop_oneof![20..120u16, any::<u16>()];
    let segmentation = (kind, any::<bool>(), header_len, 1..=u16::MAX).prop_map(
        |(kind, ecn, header_len, size)| Segmentation {
            kind,
            ecn,
            header_len,
            segment_size: NonZeroU16::new(size).unwrap(),
            ticks: Ticks::NONE,
        },
    );
    (checksum, proptest::option::of(segmentation))
        .prop_map(|(checksum, segmentation)| Offload { checksum, segmentation })
}

/// Noise, and packets with some bytes altered and cut off.
fn any_packet() -> impl Strategy<Value = InnerPacket> {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let v4 = noise.clone().prop_map(|mut bytes| {
        bytes.insert(0, 0x45);
        bytes
    });
    let v6 = proptest::collection::vec(prop_oneof![Just(0), Just(60), any::<u8>()], 40..300)
        .prop_map(|mut bytes| {
            bytes[0] = 0x60;
            bytes
        });
    let altered = (
        any_spec(0..300),
        proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
        any::<bool>(),
    )
        .prop_map(|(spec, changes, cut, whole)| {
            let mut bytes = spec.partial_bytes();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let mut packet = spec.super_packet(50);
            packet.bytes = bytes;
            packet
        });
    let random = (prop_oneof![noise, v4, v6], any_offload())
        .prop_map(|(bytes, offload)| InnerPacket { bytes, offload });
    prop_oneof![random, altered]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_packet_panics(packet in any_packet(), l2: bool) {
        let layer = if l2 { Layer::L2 } else { Layer::L3 };
        let bytes = &packet.bytes;
        let headers = Headers::parse(bytes, layer);
        if let Some(ip) = headers.ip {
            prop_assert!(ip.start <= ip.transport);
            prop_assert!(ip.transport <= bytes.len());
            prop_assert!(ip.end <= bytes.len());
        }
        flow_hash(bytes, layer, &HashKey::new([1; 16]));
        for policy in [BondingHash::Layer2, BondingHash::Layer23, BondingHash::Layer34] {
            policy.hash(bytes, &headers);
        }
        Class::of(bytes, &headers);
        ecn(bytes, layer);
        checksum::verify(bytes, layer);

        let len = bytes.len();
        let count = segment_count(&packet);
        prop_assert!(count >= 1);
        if let Ok(segments) = Segments::of(bytes, len, packet.offload, layer) {
            prop_assert_eq!(segments.count(), count);
        }
        let cut = split_all(&packet, layer);
        let checked = check(bytes, packet.offload, layer);
        if checked.is_ok() {
            prop_assert!(cut.is_ok(), "passed the check, yet {:?}", cut);
        }

        let mut changed = packet.clone();
        let marked = set_ce(&mut changed.bytes, layer);
        prop_assert_eq!(changed.bytes.len(), len);
        if !marked {
            prop_assert_eq!(&changed, &packet);
        }
        let mut changed = packet.clone();
        if !clamp_mss(&mut changed, layer, 1000) {
            prop_assert_eq!(&changed, &packet);
        }
        let mut changed = packet.clone();
        let _ = checksum::complete(&mut changed);
        prop_assert_eq!(changed.bytes.len(), len);
        let mut changed = packet.clone();
        if drop_first_segment(&mut changed, layer) {
            prop_assert_eq!(segment_count(&changed), count - 1);
            if checked.is_ok() && count > 2 {
                prop_assert!(check(&changed.bytes, changed.offload, layer).is_ok());
            }
        } else {
            prop_assert_eq!(&changed, &packet);
        }
    }

    #[test]
    fn coalescing_loses_and_invents_no_packet(
        packets in proptest::collection::vec(any_packet(), 0..20), l2: bool,
    ) {
        let layer = if l2 { Layer::L2 } else { Layer::L3 };
        let mut coalescer = Coalescer::new(layer, Checksums::Verify);
        let mut out = Vec::new();
        let segments: usize = packets.iter().map(segment_count).sum();
        for packet in packets {
            coalescer.push(packet, &mut out);
        }
        coalescer.flush(&mut out);
        prop_assert_eq!(out.iter().map(segment_count).sum::<usize>(), segments);
    }
}
