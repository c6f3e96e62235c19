//! What several workers carry together, on this machine: HOMES homes and their concentrator
//! in one thread, then in two, ... up to MOST, each with as many of the homes.
//!
//! ```text
//! workers [HOMES [MOST [SIZE [up|down [SECONDS_PER_GB [MEMORY_GB_PER_S]]]]]]
//! ```
//!
//! Counted is what the concentrator's end takes, by each thread's clock: datagrams that the
//! kernel has steered to the right worker, so no handover, and nothing of the kernel. Each row
//! is the best of five rounds, in turn with the others'.
//!
//! With the processor time that a whole concentrator takes for a gigabyte, of which
//! `scenarios/measure/workers` tells, a [`model`] fitted to the rounds says where 16 processors
//! would end up; with the bandwidth of that machine's memory in place of this one's, where it is
//! given.

#[path = "../../benches/star/mod.rs"]
mod star;

mod handing_over;
mod memory;
mod model;

use star::{CONCENTRATOR_TIME, Load, Star, TIMED, TURN};
use std::sync::Barrier;
use std::thread;

const ROUNDS: usize = 5;
const TURNS: u32 = 3000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| -> usize {
        arguments.get(index).map_or(default, |text| text.parse().expect("a number"))
    };
    let (homes, most, size) = (number(0, 64), number(1, 2), number(2, 1500));
    let up = arguments.get(3).is_none_or(|way| way == "up");
    let figure = |index: usize| -> Option<f64> {
        arguments.get(index).map(|text| text.parse().expect("a number"))
    };
    let mut best = vec![0.0_f64; most];
    let mut speedups = Vec::new();
    for _ in 0..ROUNDS {
        let round: Vec<f64> = (1..=most).map(|workers| carried(workers, homes, size, up)).collect();
        for (best, rate) in best.iter_mut().zip(&round) {
            *best = best.max(*rate);
        }
        speedups.extend(round.get(1).map(|two| two / round[0]));
    }
    for (place, rate) in best.iter().enumerate() {
        println!(
            "{} workers, {homes} homes, {}: {:.0} packets/s, {:.2} times one",
            place + 1,
            if up { "received" } else { "sent" },
            rate,
            rate / best[0]
        );
    }
    if let Some(seconds_per_gb) = figure(4) {
        model::tell(seconds_per_gb, &mut speedups, best[0], figure(5));
    }
}

/// Packets that so many workers carry in a second of theirs, together.
fn carried(workers: usize, homes: usize, size: usize, up: bool) -> f64 {
    let begin = Barrier::new(workers);
    thread::scope(|scope| {
        let worker = || {
            let homes = homes / workers;
            let load = Load { size, packets: 32, up, down: !up, busy: homes };
            let mut star = Star::new(homes, 1).cpu_bound().with_rows(8);
            star.run(load, TURN * 1000);
            begin.wait();
            CONCENTRATOR_TIME.take();
            TIMED.set(true);
            let delivered = star.run(load, TURN * TURNS);
            delivered.packets as f64 / CONCENTRATOR_TIME.take().as_secs_f64()
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker that ends")).sum()
    })
}
