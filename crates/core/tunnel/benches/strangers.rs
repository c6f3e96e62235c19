//! What is left for those who are connected while somebody sends initiations
//! at line rate: the core of a concentrator with and without him, in turns.
//!
//! `cargo bench -p braid-tunnel --bench strangers`

mod star;

use star::{Load, Star, TURN, initiations};
use std::time::Duration;

/// Bytes of an initiation on an Ethernet: with the headers of UDP and IPv4,
/// and Ethernet's with preamble, check and gap.
const ON_THE_LINE: u64 = 416 + 28 + 38;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(500);

fn main() {
    let mut initiations = initiations(997);
    println!("Gbit/s of initiations | of a processor for them | throughput that is left");
    for gbit in [0.1, 1.0, 2.5] {
        let per_second = gbit * 1e9 / 8.0 / ON_THE_LINE as f64;
        let mut shares: Vec<f64> =
            (0..ROUNDS).map(|_| share(&mut initiations, per_second)).collect();
        shares.sort_by(f64::total_cmp);
        let share = shares[ROUNDS / 2];
        println!(
            "{gbit:3.1} ({per_second:.0} a second) | {:.1} % | {:.1} %",
            100.0 * share,
            100.0 * (1.0 - share)
        );
    }
}

/// Processor time that the strangers take: a core that has nothing else to do
/// has so much less for homes.
fn share(initiations: &mut [Vec<u8>], per_second: f64) -> f64 {
    let load = Load { size: Load::SUPER, packets: 1, up: false, down: true, busy: 1 };
    let mut star = Star::with_handshakes(1, 2, Duration::from_millis(5), 50);
    let mut time = |per_turn: f64| {
        let (before, mut owed, mut next) = (processor_time(), 0.0, 0);
        for _ in 0..ROUND.as_nanos() / TURN.as_nanos() {
            owed += per_turn;
            let count = owed as usize;
            owed -= count as f64;
            next = if next + count > initiations.len() { 0 } else { next };
            star.strangers(&mut initiations[next..next + count]);
            next += count;
            star.turn(load);
        }
        processor_time() - before
    };
    let per_turn = per_second * TURN.as_secs_f64();
    // What may come at once is spent first.
    time(per_turn);
    let together = time(per_turn);
    let alone = time(0.0);
    (together.as_secs_f64() - alone.as_secs_f64()) / ROUND.as_secs_f64()
}

/// Of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("its time in nanoseconds"))
}
