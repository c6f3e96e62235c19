//! Packets through the whole core, both ends of it: queued, scheduled, cut into
//! chunks, sealed, opened, put together, acknowledged.
//!
//! `cargo bench -p braid-tunnel`

mod star;

use braid_inner::{InnerPacket, Layer, Offload};
use braid_tunnel::exit::{Delivered, Reordering};
use braid_units::Time;
use braid_wire::{Chunk, ChunkPosition};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use star::{Load, Star};

fn main() {
    divan::main();
}

const SMALL: Load = Load { size: 92, packets: 32, up: false, down: true, busy: 1 };

fn turns(bencher: Bencher, mut star: Star, load: Load) {
    star.run(load, star::TURN * 4000);
    let packets = load.packets * (usize::from(load.up) + usize::from(load.down));
    bencher
        .counter(ItemsCount::new(packets))
        .counter(BytesCount::new(packets * load.size))
        .bench_local(|| star.turn(load));
}

/// 64 bytes of UDP.
#[divan::bench(args = [1, 2, 8, 32])]
fn small_packets_by_links(bencher: Bencher, links: u16) {
    turns(bencher, Star::new(1, links), SMALL);
}

#[divan::bench]
fn small_packets_both_ways(bencher: Bencher) {
    turns(bencher, Star::new(1, 1), Load { packets: 16, up: true, ..SMALL });
}

#[divan::bench(args = [1, 2, 8, 32])]
fn super_packets_by_links(bencher: Bencher, links: u16) {
    turns(bencher, Star::new(1, links), Load { size: Load::SUPER, packets: 1, ..SMALL });
}

/// Whole packets to 50 homes, the others idle.
#[divan::bench(args = [50, 200])]
fn packets_to_homes(bencher: Bencher, homes: usize) {
    turns(bencher, Star::new(homes, 1), Load { size: 1500, packets: 16, busy: 50, ..SMALL });
}

/// Chunks of packets of 64 KB become packets again; every second chunk comes
/// 64 chunks late.
#[divan::bench]
fn reassembly_out_of_order(bencher: Bencher) {
    const CHUNK: usize = 1400;
    let data = vec![7; CHUNK * 45];
    let mut exit = Reordering::new(Layer::L3, 16 << 20);
    let mut spare: Vec<Vec<u8>> = Vec::new();
    let mut turn = 0;
    let mut put = |number: u32, part: usize| {
        let (offset, total) = ((part * CHUNK) as u32, data.len() as u32);
        let chunk = Chunk {
            flow: 1,
            sequence: number & 0xff_ffff,
            unordered: false,
            realtime: false,
            position: ChunkPosition::of(Offload::default(), total, offset, CHUNK as u32),
            data: &data[part * CHUNK..(part + 1) * CHUNK],
        };
        let take = |size| spare.pop().unwrap_or_else(|| Vec::with_capacity(size));
        let _ = exit.on_chunk(Time::ZERO, &chunk, take);
        while let Some(Delivered { packet: InnerPacket { bytes, .. }, .. }) =
            exit.poll(Vec::with_capacity)
        {
            spare.push(bytes);
        }
    };
    bencher.counter(BytesCount::new(CHUNK)).bench_local(|| {
        let late = if turn % 2 == 1 { 64 } else { 0 };
        let place = turn.max(late) - late;
        put((place / 45) as u32, place % 45);
        turn += 1;
    });
}
