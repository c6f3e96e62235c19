//! What it costs that a datagram comes to the wrong worker: it is told apart, copied, put into a
//! batch, and taken from it by the other one.

use super::star;
use braid_tunnel::{Handover, LinkConfig, LinkId, Tunnel, TunnelConfig, Worker};
use braid_units::Time;
use braid_wire::DataHeader;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU8;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

const DATAGRAMS: usize = 400_000;
/// As many as a full turn of the data plane receives.
const BATCH: usize = 64;
const SIZE: usize = 1500;
/// Batches that may wait, as in `dataplane/src/siblings.rs`.
const WAITING: usize = 64;

/// Of both workers together.
pub fn seconds_per_datagram() -> f64 {
    let two = NonZeroU8::new(2).expect("not 0");
    let worker = Worker::all(two).next().expect("a first one");
    let mut first = Tunnel::new(TunnelConfig { worker, ..TunnelConfig::new(star::key(0)) });
    let listens = LinkConfig { listens: true, ..LinkConfig::default() };
    first.add_link(LinkId(0), listens, Time::ZERO);
    let from = SocketAddr::from((Ipv4Addr::new(203, 0, 113, 1), 1));
    // Of a session of the second one's.
    let header = DataHeader { receiver: 1, path: 0, packet_number: 0 };
    let mut datagram = header.to_bytes().to_vec();
    datagram.resize(SIZE, 0);

    let (inbox, handovers) = sync_channel::<Vec<Handover>>(WAITING);
    let takes = thread::spawn(move || {
        let (mut time, mut taken) = (Duration::ZERO, 0);
        for batch in handovers {
            let began = Instant::now();
            taken += batch.len();
            for handover in batch {
                drop(black_box(handover));
            }
            time += began.elapsed();
        }
        (time, taken)
    });
    let mut time = Duration::ZERO;
    for _ in 0..DATAGRAMS / BATCH {
        let began = Instant::now();
        for _ in 0..BATCH {
            first.handle_datagram(Time::ZERO, LinkId(0), from, None, &mut datagram);
        }
        let mut batch = Vec::new();
        while let Some((_, handover)) = first.poll_handover() {
            batch.push(handover);
        }
        time += began.elapsed();
        // The other one may be busy: that is no cost of this one's.
        inbox.send(batch).expect("it takes until this ends");
    }
    drop(inbox);
    let (of_other, taken) = takes.join().expect("a thread that ends");
    assert_eq!(taken, DATAGRAMS / BATCH * BATCH, "all of them were the other's");
    (time + of_other).as_secs_f64() / taken as f64
}
