//! A load through the whole core, for `callgrind` and other profilers:
//!
//! ```text
//! instructions SIZE PACKETS_A_TURN TURNS [HOMES [LINKS [BUSY [up|down|both [ROW [EVERY]]]]]]
//! ```
//!
//! Busy homes get ROW packets one after another, then the next home does; packets
//! come in one of EVERY turns only.
//! `scenarios/measure/instructions` counts what a packet costs by it. With `WAIT`
//! in the environment it says `warm` when all are connected and the load has run
//! for a while, and waits for a line before the part that is to be counted. With
//! `TIME` it says what the concentrator alone took, each call with a look at the
//! clock; what else runs meanwhile counts too, so take the least of many runs. With
//! `DELAY_MS` the links take so long one way, as those of homes do, and the load runs
//! for 4 s before it counts.

#[path = "../benches/star/mod.rs"]
mod star;

use std::time::Duration;

use star::{CONCENTRATOR_TIME, Load, Star, TIMED, TURN};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| -> usize {
        arguments.get(index).map_or(default, |text| text.parse().expect("a number"))
    };
    let (size, packets, turns) = (number(0, 92), number(1, 32), number(2, 1000));
    let (homes, links, busy) = (number(3, 1), number(4, 1), number(5, 1));
    let direction = arguments.get(6).map_or("down", String::as_str);
    let load = Load {
        size: if size > 60_000 { Load::SUPER } else { size },
        packets,
        up: direction != "down",
        down: direction != "up",
        busy,
    };
    let delay_ms = std::env::var("DELAY_MS").ok().map(|ms| ms.parse().expect("milliseconds"));
    let star = match delay_ms.map(Duration::from_millis) {
        Some(delay) => Star::with_delay(homes, links as u16, delay),
        None => Star::new(homes, links as u16),
    };
    // It gets more than links of homes take: then the data plane says so.
    let star = star.cpu_bound();
    let mut star = star.with_rows(number(7, 1)).with_pauses(number(8, 1) as u64);
    star.run(load, if delay_ms.is_some() { Duration::from_secs(4) } else { TURN * 2_000 });
    if std::env::var_os("WAIT").is_some() {
        println!("warm");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a line");
    }
    TIMED.set(std::env::var_os("TIME").is_some());
    let before = processor_time();
    let delivered = star.run(load, TURN * turns as u32);
    let time = processor_time() - before;
    if std::env::var_os("REPORT").is_some() {
        println!("{}", star.report());
    }
    println!("{} packets, {} bytes", delivered.packets, delivered.bytes);
    println!("{:.1} ns a packet, both ends together", time as f64 / delivered.packets as f64);
    if TIMED.get() {
        let time = CONCENTRATOR_TIME.get().as_nanos() as f64;
        println!("{:.1} ns a packet at the concentrator", time / delivered.packets as f64);
    }
}

/// Nanoseconds that this thread has had a processor (proc_pid_schedstat in the
/// kernel's Documentation/scheduler/sched-stats.rst).
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0)
}
