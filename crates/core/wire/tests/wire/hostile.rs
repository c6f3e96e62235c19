//! Whatever the bytes, nothing panics and no value is out of its range.

use crate::support::*;
use braid_units::Rate;
use braid_wire::*;
use proptest::prelude::*;

/// Looks at all that can be read of a payload.
fn look_at(payload: &[u8], largest: u64) -> Result<(), TestCaseError> {
    let mut errors = 0;
    let mut count = 0;
    for frame in Frames::new(payload) {
        count += 1;
        match frame {
            Err(_) => errors += 1,
            Ok(frame) => check(frame, largest)?,
        }
        prop_assert!(errors == 0 || frame.is_err(), "it went on after an error");
    }
    prop_assert!(count <= payload.len());
    if let Some(chunk) = Chunk::only_middle(payload) {
        let frames: Vec<_> = Frames::new(payload).collect();
        prop_assert_eq!(frames, [Ok(Frame::Chunk(chunk))], "the short way says something else");
    }
    Ok(())
}

fn check(frame: Frame<'_>, largest: u64) -> Result<(), TestCaseError> {
    match frame {
        Frame::Chunk(chunk) => {
            let end = chunk.position.offset() as usize + chunk.data.len();
            prop_assert!(!chunk.data.is_empty() && end <= MAX_PACKET_LEN);
            prop_assert!(chunk.sequence < 1 << 24);
            match chunk.position {
                ChunkPosition::Whole(_) => {}
                ChunkPosition::First { total, .. } => {
                    prop_assert!(end < total as usize && total as usize <= MAX_PACKET_LEN);
                }
                ChunkPosition::Middle { offset } | ChunkPosition::Last { offset } => {
                    prop_assert!(offset > 0);
                }
            }
        }
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack.ranges(largest).collect();
            prop_assert!(ranges.len() <= MAX_ACK_RANGES);
            prop_assert!(ranges.first().is_none_or(|r| r.1 == largest));
            prop_assert!(ranges.iter().all(|(low, high)| low <= high));
            // Disjoint, not adjacent, descending.
            prop_assert!(ranges.windows(2).all(|r| r[1].1 + 1 < r[0].0));
            let arrivals: Vec<_> = ack.arrivals(largest).collect();
            prop_assert!(arrivals.len() <= MAX_ARRIVALS);
            prop_assert!(arrivals.first().is_none_or(|a| a.0 <= largest));
            prop_assert!(arrivals.windows(2).all(|a| a[1].0 <= a[0].0 && a[1].1 >= a[0].1));
        }
        Frame::Erasure(erasure) => {
            let sources: Vec<_> = erasure.sources.iter().collect();
            prop_assert!((1..=MAX_SOURCES).contains(&sources.len()));
            prop_assert!(sources.iter().all(|s| (s.offset as usize) < MAX_PACKET_LEN));
            prop_assert!(sources.iter().all(|s| s.sequence < 1 << 24));
        }
        Frame::Abandoned(abandoned) => {
            prop_assert!(abandoned.count > 0 && abandoned.sequence < 1 << 24);
        }
        Frame::PathStatus(status) => {
            prop_assert!(status.cap.is_none_or(|cap| cap.bytes_per_sec() <= MAX_VARINT));
        }
        Frame::Service(service) => prop_assert!(service.epoch <= MAX_VARINT),
        Frame::Treatment(treatment) => {
            let mut written = Vec::new();
            treatment.write(&mut written);
            prop_assert!(written.len() <= TreatmentFrame::MAX_LEN);
        }
        Frame::Paced(_) | Frame::ContextKnown(_) => {}
        Frame::Context(frame) => prop_assert!(frame.header.len() <= HeaderContext::MAX_LEN),
        Frame::Limit(limit) => prop_assert!(limit.rate != Some(Rate::ZERO)),
        Frame::Referrals(referrals) => {
            let entries: Vec<_> = referrals.entries().collect();
            prop_assert!(entries.len() <= MAX_REFERRALS);
            for entry in entries {
                let endpoints: Vec<_> = entry.endpoints().collect();
                prop_assert!((1..=MAX_ENDPOINTS).contains(&endpoints.len()));
                prop_assert!(endpoints.iter().all(|it| !it.is_empty()) && !entry.name.is_empty());
            }
        }
        Frame::Ping | Frame::Close(_) | Frame::Mode(_) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn noise_is_harmless(
        kind: u8, rest in prop::collection::vec(any::<u8>(), 0..300), largest in number(u64::MAX),
    ) {
        look_at(&rest, largest)?;
        let payload: Vec<u8> = [kind].into_iter().chain(rest).collect();
        look_at(&payload, largest)?;
    }

    #[test]
    fn small_numbers_reach_deep(
        kind in prop_oneof![0u8..8, 0x80u8..0xc0],
        rest in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..100),
    ) {
        let payload: Vec<u8> = [kind].into_iter().chain(rest).collect();
        look_at(&payload, 20)?;
    }

    #[test]
    fn altered_frames_are_harmless(
        frames in prop::collection::vec(any_frame(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(), to_end: bool,
    ) {
        let mut payload = Vec::new();
        for frame in &frames {
            frame.write(&mut payload, to_end);
        }
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] ^= byte;
        }
        let largest = frames.iter().find_map(Owned::largest).unwrap_or(1000);
        look_at(&payload, largest)?;
        look_at(&payload[..cut.index(payload.len())], largest)?;
    }

    #[test]
    fn headers_are_read_whole_or_not(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let parsed = DataHeader::parse(&bytes);
        let whole = bytes.len() >= HEADER_LEN + TAG_LEN && bytes[0] == 4;
        prop_assert_eq!(parsed.is_ok(), whole);
        if let Ok(header) = parsed {
            prop_assert_eq!(&header.to_bytes()[..], &bytes[..HEADER_LEN]);
            prop_assert_eq!(DatagramKind::of(&bytes), Some(DatagramKind::Data));
        }
    }
}

#[test]
fn contradictions_are_refused() {
    use Malformed::*;
    // A varint of 8 bytes that says 2^32 − 1, and one that says 2^32.
    let u32_max = [0xc0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let too_big = [0xc0, 0, 0, 1, 0, 0, 0, 0];
    let referral = [&[7; 32][..], &[1, b'b', 1, 1, b'h']].concat();
    let chunk = |kind: u8, rest: &[u8]| [&[kind, 0, 1, 0, 0, 2], rest].concat();
    for (payload, error) in [
        (vec![0x0f], UnknownFrame),
        (chunk(0x87, &[]), Empty),
        (chunk(0x83, &[0]), Empty),
        (chunk(0x83, &[2, 9]), Truncated),
        // Middle and last at offset 0.
        (chunk(0x80, &[0, 1, 9]), Contradiction),
        (chunk(0x82, &[0, 1, 9]), Contradiction),
        // A first chunk of one byte of a packet of one byte, or none.
        (chunk(0x81, &[1, 1, 9]), Contradiction),
        (chunk(0x81, &[0, 1, 9]), Contradiction),
        // Beyond the longest packet; the sum must not wrap.
        (chunk(0x80, &[&u32_max[..], &[1, 9]].concat()), TooLong),
        (chunk(0x80, &[&too_big[..], &[1, 9]].concat()), TooLong),
        (chunk(0x81, &[&u32_max[..], &[1, 9]].concat()), TooLong),
        // Compressed: not at a packet's start, or with a checksum twice.
        (chunk(0xc2, &[9, 1, 9]), Contradiction),
        (chunk(0xd3, &[0x08, 0, 0, 0, 0, 1, 9]), Contradiction),
        // Offload: of no packet's start, none at all, unknown bits, ECN of
        // nothing, segments of no bytes.
        (chunk(0x92, &[9, 0x08, 0, 0, 0, 0, 1, 9]), Contradiction),
        (chunk(0x93, &[0x00, 1, 9]), Contradiction),
        (chunk(0x93, &[0x10, 1, 9]), Contradiction),
        (chunk(0x93, &[0x04, 1, 9]), Contradiction),
        (chunk(0x93, &[0x01, 0, 40, 0, 0, 1, 9]), Contradiction),
        // Acknowledgements of no range, of too many, with too many arrivals.
        ([&[2, 0][..], &[0; 8], &[0, 0, 0, 0]].concat(), TooLong),
        ([&[2, 0][..], &[0; 8], &[0, 33], &[0; 70]].concat(), TooLong),
        ([&[2, 0][..], &[0; 8], &[0, 1, 0, 25], &[0; 70]].concat(), TooLong),
        (vec![3, 0, 1, 0, 0, 2, 0], Empty),
        ([&[13, 0, 1, 2, 131][..], &[0; 131]].concat(), TooLong),
        (vec![13, 0, 1, 2, 3, 9, 9], Truncated),
        (vec![4, 0, 1, 0x08], Contradiction),
        // A treatment with a selector that there isn't, or a class.
        (vec![9, 0x50, 6, 0, 0, 0, 0], Contradiction),
        (vec![9, 0x0c, 6, 0, 0, 0, 0], Contradiction),
        // Referrals: too many bytes, a name of none, no address, five addresses, five of them.
        ([&[10, 0, 1, 0x91][..], &[0; 401]].concat(), TooLong),
        ([&[10, 0, 0, 36][..], &[7; 32], &[0, 1, 1, b'h']].concat(), Empty),
        ([&[10, 0, 0, 35][..], &[7; 32], &[1, b'b', 0]].concat(), Empty),
        ([&[10, 0, 0, 35][..], &[7; 32], &[1, b'b', 5]].concat(), TooLong),
        ([&[10, 0, 0, 37][..], &[7; 32], &[1, 0xff, 1, 1, b'h']].concat(), Contradiction),
        ([&[10, 0, 0, 185][..], &referral.repeat(5)].concat(), TooLong),
        ([&[5, 0][..], &[0; 20]].concat(), TooLong),
        ([&[5, 33][..], &[0; 400]].concat(), TooLong),
        ([&[5, 1, 0, 1, 0, 0, 2][..], &u32_max, &[0, 0, 0, 0]].concat(), TooLong),
    ] {
        let read: Vec<_> = Frames::new(&payload).collect();
        assert_eq!(read, [Err(error)], "{payload:02x?}");
    }
}
