use braid_simulator::{
    Capacity, Lane, LinkSpec, Outcome, Scenario, Simulation, Trace, Traffic, TrafficKind,
};
use braid_units::{ByteSize, Rate};
use std::sync::Arc;
use std::time::Duration;

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A clean link: Mbit/s down and up, delay in milliseconds one way.
pub fn link(down: u64, up: u64, delay: u64) -> LinkSpec {
    LinkSpec::clean(Rate::from_mbit(down), Rate::from_mbit(up), millis(delay))
}

/// A link that carries 1500 bytes down at each of these milliseconds; 2 Mbit/s
/// up, delay in milliseconds one way.
pub fn traced(opportunities: impl Iterator<Item = u32>, delay: u64) -> LinkSpec {
    let trace = Arc::new(Trace::from_millis(opportunities.collect()).unwrap());
    let mut link = link(1, 2, delay);
    link.down.capacity = Capacity::Trace { trace, offset: Duration::ZERO };
    link.down.queue = ByteSize::from_bytes(200_000);
    link
}

/// Three links as a house may have them, all below 80 ms one way.
pub fn three_links() -> Vec<LinkSpec> {
    vec![link(30, 6, 8), link(20, 4, 20), link(10, 4, 40)]
}

/// A home with two links and one with a third, which both ping while the first
/// downloads.
pub fn two_homes() -> Scenario {
    let mut links = vec![link(10, 5, 10), link(5, 5, 30), link(8, 4, 15)];
    links[2].home = 1;
    let mut scenario = Scenario::new(links)
        .traffic(pings())
        .traffic(pings().of_home(1))
        .traffic(Traffic::tcp(Lane::Down));
    scenario.homes = 2;
    scenario
}

/// 50 pings a second from the home.
pub fn pings() -> Traffic {
    Traffic::new(Lane::Up, TrafficKind::Ping { interval: millis(20) })
}

/// UDP at a constant rate.
pub fn constant(lane: Lane, kbit: u64, size: usize) -> Traffic {
    Traffic::new(lane, TrafficKind::Constant { rate: Rate::from_bits_per_sec(kbit * 1000), size })
}

/// Plays it; no rule may be broken.
pub fn play(scenario: Scenario) -> Outcome {
    let outcome = Simulation::play(scenario);
    assert_eq!(outcome.violations, Vec::<String>::new());
    outcome
}

/// As [`play`], and every packet put in came out.
pub fn play_without_loss(scenario: Scenario) -> Outcome {
    let outcome = play(scenario);
    for flow in &outcome.flows {
        assert!(flow.sent[0] > 10, "{:?} sent nothing", flow.kind);
        assert_eq!(flow.sent, flow.delivered, "{:?} lost something", flow.kind);
    }
    outcome
}
