//! What strangers cost a worker by the kernel's part: reading their datagrams, and what is lost of
//! homes' where both fill one buffer. A worker carries homes for some time, then reads, as the data
//! plane does; somebody sends initiations as fast as this machine can, and a home's datagrams
//! between them. In turns: nobody floods, all come by one socket, strangers have one of their own.
//!
//! `cargo bench -p braid-linux --bench strangers`

#![allow(unsafe_code)]

use braid_linux::udp::{Family, LinkBind, LinkSocket, ReceiveBuffers, Steered, Steering};
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU8;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As the core has it: `Worker::SESSION_KIND`, `SESSION_BYTE`.
const STEERING: Steering = Steering { first_byte: 4, by_byte_at: 3 };
/// An initiation's, and a datagram's that a home sends.
const INITIATION: [u8; 416] = [1; 416];
const OF_HOME: [u8; 1400] = {
    let mut bytes = [0; 1400];
    bytes[0] = STEERING.first_byte;
    bytes
};
/// Of these each one of a home's.
const STRANGERS_TO_ONE: u64 = 16;
/// What a turn of the data plane takes with homes at full load.
const WORK: Duration = Duration::from_micros(200);
/// Calls to receive by homes' socket in a turn (`TURN / LEAST_RECEIVED` in the data plane).
const CALLS: usize = 4;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
enum Sockets {
    One,
    Own,
}

/// A round.
struct Seen {
    /// How much of the worker's time went into homes.
    left: f64,
    /// How much of what the home sent has come.
    came: f64,
    /// Datagrams of strangers in a second.
    strangers: f64,
}

fn main() {
    println!("sockets | strangers a second | throughput that is left | of homes' datagrams came");
    let mut all =
        [(Sockets::One, "one", Vec::new()), (Sockets::Own, "one of their own", Vec::new())];
    for _ in 0..ROUNDS {
        for (sockets, _, seen) in &mut all {
            seen.push(round(*sockets));
        }
    }
    for (_, name, seen) in &all {
        let median = |of: fn(&Seen) -> f64| {
            let mut values: Vec<f64> = seen.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        println!(
            "{name} | {:.0} | {:.1} % | {:.1} %",
            median(|seen| seen.strangers),
            100.0 * median(|seen| seen.left),
            100.0 * median(|seen| seen.came)
        );
    }
}

fn round(sockets: Sockets) -> Seen {
    let source = Some(Ipv4Addr::LOCALHOST.into());
    let bind = LinkBind { device: None, source, fwmark: None, port: 0, family: Family::V4 };
    let Steered { owned, others } = match sockets {
        Sockets::One => Steered { owned: vec![LinkSocket::open(&bind).unwrap()], others: None },
        Sockets::Own => LinkSocket::open_steered(&bind, NonZeroU8::MIN, STEERING).unwrap(),
    };
    let homes = &owned[0];
    let to = homes.local_address().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| carry(homes, others.as_ref(), &over));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (began, mut sent) = (Instant::now(), 0);
        while began.elapsed() < ROUND {
            for _ in 0..STRANGERS_TO_ONE {
                let _ = sender.send_to(&INITIATION, to);
            }
            let _ = sender.send_to(&OF_HOME, to);
            sent += 1;
        }
        let strangers = (sent * STRANGERS_TO_ONE) as f64 / began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let (worked, took, came) = worker.join().unwrap();
        let left = worked.as_secs_f64() / took.as_secs_f64();
        Seen { left, came: came as f64 / sent as f64, strangers }
    })
}

/// Gives the time for homes, all of it, and how many datagrams of homes have come.
fn carry(
    homes: &LinkSocket,
    others: Option<&LinkSocket>,
    over: &AtomicBool,
) -> (Duration, Duration, u64) {
    let mut buffers = ReceiveBuffers::new();
    let (mut worked, mut came) = (Duration::ZERO, 0);
    let began = processor_time();
    while !over.load(Ordering::Relaxed) {
        let turn = processor_time();
        while processor_time() - turn < WORK {}
        worked += processor_time() - turn;
        for _ in 0..CALLS {
            let received = homes.receive(&mut buffers, |datagram| {
                came += u64::from(datagram.bytes[0] == STEERING.first_byte);
            });
            if !received.unwrap().more {
                break;
            }
        }
        if let Some(others) = others {
            others.receive(&mut buffers, |_| ()).unwrap();
        }
    }
    (worked, processor_time() - began, came)
}

/// Of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` alone.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
