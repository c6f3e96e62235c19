use crate::build::{Spec, any_spec, naive_checksum};
use braid_inner::checksum::{CompleteError, complete, sum, update, verify};
use braid_inner::{Checksum, InnerPacket, Layer, Offload};
use proptest::prelude::*;

#[test]
fn the_example_of_rfc_1071() {
    assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
}

#[test]
fn no_bytes_sum_to_nothing_and_ones_do_not_overflow() {
    assert_eq!(sum(&[]), 0);
    assert_eq!(sum(&[0xff; 70000]), 0xffff);
}

#[test]
fn a_super_packet_is_not_completed() {
    let mut packet = Spec::udp(vec![1; 3000]).super_packet(1000);
    let before = packet.clone();
    assert_eq!(complete(&mut packet), Err(CompleteError::SuperPacket));
    assert_eq!(packet, before);
}

#[test]
fn a_field_outside_of_the_packet_is_refused() {
    for (start, offset) in [(0, 19), (19, 0), (21, 0), (u16::MAX, u16::MAX)] {
        let offload = Offload { checksum: Checksum::Partial { start, offset }, segmentation: None };
        let mut packet = InnerPacket { bytes: vec![0x45; 20], offload };
        let before = packet.clone();
        assert_eq!(complete(&mut packet), Err(CompleteError::OutOfPacket));
        assert_eq!(packet, before);
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let mut zeros = (0..=u16::MAX)
        .map(|word| Spec::udp(word.to_be_bytes().to_vec()))
        .filter(|spec| spec.bytes()[26..28] == [0xff, 0xff]);
    let spec = zeros.next().expect("some payload sums to zero");
    let offload = Offload { checksum: spec.partial(), segmentation: None };
    let mut packet = InnerPacket { bytes: spec.partial_bytes(), offload };
    complete(&mut packet).unwrap();
    assert_eq!(packet.bytes, spec.bytes());
}

#[test]
fn udp_without_checksum_is_nothing_to_verify() {
    let mut bytes = Spec::udp(vec![1, 2, 3]).bytes();
    assert_eq!(verify(&bytes, Layer::L3), Some(true));
    bytes[26..28].fill(0);
    assert_eq!(verify(&bytes, Layer::L3), None);
}

proptest! {
    #[test]
    fn sums_as_the_naive_one(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(!sum(&bytes), naive_checksum(&bytes));
    }

    #[test]
    fn updates_as_computed_anew(
        mut bytes in proptest::collection::vec(any::<u8>(), 40),
        word in 0..20usize,
        new: u16,
    ) {
        let old = u16::from_be_bytes([bytes[word * 2], bytes[word * 2 + 1]]);
        let updated = update(naive_checksum(&bytes), old, new);
        bytes[word * 2..word * 2 + 2].copy_from_slice(&new.to_be_bytes());
        let anew = naive_checksum(&bytes);
        // Both zeros of ones' complement are the same number.
        prop_assert!(updated == anew || updated ^ anew == 0xffff && (updated == 0 || anew == 0));
    }

    #[test]
    fn completes_what_is_partial(spec in any_spec(0..2000)) {
        let offload = Offload { checksum: spec.partial(), segmentation: None };
        let mut packet = InnerPacket { bytes: spec.partial_bytes(), offload };
        complete(&mut packet).unwrap();
        prop_assert_eq!(packet, spec.packet());
    }

    #[test]
    fn verifies_and_finds_one_wrong_bit(mut spec in any_spec(1..500), at: usize, bit in 0..8u8) {
        spec.between = 0;
        let mut bytes = spec.bytes();
        prop_assert_eq!(verify(&bytes, spec.layer()), Some(true));
        let payload = spec.transport_start() + spec.transport_header_len();
        let at = payload + at % spec.payload.len();
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(verify(&bytes, spec.layer()), Some(false));
    }
}
