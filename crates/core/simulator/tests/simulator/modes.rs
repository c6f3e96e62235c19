//! The modes do what their names say.

use crate::support::{constant, link, millis, play, secs, two_homes};
use braid_inner::{BondingHash, Layer};
use braid_simulator::{Action, EndId, Lane, Loss, Scenario, Simulation, Traffic, TrafficKind};
use braid_tunnel::Mode;
use braid_units::Ratio;

fn two_links(mode: Mode) -> Scenario {
    let mut scenario = Scenario::new(vec![link(10, 10, 5), link(10, 10, 40)])
        .traffic(constant(Lane::Up, 3000, 1200).from(secs(1)))
        .lasting(secs(6));
    scenario.mode = mode;
    scenario
}

#[test]
fn round_robin_takes_turns_and_reorders() {
    let outcome = play(two_links(Mode::BalanceRr));
    let (first, second) = (outcome.link_bytes[0].1 as f64, outcome.link_bytes[1].1 as f64);
    assert!((0.9..1.1).contains(&(first / second)), "{first} {second}");
    let flow = &outcome.flows[0];
    assert!(flow.reordered > flow.sent[0] / 4, "{} of {}", flow.reordered, flow.sent[0]);
    assert_eq!(flow.lost(), 0);
}

#[test]
fn xor_keeps_a_flow_on_one_link() {
    let outcome = play(two_links(Mode::BalanceXor(BondingHash::Layer34)));
    let (first, second) = (outcome.link_bytes[0].1, outcome.link_bytes[1].1);
    let (used, other) = (first.max(second), first.min(second));
    assert!(used > 1_500_000 && other < 200_000, "{first} {second}");
    assert_eq!((outcome.flows[0].lost(), outcome.flows[0].reordered), (0, 0));
}

#[test]
fn active_backup_uses_one_link_until_it_dies() {
    let scenario = two_links(Mode::ActiveBackup).event(secs(4), Action::Blackout(0, true));
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(secs(4));
    let sent = |s: &Simulation| -> Vec<u64> {
        let report = &s.report(EndId::Home(0))[0];
        report.paths.iter().map(|p| p.counters.sent_bytes).collect()
    };
    let before = sent(&simulation);
    assert!(before[0] > 1_000_000 && before[1] < 100_000, "{before:?}");
    simulation.run_until(secs(10));
    let after = sent(&simulation);
    assert!(after[1] - before[1] > 500_000, "{before:?} {after:?}");
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    let resumed = outcome.flows[0].first_delivery_after(millis(4100)).unwrap();
    assert!(resumed < millis(4600), "{resumed:?}");
}

#[test]
fn broadcast_survives_what_single_links_lose() {
    let mut scenario = two_links(Mode::Broadcast);
    for link in &mut scenario.links {
        link.up.loss = Loss::Random(Ratio::from_fraction(0.1));
    }
    let outcome = play(scenario);
    let flow = &outcome.flows[0];
    let share = flow.lost() as f64 / flow.sent[0] as f64;
    assert!(share < 0.03, "{share}: independent losses of 10 % make 1 %");
    assert_eq!(flow.duplicates, 0);
    for (_, up) in &outcome.link_bytes {
        assert!(*up > 1_500_000, "{:?}", outcome.link_bytes);
    }
}

#[test]
fn the_peer_follows_a_change_of_mode() {
    let mut scenario = two_links(Mode::Adaptive)
        .traffic(constant(Lane::Down, 3000, 1200).from(secs(1)))
        .event(secs(3), Action::SetMode(0, Mode::BalanceRr));
    scenario.traffic.remove(0);
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(secs(3));
    let reordered = simulation.flows()[0].reordered;
    assert_eq!(reordered, 0);
    simulation.run_until(secs(8));
    assert_eq!(simulation.report(EndId::Concentrator)[0].mode, Mode::BalanceRr);
    assert!(simulation.flows()[0].reordered > 100);
}

#[test]
fn overflow_uses_a_higher_tier_only_when_it_must() {
    let mut links = vec![link(10, 10, 10), link(10, 10, 10)];
    links[1].config.tier = 1;
    let mut scenario =
        Scenario::new(links).traffic(constant(Lane::Down, 4000, 1200)).lasting(secs(6));
    scenario.mode = Mode::Overflow;
    let outcome = play(scenario.clone());
    let (first, second) = (outcome.link_bytes[0].0, outcome.link_bytes[1].0);
    assert!(second < first / 10, "it fits the first tier: {first} {second}");
    scenario.traffic =
        vec![Traffic::new(Lane::Down, TrafficKind::Greedy { backlog: 100_000, size: 1200 })];
    let outcome = play(scenario);
    let mbit = outcome.flows[0].mbit(secs(3), secs(6));
    assert!(mbit > 14.0, "both tiers are needed: {mbit}");
}

#[test]
fn ethernet_is_bridged_and_learnt() {
    let mut scenario = two_homes().lasting(secs(5));
    scenario.layer = Layer::L2;
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(secs(9));
    // What came out where it doesn't belong was flooded before the stations
    // were learnt.
    let flooded = simulation.strangers().len();
    assert!((1..200).contains(&flooded), "{flooded}");
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!((outcome.flows[0].lost(), outcome.flows[1].lost()), (0, 0));
    assert!(outcome.flows[2].mbit(secs(2), secs(5)) > 8.0);
}
