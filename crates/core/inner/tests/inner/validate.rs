use crate::build::{ACK, Spec, any_spec};
use braid_inner::{
    Addresses, Checksum, InnerPacket, Layer, Malformed, Offload, SegmentError, Segmentation, Ticks,
    check,
};
use proptest::prelude::*;
use std::num::NonZeroU16;

fn checked(packet: &InnerPacket, layer: Layer) -> Result<Addresses, Malformed> {
    check(&packet.bytes, packet.offload, layer).map(|checked| checked.addresses)
}

#[test]
fn addresses_come_out() {
    let v4 = Spec::udp(vec![1]).packet();
    let expected =
        Addresses::Ip { src: "10.9.0.1".parse().unwrap(), dst: "10.9.0.2".parse().unwrap() };
    assert_eq!(checked(&v4, Layer::L3), Ok(expected));
    let v6 = Spec::udp(vec![1]).v6().packet();
    let expected =
        Addresses::Ip { src: "fd00::1".parse().unwrap(), dst: "fd00::2".parse().unwrap() };
    assert_eq!(checked(&v6, Layer::L3), Ok(expected));
    let frame = Spec { tags: Some(vec![]), ..Spec::udp(vec![1]) }.packet();
    let expected = Addresses::Ethernet { src: [2, 0, 0, 0, 0, 1], dst: [2, 0, 0, 0, 0, 2] };
    assert_eq!(checked(&frame, Layer::L2), Ok(expected));
}

#[test]
fn ip_headers_that_lie() {
    let bad = |layer, expected: Malformed, change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = Spec::udp(vec![1; 50]).packet();
        change(&mut packet.bytes);
        assert_eq!(checked(&packet, layer), Err(expected));
    };
    bad(Layer::L3, Malformed::NotIp, &|bytes| bytes.clear());
    bad(Layer::L3, Malformed::NotIp, &|bytes| bytes[0] = 0x55);
    bad(Layer::L3, Malformed::NotIp, &|bytes| bytes[0] = 0x44);
    bad(Layer::L3, Malformed::NotIp, &|bytes| bytes.truncate(19));
    bad(Layer::L3, Malformed::HeaderChecksum, &|bytes| bytes[8] = 3);
    bad(Layer::L3, Malformed::IpLength, &|bytes| bytes.push(0));
    bad(Layer::L3, Malformed::IpLength, &|bytes| bytes.truncate(40));
    bad(Layer::L3, Malformed::TooLong, &|bytes| bytes.resize(70000, 0));
    bad(Layer::L2, Malformed::NotEthernet, &|bytes| bytes.truncate(13));
    let mut v6 = Spec::udp(vec![1; 50]).v6().packet();
    v6.bytes[5] += 1;
    assert_eq!(checked(&v6, Layer::L3), Err(Malformed::IpLength));
}

#[test]
fn partial_checksums_that_point_elsewhere() {
    let spec = Spec::udp(vec![1; 50]);
    for (start, offset, good) in
        [(20, 6, true), (28, 48, true), (28, 49, false), (19, 6, false), (65535, 65535, false)]
    {
        let offload = Offload { checksum: Checksum::Partial { start, offset }, segmentation: None };
        let packet = InnerPacket { bytes: spec.partial_bytes(), offload };
        let expected = if good { Ok(()) } else { Err(Malformed::Checksum) };
        assert_eq!(checked(&packet, Layer::L3).map(drop), expected, "{start}+{offset}");
    }
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let offload = Offload { checksum: spec.partial(), segmentation: None };
    assert_eq!(check(&arp, offload, Layer::L2), Err(Malformed::Checksum));
    assert!(check(&arp, Offload::default(), Layer::L2).is_ok());
}

#[test]
fn segment_sizes_the_kernel_would_choke_on() {
    let sized = |spec: &Spec, size| checked(&spec.super_packet(size), Layer::L3).map(drop);
    let (tcp, udp) = (Spec::tcp(ACK, vec![1; 2000]), Spec::udp(vec![1; 2000]));
    assert_eq!(sized(&tcp, 8), Ok(()));
    assert_eq!(sized(&tcp, 7), Err(Malformed::SegmentSize));
    assert_eq!(sized(&tcp, 2000), Err(Malformed::SegmentSize));
    assert_eq!(sized(&tcp, 65535), Err(Malformed::SegmentSize));
    assert_eq!(sized(&udp, 16), Ok(()));
    assert_eq!(sized(&udp, 15), Err(Malformed::SegmentSize));
}

#[test]
fn super_packets_that_lie() {
    let mut packet = Spec::udp(vec![1; 2000]).super_packet(1000);
    packet.bytes[25] ^= 1;
    assert_eq!(checked(&packet, Layer::L3), Err(Malformed::UdpLength));
    let mut packet = Spec::udp(vec![1; 2000]).super_packet(1000);
    packet.offload.checksum = Checksum::Complete;
    let expected = Err(Malformed::Segmentation(SegmentError::Checksum));
    assert_eq!(checked(&packet, Layer::L3), expected);
    let mut packet = Spec::tcp(ACK, vec![1; 2000]).super_packet(1000);
    let segmentation = packet.offload.segmentation.unwrap();
    packet.offload.segmentation = Some(Segmentation {
        header_len: 44,
        segment_size: NonZeroU16::new(500).unwrap(),
        ticks: Ticks::NONE,
        ..segmentation
    });
    let expected = Err(Malformed::Segmentation(SegmentError::Headers));
    assert_eq!(checked(&packet, Layer::L3), expected);
    // Also where the frame would hide it.
    let mut frame = Spec { tags: Some(vec![]), ..Spec::tcp(ACK, vec![1; 2000]) }.super_packet(1000);
    frame.bytes[17] ^= 1;
    assert!(checked(&frame, Layer::L2).is_err());
}

proptest! {
    #[test]
    fn good_packets_pass(spec in any_spec(0..5000), size in 100..1500u16) {
        prop_assert!(checked(&spec.packet(), spec.layer()).is_ok());
        let single = Offload { checksum: spec.partial(), segmentation: None };
        prop_assert!(check(&spec.partial_bytes(), single, spec.layer()).is_ok());
        if spec.payload.len() > size.into() {
            prop_assert!(checked(&spec.super_packet(size), spec.layer()).is_ok());
        }
    }
}
