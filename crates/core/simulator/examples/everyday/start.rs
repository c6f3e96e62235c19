//! The first seconds of a download: after the tunnel came up, after a pause, after a restart.

use super::{Options, heading, of_each, row};
use braid_simulator::{
    Action, Capacity, Congestion, DirectionModel, Lane, LinkSpec, Scenario, Simulation, Traffic,
    TrafficKind, named, play_plain,
};
use braid_units::Rate;
use std::time::Duration;

/// The first download, of those that have one before, lasts for so long...
const BEFORE: Duration = Duration::from_secs(6);
const UP: Duration = Duration::from_secs(3);
/// ...and what is measured is this.
const FIRST: Duration = Duration::from_secs(2);
const PAYLOAD: f64 = 1448.0 / 1500.0;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Fresh,
    AfterPause(u64),
    HomeRestarts,
    ConcentratorRestarts,
    /// The links have a quarter of their rates after a pause.
    Dropped(u64),
}

pub(super) fn print(options: &Options) {
    for set in ["six-3g", "cable-dsl-lte", "mixed"] {
        let best = of_each(options, |seed| by_one_link(&links(set, seed)));
        heading(&format!("first {} s of {set}, share of the sum", FIRST.as_secs()));
        row("one link that has the sum", best.iter().copied());
        for kind in [
            Kind::Fresh,
            Kind::AfterPause(5),
            Kind::AfterPause(60),
            Kind::HomeRestarts,
            Kind::ConcentratorRestarts,
            Kind::Dropped(5),
            Kind::Dropped(60),
        ] {
            let figures = of_each(options, |seed| play(&links(set, seed), kind, options));
            row(&format!("{kind:?}"), figures.iter().map(|f| f.0));
            row("   ping p95, ms", figures.iter().map(|f| f.1));
            row("   lost on the links, KB", figures.iter().map(|f| f.2));
        }
    }
}

fn links(set: &str, seed: u64) -> Scenario {
    let name = if set == "mixed" { format!("mixed-{seed}") } else { set.to_string() };
    let mut scenario = named(&name).expect("it has no recording");
    scenario.seed = seed;
    scenario.traffic.clear();
    scenario
}

/// Share of the sum, the pings' 95th percentile, and what was dropped on the links in KB.
fn play(scenario: &Scenario, kind: Kind, options: &Options) -> (f64, f64, f64) {
    let mut scenario = scenario.clone();
    scenario.heuristics = options.heuristics;
    let pause = match kind {
        Kind::Fresh => Duration::ZERO,
        Kind::AfterPause(seconds) | Kind::Dropped(seconds) => Duration::from_secs(seconds),
        Kind::HomeRestarts | Kind::ConcentratorRestarts => Duration::from_secs(5),
    };
    let first = UP + BEFORE;
    let start = if matches!(kind, Kind::Fresh) { UP } else { first + pause };
    let end = start + FIRST;
    scenario.duration = end;
    if start > UP {
        let mut before = Traffic::tcp(Lane::Down).from(UP);
        before.stop = first;
        scenario.traffic.push(before);
    }
    let restart = first + Duration::from_secs(2);
    match kind {
        Kind::HomeRestarts => scenario = scenario.event(restart, Action::RestartHome(0)),
        Kind::ConcentratorRestarts => {
            scenario = scenario.event(restart, Action::RestartConcentrator);
        }
        Kind::Dropped(_) => {
            let quarter = |model: &DirectionModel| {
                let Capacity::Rate(rate) = model.capacity else { return model.clone() };
                DirectionModel { capacity: Capacity::Rate(rate.scaled(0.25)), ..model.clone() }
            };
            for (place, link) in scenario.links.clone().iter().enumerate() {
                let down = Action::SetDown(place, quarter(&link.down));
                scenario = scenario.event(restart, down);
            }
        }
        Kind::Fresh | Kind::AfterPause(_) => {}
    }
    scenario.traffic.push(Traffic::ping().from(start));
    scenario.traffic.push(Traffic::tcp(Lane::Down).from(start));
    let sum = scenario.capacity(true, start, end) as f64 * PAYLOAD;
    let outcome = Simulation::play(scenario);
    let flows = &outcome.flows;
    let [.., ping, flow] = flows.as_slice() else { return Default::default() };
    let lost: u64 = outcome.concentrator.iter().map(|report| report.lost).sum();
    let ping = ping.delay_percentile(0.95).unwrap_or(FIRST).as_secs_f64() * 1e3;
    (flow.bytes_between(start, end) as f64 / sum, ping, lost as f64 * 1.4)
}

/// What the same sender gets by one clean link that has all rates together, and the least delay:
/// its own slow start.
fn by_one_link(scenario: &Scenario) -> f64 {
    let rate = |of: fn(&LinkSpec) -> &DirectionModel| {
        let bits = scenario.links.iter().map(|link| match of(link).capacity {
            Capacity::Rate(rate) => rate.bits_per_sec(),
            _ => 0,
        });
        Rate::from_bits_per_sec(bits.sum())
    };
    let delay = scenario.links.iter().map(|link| (link.down.delay + link.up.delay) / 2).min();
    let link = LinkSpec::clean(rate(|l| &l.down), rate(|l| &l.up), delay.unwrap_or_default());
    let kind = TrafficKind::Tcp { congestion: Congestion::Cubic, super_packets: false };
    let one = Scenario::new(vec![link]).traffic(Traffic::new(Lane::Down, kind)).lasting(FIRST);
    let sum = one.capacity(true, Duration::ZERO, FIRST) as f64 * PAYLOAD;
    play_plain(&one, 0)[0].bytes_between(Duration::ZERO, FIRST) as f64 / sum
}
