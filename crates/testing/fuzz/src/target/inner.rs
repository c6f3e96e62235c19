use super::input::Input;
use braid_inner::*;
use std::num::NonZeroU16;

/// A packet from a peer's TUN device: a type byte, its offload information, its bytes. A packet
/// that passes the check can be segmented, marked and merged, and stays the same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn inner(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.u8();
    let layer = if flags & 1 == 0 { Layer::L3 } else { Layer::L2 };
    let offload = offload(flags, &mut input);
    let mut bytes = input.0.to_vec();
    let headers = Headers::parse(&bytes, layer);
    if flags & 2 != 0 {
        repair_ipv4_checksum(&mut bytes, &headers);
    }
    if let Some(ip) = headers.ip {
        assert!(ip.start <= ip.transport && ip.transport <= bytes.len() && ip.end <= bytes.len());
    }
    if let Some(ethernet) = headers.ethernet {
        assert!(ethernet.len <= bytes.len());
    }
    flow_hash(&bytes, layer, &HashKey::new([1; 16]));
    for policy in [BondingHash::Layer2, BondingHash::Layer23, BondingHash::Layer34] {
        policy.hash(&bytes, &headers);
    }
    Class::of(&bytes, &headers);
    checksum::verify(&bytes, layer);

    let packet = InnerPacket { bytes, offload };
    let checked = check(&packet.bytes, offload, layer);
    changes_keep_the_length(&packet, layer);
    if let Ok(segments) = Segments::of(&packet.bytes, packet.bytes.len(), offload, layer) {
        pieces_are_within(&packet, &segments, input.0.len());
    }
    if checked.is_ok() {
        cut_and_merged_is_the_same(&packet, layer);
    }
}

fn offload(flags: u8, input: &mut Input<'_>) -> Offload {
    let kind = match flags >> 2 & 3 {
        0 => None,
        1 => Some(SegmentationKind::TcpV4),
        2 => Some(SegmentationKind::TcpV6),
        _ => Some(SegmentationKind::Udp),
    };
    let segmentation = kind.map(|kind| Segmentation {
        kind,
        ecn: flags & 0x10 != 0,
        header_len: input.u16(),
        segment_size: NonZeroU16::new(input.u16()).unwrap_or(NonZeroU16::MIN),
        ticks: ticks(flags, input),
    });
    let checksum = if flags & 0x20 == 0 {
        Checksum::Complete
    } else {
        Checksum::Partial { start: input.u16(), offset: input.u16() }
    };
    Offload { checksum, segmentation }
}

fn ticks(flags: u8, input: &mut Input<'_>) -> Ticks {
    let mut ticks = Ticks::NONE;
    while flags & 0x40 != 0
        && ticks.push(Tick { segment: input.u8(), value: input.u8(), echo: input.u8() })
    {}
    ticks
}

/// Otherwise no mutated packet would get far.
fn repair_ipv4_checksum(bytes: &mut [u8], headers: &Headers) {
    let Some(Ip { version: IpVersion::V4, start, transport, .. }) = headers.ip else { return };
    let Some(header) = bytes.get_mut(start..transport) else { return };
    let Some(field) = header.get_mut(10..12) else { return };
    field.fill(0);
    let sum = !checksum::sum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn changes_keep_the_length(packet: &InnerPacket, layer: Layer) {
    let mut changed = packet.clone();
    let marked = set_ce(&mut changed.bytes, layer);
    assert_eq!(changed.bytes.len(), packet.bytes.len());
    assert!(marked || changed == *packet);
    let mut changed = packet.clone();
    assert!(clamp_mss(&mut changed, layer, 1000) || changed == *packet);
    assert_eq!(changed.bytes.len(), packet.bytes.len());
    let mut changed = packet.clone();
    let _ = checksum::complete(&mut changed);
    assert_eq!(changed.bytes.len(), packet.bytes.len());
    let mut changed = packet.clone();
    if drop_first_segment(&mut changed, layer) {
        assert_eq!(segment_count(&changed), segment_count(packet) - 1);
    } else {
        assert_eq!(changed, *packet);
    }
}

fn pieces_are_within(packet: &InnerPacket, segments: &Segments, some: usize) {
    assert_eq!(segments.count(), segment_count(packet));
    let len = packet.bytes.len();
    for range in [0..len, 0..some, some / 2..len, len / 3..len / 2] {
        let whole = segments.whole_within(range.clone());
        assert!(whole.end <= segments.count());
        if let Some(place) = segments.payload(whole) {
            assert!(range.start <= place.start && place.end <= range.end.max(len));
        }
    }
}

fn cut_and_merged_is_the_same(packet: &InnerPacket, layer: Layer) {
    let pieces = split_all(packet, layer).expect("what passed the check can be cut");
    assert_eq!(pieces.len(), segment_count(packet));
    for piece in &pieces {
        assert_eq!(check(&piece.bytes, piece.offload, layer).err(), None);
    }
    let mut coalescer = Coalescer::new(layer, Checksums::Verify);
    let mut merged = Vec::new();
    for piece in pieces.iter().cloned() {
        coalescer.push(piece, &mut merged);
    }
    coalescer.flush(&mut merged);
    assert_eq!(merged.iter().map(segment_count).sum::<usize>(), pieces.len());
    let again: Vec<_> = merged
        .iter()
        .flat_map(|packet| split_all(packet, layer).expect("what was merged can be cut"))
        .collect();
    let payload = |packets: &[InnerPacket]| -> Vec<Vec<u8>> {
        packets.iter().map(|packet| transport_payload(packet, layer).to_vec()).collect()
    };
    assert_eq!(payload(&again), payload(&pieces));
}

fn transport_payload(packet: &InnerPacket, layer: Layer) -> &[u8] {
    let start = Headers::parse(&packet.bytes, layer).payload_start(&packet.bytes);
    &packet.bytes[start.unwrap_or(0)..]
}
