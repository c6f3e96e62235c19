use crate::build::{ACK, CWR, FIN, PSH, Spec, Transport, any_spec};
use braid_inner::{
    Checksum, InnerPacket, Layer, Offload, SegmentError, Segmentation, Segments,
    drop_first_segment, segment_count, split_all,
};
use proptest::prelude::*;
use std::ops::Range;

#[test]
fn flags_stay_where_they_belong() {
    let spec = Spec::tcp(ACK | FIN | PSH | CWR, vec![7; 2500]);
    let flags: Vec<u8> = split_all(&spec.super_packet(1000), Layer::L3)
        .unwrap()
        .iter()
        .map(|p| p.bytes[33])
        .collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK | FIN | PSH]);
}

#[test]
fn a_single_packet_is_one_segment() {
    let packet = Spec::tcp(ACK, vec![1; 100]).packet();
    assert_eq!(segment_count(&packet), 1);
    assert_eq!(split_all(&packet, Layer::L3).unwrap(), std::slice::from_ref(&packet));
    let mut same = packet.clone();
    assert!(!drop_first_segment(&mut same, Layer::L3));
    assert_eq!(same, packet);
    let of = Segments::of(&packet.bytes, packet.bytes.len(), packet.offload, Layer::L3);
    assert_eq!(of, Err(SegmentError::NotSuperPacket));
}

#[test]
fn what_does_not_fit_the_headers_is_refused() {
    let spec = Spec::tcp(ACK, vec![1; 5000]);
    let good = spec.super_packet(1000);
    let of = |packet: &InnerPacket| {
        Segments::of(&packet.bytes, packet.bytes.len(), packet.offload, Layer::L3)
    };
    assert!(of(&good).is_ok());
    let refused = |expected: SegmentError, change: &dyn Fn(&mut InnerPacket, &mut Segmentation)| {
        let mut packet = good.clone();
        let mut segmentation = packet.offload.segmentation.unwrap();
        change(&mut packet, &mut segmentation);
        packet.offload.segmentation = Some(segmentation);
        assert_eq!(of(&packet), Err(expected));
        assert!(split_all(&packet, Layer::L3).is_err());
    };
    let other_kind = Spec::udp(vec![]).kind();
    refused(SegmentError::Headers, &|_, segmentation| segmentation.header_len = 41);
    refused(SegmentError::Headers, &|_, segmentation| segmentation.header_len = u16::MAX);
    refused(SegmentError::Headers, &|_, segmentation| segmentation.kind = other_kind);
    refused(SegmentError::Headers, &|packet, _| packet.bytes[6] = 0x20);
    refused(SegmentError::Headers, &|packet, _| packet.bytes[9] = 17);
    refused(SegmentError::Headers, &|packet, _| packet.bytes[32] = 0x10);
    refused(SegmentError::Headers, &|packet, _| packet.bytes.truncate(30));
    refused(SegmentError::Checksum, &|packet, _| packet.offload.checksum = Checksum::Complete);
    refused(SegmentError::Checksum, &|packet, _| {
        packet.offload.checksum = Checksum::Partial { start: 20, offset: 6 };
    });
    refused(SegmentError::Length, &|packet, _| packet.bytes.resize(70000, 0));
}

#[test]
fn a_wrong_payload_or_range_leaves_the_output_alone() {
    let packet = Spec::tcp(ACK, vec![1; 2500]).super_packet(1000);
    let bytes = &packet.bytes;
    let segments = Segments::of(bytes, bytes.len(), packet.offload, Layer::L3).unwrap();
    let mut out = vec![9];
    let empty: Range<usize> = 1..1;
    for (payload, range) in [
        (&bytes[40..1040], 0..2),
        (&bytes[40..1041], 0..1),
        (&bytes[40..40], empty),
        (&bytes[2040..2540], 2..4),
        (&bytes[40..], 0..usize::MAX),
    ] {
        assert_eq!(segments.extract(bytes, payload, range, &mut out), Err(SegmentError::Range));
    }
    let short = segments.extract(&bytes[..39], &bytes[40..1040], 0..1, &mut out);
    assert_eq!(short, Err(SegmentError::Headers));
    assert_eq!(out, [9]);
}

#[test]
fn the_segmentation_of_a_fresh_packet_has_the_true_header_length() {
    let spec = Spec::tcp(ACK, vec![1; 2500]);
    let bytes = spec.partial_bytes();
    let found = Segmentation::of(&bytes, Layer::L3, spec.kind(), 1000, false);
    assert_eq!(found, spec.super_packet(1000).offload.segmentation);
    assert_eq!(Segmentation::of(&bytes, Layer::L3, spec.kind(), 2500, false), None);
    assert_eq!(Segmentation::of(&bytes, Layer::L3, spec.kind(), 0, false), None);
    assert_eq!(Segmentation::of(&bytes[..30], Layer::L3, spec.kind(), 10, false), None);
}

/// Segments `range` of the packet, cut from no more than the bytes needed.
fn extract(packet: &InnerPacket, layer: Layer, range: Range<usize>) -> InnerPacket {
    let header = &packet.bytes[..packet.offload.segmentation.unwrap().header_len.into()];
    let segments = Segments::of(header, packet.bytes.len(), packet.offload, layer).unwrap();
    let payload = &packet.bytes[segments.payload(range.clone()).unwrap()];
    let mut bytes = Vec::new();
    let offload = segments.extract(header, payload, range, &mut bytes).unwrap();
    InnerPacket { bytes, offload }
}

fn model(segments: &[Spec]) -> Vec<InnerPacket> {
    segments.iter().map(Spec::packet).collect()
}

proptest! {
    #[test]
    fn splits_into_what_the_sender_would_have_sent(spec in any_spec(1..6000), size in 20..1500u16) {
        let packet = spec.super_packet(size);
        let expected = model(&spec.segments(size));
        prop_assert_eq!(segment_count(&packet), expected.len());
        prop_assert_eq!(split_all(&packet, spec.layer()).unwrap(), expected);
    }

    #[test]
    fn every_range_stands_alone(spec in any_spec(1..1200), size in 100..500u16) {
        let packet = spec.super_packet(size);
        let expected = spec.segments(size);
        for start in 0..expected.len() {
            for end in start + 1..=expected.len() {
                let piece = extract(&packet, spec.layer(), start..end);
                prop_assert_eq!(piece.offload.segmentation.is_some(), end - start > 1);
                let cut = split_all(&piece, spec.layer()).unwrap();
                prop_assert_eq!(cut, model(&expected[start..end]));
                // And the whole header is exactly that of a smaller super-packet.
                let mut whole = expected[start].clone();
                whole.payload = expected[start..end].iter().flat_map(|s| s.payload.clone()).collect();
                if let (Transport::Tcp { flags, .. }, Transport::Tcp { flags: last, .. }) =
                    (&mut whole.transport, &expected[end - 1].transport)
                {
                    *flags |= last;
                }
                if end - start > 1 {
                    let mut like = whole.super_packet(size);
                    equal_zeros(&piece, &mut like, &spec);
                    prop_assert_eq!(piece, like);
                }
            }
        }
    }

    #[test]
    fn pieces_of_pieces_are_the_same_pieces(spec in any_spec(2000..4000)) {
        let packet = spec.super_packet(300);
        let middle = extract(&packet, spec.layer(), 1..6);
        let twice = extract(&middle, spec.layer(), 2..4);
        let once = extract(&packet, spec.layer(), 3..5);
        let cut = |packet| split_all(packet, spec.layer()).unwrap();
        prop_assert_eq!(cut(&twice), cut(&once));
    }

    #[test]
    fn drops_the_first_segment_only(spec in any_spec(1..4000), size in 100..1500u16) {
        let mut packet = spec.super_packet(size);
        let before = packet.clone();
        let mut expected = spec.segments(size);
        let dropped = drop_first_segment(&mut packet, spec.layer());
        prop_assert_eq!(dropped, expected.len() > 1);
        if dropped {
            expected.remove(0);
            prop_assert_eq!(split_all(&packet, spec.layer()).unwrap(), model(&expected));
        } else {
            prop_assert_eq!(packet, before);
        }
    }

    #[test]
    fn finds_the_segments_that_are_whole(
        spec in any_spec(1..4000), size in 100..1500u16, from in 0..5000usize, to in 0..5000usize,
    ) {
        let packet = spec.super_packet(size);
        let bytes = &packet.bytes;
        let segments = Segments::of(bytes, bytes.len(), packet.offload, spec.layer()).unwrap();
        let whole: Vec<usize> = (0..segments.count())
            .filter(|&index| {
                let payload = segments.payload(index..index + 1).unwrap();
                from <= payload.start && payload.end <= to
            })
            .collect();
        prop_assert_eq!(segments.whole_within(from..to).collect::<Vec<_>>(), whole);
    }
}

/// The pseudo-header sums 0 and 0xffff are one number; take ours for the
/// model's.
fn equal_zeros(piece: &InnerPacket, like: &mut InnerPacket, spec: &Spec) {
    let at = spec.transport_start() + spec.checksum_offset();
    let zero = |packet: &InnerPacket| matches!(packet.bytes[at..at + 2], [0, 0] | [0xff, 0xff]);
    if zero(piece) && zero(like) {
        like.bytes[at..at + 2].copy_from_slice(&piece.bytes[at..at + 2]);
    }
}

#[test]
fn an_offload_without_segmentation_has_nothing_to_cut() {
    let offload = Offload::default();
    assert_eq!(Segments::of(&[], 0, offload, Layer::L2), Err(SegmentError::NotSuperPacket));
}
