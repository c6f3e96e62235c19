//! Packets of a stream joined over ticks of its timestamps come apart as they
//! were, whole or in part.

use crate::build::{ACK, CWR, FIN, PSH, Spec, Transport, refuses_to_join};
use braid_inner::*;
use proptest::prelude::*;

const MSS: usize = 1000;

/// A packet of some segments, sent at `value` in answer to `echo`.
fn stamped(spec: &Spec, value: u32, echo: u32) -> Spec {
    let mut spec = spec.clone();
    if let Transport::Tcp { options, .. } = &mut spec.transport {
        *options = [1, 1, 8, 10].into();
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    spec
}

/// Packets of these numbers of segments, each so many ticks after the one before.
fn stream(counts: &[(usize, u8, u8)], v6: bool) -> Vec<InnerPacket> {
    let (mut value, mut echo, mut sent) = (u32::MAX - 3, 7_000_000, 0);
    let mut packets = Vec::new();
    for &(count, later, echo_later) in counts {
        value = value.wrapping_add(later.into());
        echo += u32::from(echo_later);
        let mut spec = Spec::tcp(ACK, (sent..sent + count * MSS).map(|i| (i / 7) as u8).collect());
        spec.v6 = v6;
        spec.df = true;
        spec.id = 0x1234_u16.wrapping_add((sent / MSS) as u16);
        if let Transport::Tcp { seq, .. } = &mut spec.transport {
            *seq = seq.wrapping_add(sent as u32);
        }
        let spec = stamped(&spec, value, echo);
        packets.push(if count > 1 { spec.super_packet(MSS as u16) } else { spec.packet() });
        sent += count * MSS;
    }
    packets
}

/// All that joins the first one, and how many did.
fn joined(packets: &[InnerPacket]) -> (InnerPacket, usize) {
    let mut head = packets[0].clone();
    let joins = |head: &mut InnerPacket, next| join(head, next, Layer::L3, 65_535);
    let count = packets[1..].iter().take_while(|next| joins(&mut head, next)).count();
    (head, 1 + count)
}

fn cut(mut packet: InnerPacket) -> Vec<InnerPacket> {
    let mut pieces = Vec::new();
    cut_at_ticks(&mut packet, Layer::L3, Vec::with_capacity, |piece| pieces.insert(0, piece));
    pieces.insert(0, packet);
    pieces
}

fn single(packets: &[InnerPacket]) -> Vec<InnerPacket> {
    packets.iter().flat_map(|packet| split_all(packet, Layer::L3).unwrap()).collect()
}

proptest! {
    #[test]
    fn what_was_joined_comes_apart_as_it_was(
        counts in prop::collection::vec((1usize..4, 0u8..3, 0u8..3), 1..12),
        v6: bool,
    ) {
        let packets = stream(&counts, v6);
        let (head, count) = joined(&packets);
        let ticks = head.offload.segmentation.map_or(Ticks::NONE, |found| found.ticks);
        // It ended only where no more ticks can be noted.
        prop_assert!(count == packets.len() || ticks.as_slice().len() == Ticks::MAX);
        let original = single(&packets[..count]);
        prop_assert_eq!(&single(std::slice::from_ref(&head)), &original);
        let pieces = cut(head);
        prop_assert_eq!(pieces.len(), 1 + ticks.as_slice().len());
        for piece in &pieces {
            prop_assert!(check(&piece.bytes, piece.offload, Layer::L3).is_ok());
        }
        prop_assert_eq!(single(&pieces), original);
    }

    #[test]
    fn a_part_of_it_comes_apart_as_it_was(
        counts in prop::collection::vec((1usize..4, 0u8..3, 0u8..3), 2..7),
        part: (prop::sample::Index, prop::sample::Index),
    ) {
        let packets = stream(&counts, false);
        let (head, count) = joined(&packets);
        prop_assert_eq!(count, packets.len());
        let segments = Segments::of(&head.bytes, head.bytes.len(), head.offload, Layer::L3).unwrap();
        let start = part.0.index(segments.count());
        let end = start + 1 + part.1.index(segments.count() - start);
        let mut bytes = Vec::new();
        let payload = &head.bytes[segments.payload(start..end).unwrap()];
        let offload = segments.extract(&head.bytes, payload, start..end, &mut bytes).unwrap();
        let pieces = cut(InnerPacket { bytes, offload });
        prop_assert_eq!(single(&pieces), &single(&packets)[start..end]);
    }
}

#[test]
fn what_is_not_a_later_packet_of_the_stream_is_refused() {
    let packets = stream(&[(2, 0, 0), (2, 1, 1), (2, 0, 0)], false);
    // A hole; earlier; stamps that go back.
    refuses_to_join(&packets[0], &packets[2]);
    refuses_to_join(&packets[1], &packets[0]);
    let (mut head, count) = joined(&packets[..2]);
    assert_eq!(count, 2);
    let back = stream(&[(2, 0, 0), (2, 0, 0), (2, 0, 1)], false);
    refuses_to_join(&head, &back[2]);
    // Too late for a tick to say.
    let late = stream(&[(2, 0, 0), (2, 200, 0), (2, 200, 0)], false);
    refuses_to_join(&joined(&late[..2]).0, &late[2]);
    // Other options beside the stamps.
    let mut other = stream(&[(2, 0, 0), (2, 1, 1)], false).remove(1);
    other.bytes[40] = 0;
    refuses_to_join(&packets[0], &other);
    // It goes on after all that.
    assert!(join(&mut head, &packets[2], Layer::L3, 65_535));
    // A device never gets it, and a packet of it closes as any does.
    assert!(check(&head.bytes, head.offload, Layer::L3).is_err());
    let with_flag = |packet: &InnerPacket, flag: u8| {
        let mut packet = packet.clone();
        packet.bytes[33] |= flag;
        packet
    };
    refuses_to_join(&with_flag(&packets[0], FIN), &packets[1]);
    refuses_to_join(&with_flag(&packets[0], PSH), &packets[1]);
    refuses_to_join(&packets[0], &with_flag(&packets[1], CWR));
}

#[test]
fn ticks_that_are_not_those_of_the_segments_are_refused() {
    let (head, _) = joined(&stream(&[(2, 0, 0), (2, 1, 1)], false));
    let with = |segment, kind| {
        let mut wrong = head.clone();
        let mut ticks = Ticks::NONE;
        assert!(ticks.push(Tick { segment, value: 1, echo: 0 }));
        let found = wrong.offload.segmentation.as_mut().unwrap();
        found.ticks = ticks;
        found.kind = kind;
        Segments::of(&wrong.bytes, wrong.bytes.len(), wrong.offload, Layer::L3)
    };
    assert!(with(3, SegmentationKind::TcpV4).is_ok());
    assert_eq!(with(4, SegmentationKind::TcpV4), Err(SegmentError::Ticks));
    let mut bare = head.clone();
    // No timestamps: padding instead.
    bare.bytes[42] = 1;
    bare.bytes[43..52].fill(1);
    let found = Segments::of(&bare.bytes, bare.bytes.len(), bare.offload, Layer::L3);
    assert_eq!(found, Err(SegmentError::Ticks));
    // What can't be cut stays as it is, for `check` to refuse.
    assert_eq!(cut(bare.clone()), [bare.clone()]);
    assert!(check(&bare.bytes, bare.offload, Layer::L3).is_err());
}
