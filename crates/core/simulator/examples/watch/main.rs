//! Prints a scenario second by second: `watch NAME|point=N [SEED] [up] [reno] [udp]
//! [plain] [shifted] [why] [only=LINK] [step=MS] [from=SECONDS]`. `shifted` takes
//! other parts of recordings for each seed, `why` tells what kept the links from
//! carrying more, `only` leaves one link, counted from 0, `step` prints so often,
//! `from` lets the first flow begin so late.

mod unused;

use braid_simulator::{
    Capacity, Congestion, EndId, FlowOutcome, Lane, NAMES, Point, Scenario, Simulation, Traffic,
    TrafficKind, named,
};
use braid_tunnel::PeerReport;
use std::time::Duration;
use unused::Unused;

/// Payload's share of a full plain TCP packet.
const PLAIN_TCP: f64 = 1448.0 / 1500.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let of_point = |name: &str| Some(point(name.strip_prefix("point=")?.parse().ok()?));
    let scenario = arguments.first().and_then(|name| of_point(name).or_else(|| named(name)));
    let Some(mut scenario) = scenario else {
        eprintln!(
            "usage: watch NAME|point=N [SEED] [up] [reno] [udp] [plain] [shifted] [why] [only=LINK] \
             [step=MS] [from=SECONDS]"
        );
        eprintln!("names: {}", NAMES.join(", "));
        std::process::exit(2);
    };
    let has = |word: &str| arguments.iter().any(|a| a == word);
    // Another part of the recordings for each seed.
    if arguments.iter().any(|a| a == "shifted") {
        let seed: u32 = arguments.get(1).and_then(|s| s.parse().ok()).unwrap_or(1);
        for link in &mut scenario.links {
            for direction in [&mut link.down, &mut link.up] {
                if let Capacity::Trace { offset, .. } = &mut direction.capacity {
                    *offset += Duration::from_secs(9) * seed;
                }
            }
        }
    }
    if let Some(seed) = arguments.get(1).and_then(|s| s.parse().ok()) {
        scenario.seed = seed;
    }
    let only = arguments.iter().find_map(|a| a.strip_prefix("only=")?.parse().ok());
    if let Some(link) = only.filter(|&link: &usize| link < scenario.links.len()) {
        scenario.links = vec![scenario.links.swap_remove(link)];
        scenario.events.clear();
    }
    let drawn = arguments[0].starts_with("point=");
    if let Some(flow) = scenario.traffic.first_mut().filter(|_| !drawn) {
        if has("up") {
            *flow = Traffic::tcp(Lane::Up);
        }
        if has("udp") {
            flow.kind = TrafficKind::Greedy { backlog: 200_000, size: 1400 };
        } else {
            let congestion = if has("reno") { Congestion::Reno } else { Congestion::Cubic };
            flow.kind = TrafficKind::Tcp { congestion, super_packets: !has("plain") };
        }
    }
    if let Some(from) = arguments.iter().find_map(|a| a.strip_prefix("from=")?.parse().ok()) {
        scenario.duration += Duration::from_secs(from);
        scenario.traffic[0].start = Duration::from_secs(from);
    }
    let step = arguments.iter().find_map(|a| a.strip_prefix("step=")?.parse().ok());
    watch(scenario, has("why"), Duration::from_millis(step.unwrap_or(1000).max(1)));
}

/// That of `map`, its first flow before the pings.
fn point(number: u64) -> Scenario {
    let mut scenario = Point::draw(number).tunnelled();
    scenario.traffic.swap(0, 1);
    scenario
}

fn watch(scenario: Scenario, why: bool, step: Duration) {
    let lane = scenario.traffic[0].lane;
    let sender = if lane == Lane::Up { EndId::Home(0) } else { EndId::Concentrator };
    let mut simulation = Simulation::new(scenario.clone());
    let mut unused = why.then(|| Unused::new(&scenario, lane == Lane::Down));
    print_links(&scenario);
    println!("w: TCP window, x: cuts of it, q: entry queue");
    println!("each path: rate estimate Mbit/s (capacity) in flight KB / queue ms / srtt ms state");
    let mut to = Duration::ZERO;
    while to < scenario.duration {
        let from = to;
        to = (from + step).min(scenario.duration);
        match &mut unused {
            Some(unused) => unused.run(&mut simulation, &scenario, sender, to),
            None => simulation.run_until(to),
        }
        let flows = simulation.flows();
        let flow = &flows[0];
        let Some(report) = simulation.report(sender).into_iter().next() else { continue };
        let sum = scenario.capacity(lane == Lane::Down, from, to) as f64 * 8e-6
            / (to - from).as_secs_f64();
        // All flows of the same kind.
        let alike = scenario.traffic.iter().zip(&flows).filter(|(t, _)| t.lane == lane);
        let alike = alike.filter(|(t, _)| t.kind == scenario.traffic[0].kind);
        let got: f64 = alike.map(|(_, flow)| flow.mbit(from, to)).sum();
        print!("{:6.2} {got:6.2} of {sum:6.2} {:3.0}%", to.as_secs_f64(), share(got, sum) * 100.0);
        print!(" w{:4} x{:2} q{:4}K", flow.window, flow.cuts, report.entry.bytes / 1000);
        print_paths(&report, &scenario, lane, from, to);
        println!();
    }
    let outcome = simulation.finish();
    let flow = &outcome.flows[0];
    print_goodput(flow, &scenario, lane);
    if let Some(unused) = unused {
        unused.print(flow.bytes_between(Duration::ZERO, scenario.duration));
    }
    println!(
        "longest stall {:.0} ms, TCP timeouts {}, lost {} dup {} reordered {}",
        flow.longest_stall.as_secs_f64() * 1e3,
        flow.timeouts,
        flow.lost(),
        flow.duplicates,
        flow.reordered
    );
    if let Some(ping) = outcome.flows.get(1) {
        print_pings(ping, best_idle_rtt(&scenario));
    }
    let reports = if lane == Lane::Up { &outcome.homes } else { &outcome.concentrator };
    for report in reports {
        println!("entry {:?}\n{:?}", report.entry, report.counters);
        for path in &report.paths {
            println!("  path {}: datagram {} {:?}", path.id, path.datagram, path.counters);
        }
    }
    let peer = if lane == Lane::Up { &outcome.concentrator } else { &outcome.homes };
    for report in peer {
        println!("other end: exit {:?}\n{:?}", report.exit, report.counters);
    }
    println!("memory high-water {} KB", outcome.memory_high_water / 1000);
    for violation in &outcome.violations {
        println!("VIOLATION {violation}");
    }
}

fn print_links(scenario: &Scenario) {
    for (index, link) in scenario.links.iter().enumerate() {
        let down = &link.down;
        let mbit = scenario.link_capacity(index, true, Duration::ZERO, Duration::from_secs(1));
        println!(
            "link {index}: {:.2} Mbit/s down, delay {:?}, jitter {:?}, {:?}, queue {} KB",
            mbit as f64 * 8e-6,
            down.delay,
            down.jitter,
            down.loss,
            down.queue.bytes() / 1000
        );
    }
}

fn print_goodput(flow: &FlowOutcome, scenario: &Scenario, lane: Lane) {
    let seconds = scenario.duration.as_secs();
    for (from, to) in [(0, seconds), (2, seconds)] {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        let sum = scenario.capacity(lane == Lane::Down, from, to) as f64 * 8e-6
            / (to - from).as_secs_f64();
        let got = flow.mbit(from, to);
        println!(
            "{:>3}-{:<3}s goodput {got:.2} Mbit/s = {:.1} % of the links' sum (TCP payload)",
            from.as_secs(),
            to.as_secs(),
            share(got, sum) * 100.0
        );
    }
}

/// `best_idle` in milliseconds.
fn print_pings(ping: &FlowOutcome, best_idle: f64) {
    let ms = |p: f64| ping.delay_percentile(p).unwrap_or_default().as_secs_f64() * 1e3;
    println!(
        "ping p50 {:.1} p95 {:.1} max {:.1} ms (best idle {best_idle:.1}; p95 is +{:.1}), lost {}",
        ms(0.5),
        ms(0.95),
        ms(1.0),
        ms(0.95) - best_idle,
        ping.lost()
    );
}

fn print_paths(r: &PeerReport, scenario: &Scenario, lane: Lane, from: Duration, to: Duration) {
    let mut paths: Vec<_> = r.paths.iter().collect();
    paths.sort_by_key(|p| p.id);
    for path in paths {
        let link = usize::from(path.id).min(scenario.links.len() - 1);
        let capacity = scenario.link_capacity(link, lane == Lane::Down, from, to) as f64 * 8e-6;
        print!(
            " | {:5.2} ({capacity:4.1}) {:3}K/{:3.0}/{:3.0} {}",
            path.bandwidth.mbit(),
            path.in_flight / 1000,
            path.queue.as_secs_f64() * 1e3,
            path.srtt.as_secs_f64() * 1e3,
            &format!("{:?}", path.state)[..2],
        );
    }
}

/// Share of what plain TCP gets out of so many megabits of IP.
fn share(got: f64, sum: f64) -> f64 {
    got / (sum * PLAIN_TCP).max(1e-9)
}

/// The least round-trip time of any link in milliseconds, with half the jitter.
fn best_idle_rtt(scenario: &Scenario) -> f64 {
    scenario
        .links
        .iter()
        .map(|l| l.down.delay + l.up.delay + (l.down.jitter + l.up.jitter) / 2)
        .min()
        .unwrap_or_default()
        .as_secs_f64()
        * 1e3
}
