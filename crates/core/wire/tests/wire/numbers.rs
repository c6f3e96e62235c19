//! Varints, truncated numbers and the data header.

use crate::support::number;
use braid_units::Rate;
use braid_wire::*;
use proptest::prelude::*;

/// The number closest to `expected` of all that end in these bits.
fn naive_expand(truncated: u32, bits: u32, expected: u64) -> u64 {
    let window = 1i128 << bits;
    let low = i128::from(truncated) % window;
    let base = i128::from(expected) / window * window;
    [-1, 0, 1]
        .map(|k| base + k * window + low)
        .into_iter()
        .filter_map(|n| u64::try_from(n).ok())
        // Of two equally near the larger.
        .min_by_key(|&n| (n.abs_diff(expected), u64::MAX - n))
        .unwrap()
}

fn edge() -> impl Strategy<Value = u64> {
    let near = |centre: u64| (0..4u64).prop_map(move |d| centre.saturating_add(d) - 2);
    prop_oneof![
        number(u64::MAX),
        near(1 << 23),
        near(1 << 24),
        near(1 << 31),
        near(1 << 32),
        near(u64::MAX - (1 << 23)),
        near(u64::MAX - (1 << 31)),
        Just(u64::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn expand_is_the_nearest(
        truncated in edge(), bits in prop_oneof![Just(24u32), Just(32)], expected in edge(),
    ) {
        let truncated = truncated as u32;
        prop_assert_eq!(
            expand(truncated, bits, expected),
            naive_expand(truncated, bits, expected)
        );
    }

    #[test]
    fn what_is_near_survives_truncation(
        number in 1u64 << 31.., away in -(1i64 << 23)..1 << 23,
    ) {
        let Some(expected) = number.checked_add_signed(away) else { return Ok(()) };
        prop_assert_eq!(expand(number as u32, 24, expected), number);
        prop_assert_eq!(expand(number as u32, 32, expected), number);
    }

    #[test]
    fn varints_survive_in_their_shortest_form(value in number(MAX_VARINT)) {
        let cap = Some(Rate::from_bytes_per_sec(value));
        let status = PathStatus { path: 0, tier: 0, standby: false, abandoned: false, cap };
        let mut payload = Vec::new();
        status.write(&mut payload);
        prop_assert_eq!(payload.len(), 4 + varint_len(value));
        let read: Vec<_> = Frames::new(&payload).collect();
        prop_assert_eq!(read, vec![Ok(Frame::PathStatus(status))]);
    }

    #[test]
    fn headers_survive(
        receiver in 0..=MAX_SESSION_INDEX, path: u8, packet_number in 0u32..1 << 24,
        sealed in prop::collection::vec(any::<u8>(), TAG_LEN..40),
    ) {
        let header = DataHeader { receiver, path, packet_number };
        let mut datagram = Vec::new();
        header.write(&mut datagram);
        prop_assert_eq!(&datagram[..], &header.to_bytes()[..]);
        datagram.extend(&sealed);
        prop_assert_eq!(DatagramKind::of(&datagram), Some(DatagramKind::Data));
        prop_assert_eq!(DataHeader::parse(&datagram), Ok(header));
    }
}

#[test]
fn datagrams_are_told_by_their_first_byte() {
    use DatagramKind::*;
    let kinds: Vec<_> = (0..=255).map(|first| DatagramKind::of(&[first, 1, 2])).collect();
    let ours = [None, Some(Initiation), Some(Response), Some(CookieReply), Some(Data)];
    assert_eq!(kinds[..5], ours);
    assert!(kinds[5..].iter().all(Option::is_none));
    assert_eq!(DatagramKind::of(&[]), None);
}

#[test]
fn varints_are_those_of_rfc_9000() {
    // Appendix A.1 of the RFC.
    for (bytes, value) in [
        (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
        (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
        (&[0x7b, 0xbd], 15_293),
        (&[0x25], 37),
        // Longer than needed, which is allowed.
        (&[0x40, 0x25], 37),
    ] {
        let payload = [&[4, 9, 1, 4], bytes].concat();
        let cap = Some(Rate::from_bytes_per_sec(value));
        let status = PathStatus { path: 9, tier: 1, standby: false, abandoned: false, cap };
        let read: Vec<_> = Frames::new(&payload).collect();
        assert_eq!(read, [Ok(Frame::PathStatus(status))]);
    }
}
