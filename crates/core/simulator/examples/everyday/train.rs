//! A call on a train, beside a download: two to four cellular links whose rates change each
//! second, that are dark for seconds now and then, and whose addresses change.

use super::both_ways::{LATE, lost_or_late};
use super::{Options, heading, of_each, row};
use braid_simulator::{
    Action, Capacity, DirectionModel, Lane, LinkSpec, Loss, Scenario, Simulation, Traffic,
    TrafficKind,
};
use braid_units::{ByteSize, Rate, Ratio};
use std::time::Duration;

const LASTING: Duration = Duration::from_secs(40);
/// Of a call: 200 bytes of IP, in the tunnel.
const PACKET: u64 = 260;

struct Figures {
    voice: f64,
    down: f64,
    up: f64,
    /// What the best choice of link for each packet could do beside what the links carried.
    beside: f64,
    /// The same if the links carried nothing else.
    alone: f64,
    mbit: f64,
    share: f64,
    bytes: f64,
    ping: f64,
}

pub(super) fn print(options: &Options) {
    let figures = of_each(options, |seed| play(seed, options));
    heading("train");
    row("voice lost or late, %", figures.iter().map(|f| f.voice));
    row("  down", figures.iter().map(|f| f.down));
    row("  up", figures.iter().map(|f| f.up));
    row("  by an oracle beside what was carried", figures.iter().map(|f| f.beside));
    row("  by an oracle on empty links", figures.iter().map(|f| f.alone));
    row("download, Mbit/s", figures.iter().map(|f| f.mbit));
    row("download, share of the sum", figures.iter().map(|f| f.share));
    row("bytes on the links by what arrived", figures.iter().map(|f| f.bytes));
    row("ping p95, ms", figures.iter().map(|f| f.ping));
}

fn play(seed: u64, options: &Options) -> Figures {
    let mut scenario = draw(seed);
    scenario.heuristics = options.heuristics;
    let mut simulation = Simulation::new(scenario.clone());
    let (mut sent, mut beside, mut alone) = (0_u64, 0_u64, 0_u64);
    let mut at = Duration::from_millis(100);
    while at + LATE < LASTING {
        simulation.run_until(at);
        for down in [true, false] {
            let in_time = |link: usize, waiting: u64| {
                let spec = &scenario.links[link];
                let model = if down { &spec.down } else { &spec.up };
                let left = LATE - model.delay - model.jitter / 2;
                let carries = scenario.link_capacity(link, down, at, at + left);
                let now = scenario.link_capacity(link, down, at, at + Duration::from_millis(2));
                now > 0 && carries >= waiting + PACKET
            };
            sent += 1;
            let links = 0..scenario.links.len();
            let waiting: Vec<u64> = links.map(|link| simulation.waiting(link, down)).collect();
            let any = |of: &dyn Fn(usize) -> u64| (0..waiting.len()).any(|l| in_time(l, of(l)));
            beside += u64::from(!any(&|link| waiting[link]));
            alone += u64::from(!any(&|_| 0));
        }
        at += Duration::from_millis(20);
    }
    simulation.run_until(LASTING + scenario.drain);
    let outcome = simulation.finish();
    let flows = &outcome.flows;
    let calls = &flows[1..3];
    let carried: u64 = outcome.link_bytes.iter().map(|(down, up)| down + up).sum();
    let got: u64 = flows.iter().flat_map(|flow| &flow.tenths).sum();
    let sum =
        scenario.capacity(true, Duration::ZERO, LASTING) as f64 * 8e-6 / LASTING.as_secs_f64();
    let mbit = flows[0].mbit(Duration::ZERO, LASTING);
    let percent = |part: u64| part as f64 / sent as f64 * 100.0;
    Figures {
        voice: lost_or_late(calls) * 100.0,
        down: lost_or_late(&calls[..1]) * 100.0,
        up: lost_or_late(&calls[1..]) * 100.0,
        beside: percent(beside),
        alone: percent(alone),
        mbit,
        share: mbit / sum,
        bytes: carried as f64 / got as f64,
        ping: flows[3].delay_percentile(0.95).unwrap_or_default().as_secs_f64() * 1e3,
    }
}

/// Train number `seed`, always the same.
fn draw(seed: u64) -> Scenario {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.f64());
    let links: Vec<LinkSpec> = (0..between(2.0, 5.0) as usize)
        .map(|_| {
            let down = between(4e6, 20e6);
            let delay = Duration::from_secs_f64(between(0.025, 0.055));
            let jitter = Duration::from_secs_f64(between(0.003, 0.015));
            let loss = Loss::Random(Ratio::from_fraction(between(5e-4, 5e-3)));
            let direction = |rate: f64| DirectionModel {
                jitter,
                loss,
                queue: ByteSize::from_bytes((rate / 8.0 * 0.4) as u64),
                ..DirectionModel::clean(Rate::from_bits_per_sec(rate as u64), delay)
            };
            LinkSpec { mtu: 1428, ..LinkSpec::new(direction(down), direction(down / 2.0)) }
        })
        .collect();
    let mut scenario = Scenario::new(links.clone()).lasting(LASTING);
    scenario.seed = seed;
    for (place, link) in links.iter().enumerate() {
        let mut at = 0.2;
        while at < LASTING.as_secs_f64() {
            // Between a tenth and all.
            let part = between(0.1, 1.0);
            let when = Duration::from_secs_f64(at);
            scenario = scenario
                .event(when, Action::SetDown(place, scaled(&link.down, part)))
                .event(when, Action::SetUp(place, scaled(&link.up, part)));
            at += 1.0;
        }
        let mut dark = between(3.0, 25.0);
        while dark < LASTING.as_secs_f64() {
            let light = dark + between(0.7, 4.0);
            scenario = scenario
                .event(Duration::from_secs_f64(dark), Action::Blackout(place, true))
                .event(Duration::from_secs_f64(light), Action::Blackout(place, false));
            dark = light + between(5.0, 25.0);
        }
        let when = Duration::from_secs_f64(between(5.0, 35.0));
        scenario = scenario.event(when, Action::Rebind(place));
    }
    scenario
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(Traffic::new(Lane::Down, TrafficKind::Voip))
        .traffic(Traffic::new(Lane::Up, TrafficKind::Voip))
        .traffic(Traffic::ping())
}

fn scaled(direction: &DirectionModel, part: f64) -> DirectionModel {
    let Capacity::Rate(rate) = direction.capacity else { return direction.clone() };
    DirectionModel { capacity: Capacity::Rate(rate.scaled(part)), ..direction.clone() }
}
