//! Write, then read: nothing changes.

use crate::support::*;
use braid_units::Rate;
use braid_wire::*;
use proptest::prelude::*;

/// Reads `payload`, whose acknowledgements have these full numbers.
fn read(payload: &[u8], mut largest: impl Iterator<Item = u64>) -> Result<Vec<Owned>, Malformed> {
    let read = |frame: Result<Frame<'_>, Malformed>| {
        let frame = frame?;
        let full = if matches!(frame, Frame::Ack(_)) { largest.next() } else { None };
        Ok(Owned::from_frame(frame, full.unwrap_or(0)))
    };
    Frames::new(payload).map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn frames_survive(frames in prop::collection::vec(any_frame(), 0..6), padding in 0..40usize) {
        let mut payload = Vec::new();
        for frame in &frames {
            frame.write(&mut payload, false);
        }
        payload.resize(payload.len() + padding, 0);
        let largest = frames.iter().filter_map(Owned::largest);
        prop_assert_eq!(read(&payload, largest), Ok(frames.clone()));
    }

    #[test]
    fn a_chunk_to_the_end_saves_its_length(
        before in any_frame(), chunk in any_chunk(),
    ) {
        let frames = [before, Owned::Chunk(chunk.clone())];
        let mut payload = Vec::new();
        frames[0].write(&mut payload, false);
        let start = payload.len();
        frames[1].write(&mut payload, true);
        let saved = varint_len(chunk.data.len() as u64);
        let header = chunk.position.header_len(chunk.data.len() as u32) - saved;
        prop_assert_eq!(payload.len() - start, header + chunk.data.len());
        prop_assert_eq!(read(&payload, frames[0].largest().into_iter()), Ok(frames.to_vec()));
    }

    #[test]
    fn the_short_way_of_middle_parts_is_the_same(chunk in any_chunk()) {
        let chunk = chunk.borrowed();
        let mut payload = Vec::new();
        chunk.write(&mut payload, true);
        let ChunkPosition::Middle { offset } = chunk.position else {
            prop_assert_eq!(Chunk::only_middle(&payload), None);
            return Ok(());
        };
        prop_assert_eq!(Chunk::only_middle(&payload), (!chunk.unordered).then_some(chunk));
        let mut short = Vec::new();
        let Chunk { flow, sequence, realtime, data, .. } = chunk;
        Chunk::write_middle(flow, sequence, realtime, offset, data, &mut short);
        prop_assert!(chunk.unordered || short == payload);
    }

    #[test]
    fn a_chunk_needs_the_room_that_its_position_says(chunk in any_chunk()) {
        let mut payload = Vec::new();
        chunk.borrowed().write(&mut payload, false);
        let header = chunk.position.header_len(chunk.data.len() as u32);
        prop_assert_eq!(payload.len(), header + chunk.data.len());
    }

    #[test]
    fn a_cut_frame_is_refused(frame in any_frame(), cut in any::<prop::sample::Index>()) {
        let mut payload = Vec::new();
        frame.write(&mut payload, false);
        payload.truncate(cut.index(payload.len()));
        let read: Vec<_> = Frames::new(&payload).collect();
        if payload.is_empty() {
            prop_assert!(read.is_empty());
        } else {
            prop_assert!(matches!(read[..], [Err(_)]), "{:?}", read);
        }
    }

    #[test]
    fn an_acknowledgement_is_bounded_whatever_it_is_given(
        path: u8, largest: u64, times in any::<(u32, u32)>(),
        ranges in prop::collection::vec(any::<(u64, u64)>(), 0..80),
        arrivals in prop::collection::vec(any::<(u64, u32)>(), 0..80),
    ) {
        let (largest_received_us, delay_us) = times;
        let ack = OwnedAck { path, largest, largest_received_us, delay_us, ranges, arrivals };
        let mut payload = Vec::new();
        Owned::Ack(ack).write(&mut payload, false);
        let most = 12 + 8 + 8 * (2 * MAX_ACK_RANGES - 1) + 16 * MAX_ARRIVALS;
        prop_assert!(payload.len() <= most);
        let read: Vec<_> = Frames::new(&payload).collect();
        let [Ok(Frame::Ack(ack))] = read[..] else { panic!("{read:?}") };
        prop_assert!(ack.ranges(largest).count() <= MAX_ACK_RANGES);
        prop_assert!(ack.arrivals(largest).count() <= MAX_ARRIVALS);
    }

    #[test]
    fn too_many_ranges_and_arrivals_leave_the_oldest_out(
        count in MAX_ACK_RANGES..100, largest in 1000u64..1 << 40,
    ) {
        let below = |step: u64| (0..count as u64).map(move |i| largest - step * i);
        let mut ack = OwnedAck {
            path: 1,
            largest,
            largest_received_us: 5,
            delay_us: 6,
            ranges: below(4).map(|high| (high - 1, high)).collect(),
            arrivals: below(1).map(|n| (n, (largest - n) as u32 * ARRIVAL_UNIT_US)).collect(),
        };
        let mut payload = Vec::new();
        Owned::Ack(ack.clone()).write(&mut payload, false);
        ack.ranges.truncate(MAX_ACK_RANGES);
        ack.arrivals.truncate(MAX_ARRIVALS);
        prop_assert_eq!(read(&payload, [largest].into_iter()), Ok(vec![Owned::Ack(ack)]));
    }

    #[test]
    fn chunks_that_cut_a_packet_cover_it(
        total in 1..=MAX_PACKET_LEN as u32, pieces in prop::collection::vec(1..70_000u32, 1..20),
    ) {
        let offload = braid_inner::Offload::default();
        let mut offset = 0;
        for piece in pieces.into_iter().cycle() {
            let len = piece.min(total - offset);
            let position = ChunkPosition::of(offload, total, offset, len);
            prop_assert_eq!(position.offset(), offset);
            let first = matches!(position, ChunkPosition::Whole(_) | ChunkPosition::First { .. });
            let last = matches!(position, ChunkPosition::Whole(_) | ChunkPosition::Last { .. });
            prop_assert_eq!((first, last), (offset == 0, offset + len == total));
            offset += len;
            if offset == total {
                break;
            }
        }
    }
}

#[test]
fn an_acknowledgement_without_ranges_is_of_the_largest() {
    let mut payload = Vec::new();
    let ranges = Vec::new();
    let arrivals = Vec::new();
    let ack =
        OwnedAck { path: 7, largest: 0, largest_received_us: 1, delay_us: 0, ranges, arrivals };
    Owned::Ack(ack.clone()).write(&mut payload, false);
    let expected = OwnedAck { ranges: vec![(0, 0)], ..ack };
    assert_eq!(read(&payload, [0].into_iter()), Ok(vec![Owned::Ack(expected)]));
}

#[test]
fn frames_have_the_lengths_they_say() {
    let cap = Some(Rate::MAX);
    let status = PathStatus { path: 1, tier: 2, standby: true, abandoned: true, cap };
    let mut payload = Vec::new();
    status.write(&mut payload);
    assert_eq!(payload.len(), PathStatus::MAX_LEN);
    let capped = PathStatus { cap: Some(Rate::from_bytes_per_sec(MAX_VARINT)), ..status };
    assert_eq!(read(&payload, [].into_iter()), Ok(vec![Owned::PathStatus(capped)]));

    let mut payload = Vec::new();
    Abandoned { flow: 1, sequence: 2, count: 3 }.write(&mut payload);
    assert_eq!(payload.len(), Abandoned::LEN);
}

#[test]
fn the_bytes_are_those_of_the_protocol() {
    let mut payload = Vec::new();
    Owned::Chunk(OwnedChunk {
        flow: 0x1234,
        sequence: 0x56_789a,
        unordered: false,
        realtime: true,
        position: ChunkPosition::Last { offset: 0x1000 },
        data: b"ab".to_vec(),
    })
    .write(&mut payload, false);
    Abandoned { flow: 1, sequence: 2, count: 3 }.write(&mut payload);
    TunnelMode { mode: 3, hash: 2 }.write(&mut payload);
    Close { reason: 0 }.write(&mut payload);
    Service { word: Service::DRAINING, epoch: 0x1234 }.write(&mut payload);
    LimitFrame { rate: Some(Rate::from_bytes_per_sec(0x4321)), epoch: 9 }.write(&mut payload);
    let mut list = Vec::new();
    assert!(ReferralsFrame::push(&mut list, &[7; 32], "b", &["h:1", "i:2"]));
    ReferralsFrame::write(5, &list, &mut payload);
    Frame::write_ping(&mut payload);
    let expected = [
        &[0xa2, 0x12, 0x34, 0x56, 0x78, 0x9a, 0x50, 0x00, 0x02, b'a', b'b'][..],
        &[3, 0, 1, 0, 0, 2, 3],
        &[7, 3, 2],
        &[6, 0],
        &[8, 0xff, 0x52, 0x34],
        &[11, 0x80, 0, 0x43, 0x21, 9],
        &[10, 5, 0, 43],
        &[7; 32],
        &[1, b'b', 2, 3, b'h', b':', b'1', 3, b'i', b':', b'2'],
        &[1],
    ];
    assert_eq!(payload, expected.concat());
}

#[test]
fn a_list_of_referrals_takes_what_fits() {
    let mut list = Vec::new();
    for wrong in [("", &["h:1"][..]), ("b", &[]), ("b", &[""]), (&"n".repeat(256), &["h:1"])] {
        assert!(!ReferralsFrame::push(&mut list, &[7; 32], wrong.0, wrong.1));
    }
    assert!(list.is_empty());
    let long = "h".repeat(150);
    let pushed = [0u8; 3].map(|_| ReferralsFrame::push(&mut list, &[7; 32], "b", &[&long]));
    assert_eq!(pushed, [true, true, false]);
    let mut list = Vec::new();
    let pushed = [0u8; 5].map(|_| ReferralsFrame::push(&mut list, &[7; 32], "b", &["h:1"]));
    assert_eq!(pushed, [true, true, true, true, false]);
}
