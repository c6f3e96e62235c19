use crate::build::{ACK, SYN, Spec, Transport};
use braid_inner::{InnerPacket, Layer, Offload, clamp_mss};
use proptest::prelude::*;

fn syn(flags: u8, options: Vec<u8>) -> Spec {
    let mut spec = Spec::tcp(flags, vec![]);
    spec.transport = Transport::Tcp { seq: 1, ack: 0, flags, options };
    spec
}

fn mss_options(nops: usize, mss: u16) -> Vec<u8> {
    let [high, low] = mss.to_be_bytes();
    let mut options = vec![1; nops];
    options.extend_from_slice(&[2, 4, high, low]);
    options.resize(options.len().next_multiple_of(4), 1);
    options
}

#[test]
fn leaves_data_segments_and_lower_values_alone() {
    for (flags, mss) in [(ACK, 1460), (SYN, 1200), (SYN, 1100)] {
        let mut packet = syn(flags, mss_options(0, mss)).packet();
        let before = packet.clone();
        assert!(!clamp_mss(&mut packet, Layer::L3, 1200));
        assert_eq!(packet, before);
    }
}

#[test]
fn broken_options_are_left_alone() {
    for options in
        [vec![2, 0, 0, 0], vec![2, 3, 9, 9], vec![1, 1, 1, 2], vec![1, 1, 2, 4], vec![8, 1, 2, 4]]
    {
        let mut packet = syn(SYN, options).packet();
        let before = packet.clone();
        assert!(!clamp_mss(&mut packet, Layer::L3, 1));
        assert_eq!(packet, before);
    }
}

proptest! {
    #[test]
    fn lowers_with_the_checksum(nops in 0..8usize, mss in 1201..=u16::MAX, v6: bool, reply: bool) {
        let flags = if reply { SYN | ACK } else { SYN };
        let mut spec = syn(flags, mss_options(nops, mss));
        let mut model = syn(flags, mss_options(nops, 1200));
        (spec.v6, model.v6) = (v6, v6);
        let mut packet = spec.packet();
        prop_assert!(clamp_mss(&mut packet, Layer::L3, 1200));
        prop_assert_eq!(packet, model.packet());

        let offload = Offload { checksum: spec.partial(), segmentation: None };
        let mut packet = InnerPacket { bytes: spec.partial_bytes(), offload };
        prop_assert!(clamp_mss(&mut packet, Layer::L3, 1200));
        prop_assert_eq!(packet.bytes, model.partial_bytes());
    }
}
