//! Links that never change, but are of kinds that are easily misread.

use crate::support::{millis, secs};
use braid_simulator::{DirectionSpec, Lane, LinkSpec, Scenario, Simulation, Traffic};
use braid_simulator::{TrafficKind, named};
use braid_units::Rate;

#[test]
fn jitter_many_times_the_delay_is_no_queue() {
    // By a window made of the least round trip it would carry 1 Mbit/s.
    for jitter in [110, 150] {
        let direction = |mbit| DirectionSpec {
            jitter: millis(jitter),
            queue: 300_000,
            ..DirectionSpec::clean(Rate::from_mbit(mbit), millis(6))
        };
        let link = LinkSpec {
            down: direction(48),
            up: direction(10),
            ..LinkSpec::clean(Rate::ZERO, Rate::ZERO, millis(0))
        };
        let greedy = TrafficKind::Greedy { backlog: 300_000, size: 1400 };
        let scenario = Scenario::new(vec![link]).lasting(secs(12));
        let outcome = Simulation::play(scenario.traffic(Traffic::new(Lane::Down, greedy)));
        let mbit = outcome.flows[0].mbit(secs(2), secs(12));
        assert!(mbit > 5.0, "{mbit} of 48 with a jitter of {jitter} ms");
        assert_eq!(outcome.violations, [] as [String; 0]);
    }
}

#[test]
fn jitter_on_one_link_of_four_leaves_that_link_in_use() {
    // Without that link it has 57 % of the sum.
    let mut scenario = named("slow-13").expect("a set without recordings");
    scenario.seed = 13;
    let (from, to) = (secs(2), secs(10));
    let sum = scenario.capacity(true, from, to) as f64 * 8e-6 / (to - from).as_secs_f64();
    let outcome = Simulation::play(scenario);
    let mbit = outcome.flows[0].mbit(from, to);
    assert!(mbit > 0.65 * sum, "{mbit} of {sum}");
}
