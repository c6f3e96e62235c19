//! Costs per packet: `cargo bench -p braid-inner`.

use braid_inner::{
    Checksum, HashKey, InnerPacket, Layer, Offload, Segmentation, SegmentationKind, Segments,
    Ticks, checksum, flow_hash,
};
use divan::{Bencher, counter::BytesCount};
use std::num::NonZeroU16;

fn main() {
    divan::main();
}

#[divan::bench]
fn flow_hash_v4(bencher: Bencher) {
    let (packet, key) = (super_packet(), HashKey::new([7; 16]));
    bencher.bench(|| flow_hash(divan::black_box(&packet.bytes), Layer::L3, &key));
}

#[divan::bench]
fn flow_hash_v6(bencher: Bencher) {
    let mut bytes = vec![0x60; 60];
    bytes[6] = 17;
    let key = HashKey::new([7; 16]);
    bencher.bench(|| flow_hash(divan::black_box(&bytes), Layer::L3, &key));
}

#[divan::bench(args = [64, 1500, 65535])]
fn sum(bencher: Bencher, len: usize) {
    let bytes = vec![0xa5; len];
    bencher.counter(BytesCount::new(len)).bench(|| checksum::sum(divan::black_box(&bytes)));
}

#[divan::bench(args = [1, 10, 44])]
fn extract(bencher: Bencher, segments: usize) {
    let packet = super_packet();
    let len = packet.bytes.len();
    let cut = Segments::of(&packet.bytes, len, packet.offload, Layer::L3).unwrap();
    let payload = cut.payload(0..segments).unwrap();
    let mut out = Vec::new();
    bencher.counter(BytesCount::new(payload.len())).bench_local(|| {
        out.clear();
        cut.extract(&packet.bytes, &packet.bytes[payload.clone()], 0..segments, &mut out)
    });
}

/// 44 segments of 1448 bytes, TCP over IPv4 with timestamps.
fn super_packet() -> InnerPacket {
    let mut bytes = vec![0; 52 + 44 * 1448];
    let len = bytes.len() as u16;
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[9] = 6;
    bytes[32] = 0x80;
    bytes[33] = 0x10;
    InnerPacket {
        bytes,
        offload: Offload {
            checksum: Checksum::Partial { start: 20, offset: 16 },
            segmentation: Some(Segmentation {
                kind: SegmentationKind::TcpV4,
                ecn: false,
                header_len: 52,
                segment_size: NonZeroU16::new(1448).unwrap(),
                ticks: Ticks::NONE,
            }),
        },
    }
}
