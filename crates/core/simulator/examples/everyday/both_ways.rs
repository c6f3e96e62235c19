//! Cable, DSL and LTE full in both directions, pings and a call beside it.

use super::{Options, heading, of_each, row};
use braid_simulator::{FlowOutcome, Lane, Simulation, Traffic, TrafficKind, named};
use std::time::Duration;

/// TCP connections each way.
const FLOWS: usize = 4;
/// Slow start is another figure.
const FROM: Duration = Duration::from_secs(2);
/// What TCP's payload can be of IP bytes (MTU 1500, timestamps).
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// A voice packet that takes longer comes too late.
pub(super) const LATE: Duration = Duration::from_millis(150);

struct Figures {
    down: f64,
    up: f64,
    pings: [f64; 2],
    stall: f64,
    voice: f64,
}

pub(super) fn print(options: &Options) {
    for flows in [2, FLOWS] {
        let figures = of_each(options, |seed| play(seed, flows, options));
        heading(&format!("both ways: {FLOWS} down, {flows} up"));
        row("down, share of the sum", figures.iter().map(|f| f.down));
        row("up, share of the sum", figures.iter().map(|f| f.up));
        row("ping p50, ms", figures.iter().map(|f| f.pings[0]));
        row("ping p95, ms", figures.iter().map(|f| f.pings[1]));
        row("longest stall of a TCP flow, ms", figures.iter().map(|f| f.stall));
        row("voice lost or late, %", figures.iter().map(|f| f.voice));
    }
}

fn play(seed: u64, up: usize, options: &Options) -> Figures {
    let mut scenario = named("cable-dsl-lte").expect("it has no recording");
    scenario.seed = seed;
    scenario.heuristics = options.heuristics;
    scenario.traffic.clear();
    scenario.traffic.extend(std::iter::repeat_n(Traffic::tcp(Lane::Down), FLOWS));
    scenario.traffic.extend(std::iter::repeat_n(Traffic::tcp(Lane::Up), up));
    scenario.traffic.push(Traffic::ping());
    scenario.traffic.extend([Lane::Down, Lane::Up].map(|l| Traffic::new(l, TrafficKind::Voip)));
    let duration = scenario.duration;
    let sum = |to_home| {
        scenario.capacity(to_home, FROM, duration) as f64 * 8e-6 / (duration - FROM).as_secs_f64()
    };
    let (down_sum, up_sum) = (sum(true) * PAYLOAD, sum(false) * PAYLOAD);
    let outcome = Simulation::play(scenario);
    let (tcp, others) = outcome.flows.split_at(FLOWS + up);
    let got = |flows: &[FlowOutcome]| flows.iter().map(|f| f.mbit(FROM, duration)).sum::<f64>();
    let ping = |share| others[0].delay_percentile(share).unwrap_or_default().as_secs_f64() * 1e3;
    Figures {
        down: got(&tcp[..FLOWS]) / down_sum,
        up: got(&tcp[FLOWS..]) / up_sum,
        pings: [ping(0.5), ping(0.95)],
        stall: tcp.iter().map(|f| f.longest_stall.as_secs_f64() * 1e3).fold(0.0, f64::max),
        voice: lost_or_late(&others[1..]) * 100.0,
    }
}

/// Share of these calls' packets.
pub(super) fn lost_or_late(calls: &[FlowOutcome]) -> f64 {
    let sent: u64 = calls.iter().map(|f| f.sent[0]).sum();
    let in_time = |f: &FlowOutcome| f.delays.iter().filter(|delay| **delay <= LATE).count();
    let in_time: usize = calls.iter().map(in_time).sum();
    1.0 - in_time as f64 / sent.max(1) as f64
}
