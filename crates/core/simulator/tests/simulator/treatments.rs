//! Flows are treated as the home wants it, in both directions: devices share equally, shares
//! follow priorities, limits hold.

use crate::support::{constant, link, millis, pings, play, secs};
use braid_inner::Class;
use braid_simulator::{Action, EndId, Lane, Loss, Outcome, Scenario, Simulation, Traffic};
use braid_tunnel::entry::{FlowRedundancy, LimitId, Priority, Treatment};
use braid_units::{Rate, Ratio};
use std::num::NonZeroU8;
use std::time::Duration;

const LIMIT: LimitId = LimitId(NonZeroU8::MIN);

fn of_device(device: u16) -> Treatment {
    Treatment { device, ..Treatment::default() }
}

fn limited() -> Treatment {
    Treatment { limit: Some(LIMIT), ..Treatment::default() }
}

fn downloads(count: usize) -> Scenario {
    let links = vec![link(20, 20, 10), link(10, 10, 25)];
    let scenario = Scenario::new(links).lasting(secs(14));
    (0..count).fold(scenario, |scenario, _| scenario.traffic(Traffic::tcp(Lane::Down)))
}

/// Bytes of flows, from when all is known and settled.
fn bytes(outcome: &Outcome, flows: std::ops::Range<usize>) -> u64 {
    let settled = |flow: usize| outcome.flows[flow].bytes_between(secs(5), secs(14));
    flows.map(settled).sum()
}

fn treated(flows: Vec<(usize, Treatment)>) -> Action {
    Action::Treat(0, flows, Vec::new(), Vec::new())
}

#[test]
fn two_devices_share_equally_though_one_has_eight_downloads() {
    let flows = (0..9).map(|flow| (flow, of_device(if flow == 0 { 1 } else { 2 }))).collect();
    let fair = play(downloads(9).event(secs(2), treated(flows)));
    let (one, eight) = (bytes(&fair, 0..1), bytes(&fair, 1..9));
    let share = one as f64 / (one + eight) as f64;
    assert!((0.42..0.62).contains(&share), "{share}");
    let alike = play(downloads(9));
    let (one, eight) = (bytes(&alike, 0..1), bytes(&alike, 1..9));
    assert!((one as f64) < 0.2 * (one + eight) as f64, "without it it has a ninth");
    let sum = |outcome: &Outcome| bytes(outcome, 0..9) as f64;
    assert!(sum(&fair) > 0.97 * sum(&alike), "{} {}", sum(&fair), sum(&alike));
}

#[test]
fn uploads_share_by_priority() {
    let links = vec![link(20, 10, 10), link(10, 5, 25)];
    let mut scenario = Scenario::new(links).lasting(secs(14));
    for _ in 0..3 {
        scenario = scenario.traffic(Traffic::tcp(Lane::Up));
    }
    let of = |priority| Treatment { priority, ..Treatment::default() };
    let flows = vec![(0, of(Priority::High)), (2, of(Priority::Low))];
    let outcome = play(scenario.event(secs(2), treated(flows)));
    let [high, normal, low] = [0, 1, 2].map(|flow| bytes(&outcome, flow..flow + 1) as f64);
    assert!((2.5..5.0).contains(&(high / normal)), "{high} {normal} {low}");
    assert!(low < normal / 5.0, "{high} {normal} {low}");
}

#[test]
fn what_is_low_takes_all_that_nobody_wants() {
    let of = |priority| Treatment { priority, ..Treatment::default() };
    let treat = treated(vec![(0, of(Priority::Low))]);
    let (low, alike) = (play(downloads(1).event(secs(2), treat)), play(downloads(1)));
    assert!(bytes(&low, 0..1) as f64 > 0.98 * bytes(&alike, 0..1) as f64);
}

#[test]
fn limits_hold_in_both_directions_and_are_lifted() {
    let links = vec![link(20, 20, 10), link(10, 10, 25)];
    let limits = |up, down| {
        let of = |mbit: Option<u64>| vec![(LIMIT, mbit.map(Rate::from_mbit))];
        Action::Treat(0, (0..3).map(|flow| (flow, limited())).collect(), of(up), of(down))
    };
    let scenario = Scenario::new(links)
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(Traffic::tcp(Lane::Up))
        .traffic(pings())
        .event(secs(1), limits(Some(2), Some(6)))
        .event(secs(12), limits(None, None))
        .lasting(secs(20));
    let outcome = play(scenario);
    let rate = |flow: usize, from, to| outcome.flows[flow].mbit(secs(from), secs(to));
    // From then on what comes out was let in at this rate: a hole that is filled sooner lets
    // go what came before the limit. In the upload one is open from 3 to 4 s.
    let (down, up) = (rate(0, 4, 12) + rate(1, 4, 12), rate(2, 2, 12));
    assert!((5.0..6.1).contains(&down), "{down} of 6");
    assert!((1.6..2.05).contains(&up), "{up} of 2");
    assert!(rate(0, 4, 12) > 1.5 && rate(1, 4, 12) > 1.5, "they share it");
    let (down, up) = (rate(0, 15, 20) + rate(1, 15, 20), rate(2, 15, 20));
    assert!(down > 22.0 && up > 20.0, "{down} {up} when it's lifted");
}

#[test]
fn a_concentrator_that_restarts_is_told_again_and_what_is_lost_is_said_again() {
    let mut links = vec![link(20, 20, 10), link(10, 10, 25)];
    for link in &mut links {
        link.up.loss = Loss::Random(Ratio::from_fraction(0.1));
    }
    let limit = vec![(LIMIT, Some(Rate::from_mbit(4)))];
    let treat = Action::Treat(0, vec![(0, limited())], Vec::new(), limit);
    let scenario = Scenario::new(links)
        .traffic(constant(Lane::Down, 12_000, 1200))
        .event(secs(1), treat)
        .event(secs(6), Action::Replace(EndId::Concentrator, millis(200)))
        .lasting(secs(14));
    let mut simulation = Simulation::new(scenario);
    let mut rate = |from, to| {
        simulation.run_until(secs(from));
        let before = simulation.flows()[0].delivered[0];
        simulation.run_until(secs(to));
        let packets = simulation.flows()[0].delivered[0] - before;
        packets as f64 * 1200.0 * 8e-6 / (to - from) as f64
    };
    let before = rate(2, 6);
    assert!((3.5..4.3).contains(&before), "{before}");
    let after = rate(8, 14);
    assert!((3.5..4.3).contains(&after), "{after}");
}

#[test]
fn a_flow_that_is_real_time_by_rule_waits_behind_nothing() {
    let late = |class| {
        let treatment = Treatment { class, ..Treatment::default() };
        // Too large to be taken for real-time by itself.
        let scenario = downloads(4)
            .traffic(constant(Lane::Down, 2000, 900))
            .event(secs(1), treated(vec![(4, treatment)]));
        let outcome = play(scenario);
        outcome.flows[4].delay_percentile(0.95).unwrap_or(Duration::MAX)
    };
    let (by_rule, by_itself) = (late(Some(Class::Realtime)), late(None));
    assert!(by_rule <= by_itself + millis(1), "{by_rule:?} {by_itself:?}");
    assert!(by_rule < millis(60), "{by_rule:?}");
}

/// Two links that lose `loss` of what goes down, and a flow that is treated so.
fn lossy(loss: f64, delay: u64, kbit: u64, treatment: Treatment) -> Outcome {
    let mut links = vec![link(20, 20, delay), link(20, 20, delay)];
    for link in &mut links {
        link.down.loss = Loss::Random(Ratio::from_fraction(loss));
    }
    let scenario = Scenario::new(links)
        .traffic(constant(Lane::Down, kbit, 900))
        .event(millis(100), treated(vec![(0, treatment)]));
    play(scenario.lasting(secs(14)))
}

#[test]
fn a_flow_that_is_sent_twice_waits_for_no_repair() {
    let twice = Treatment { redundancy: FlowRedundancy::Twice, ..Treatment::default() };
    let (twice, once) = (lossy(0.02, 30, 1000, twice), lossy(0.02, 30, 1000, Treatment::default()));
    let late = |outcome: &Outcome| outcome.flows[0].delay_percentile(0.96).unwrap();
    assert!(late(&twice) < millis(45), "{:?}", late(&twice));
    assert!(late(&once) > millis(80), "{:?}", late(&once));
    let copies = twice.concentrator[0].counters.duplicated;
    assert!(copies as f64 > 0.95 * twice.flows[0].sent[0] as f64, "{copies}");
}

#[test]
fn a_download_that_is_sent_twice_has_what_one_link_carries_and_leaves_pings_alone() {
    let links = vec![link(20, 20, 10), link(20, 20, 25)];
    let twice = Treatment { redundancy: FlowRedundancy::Twice, ..Treatment::default() };
    let scenario = Scenario::new(links)
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(pings())
        .event(secs(1), treated(vec![(0, twice)]))
        .lasting(secs(14));
    let outcome = play(scenario);
    let mbit = outcome.flows[0].mbit(secs(4), secs(14));
    assert!((16.0..20.5).contains(&mbit), "{mbit}");
    let ping = outcome.flows[1].delay_percentile(0.95).unwrap();
    assert!(ping < millis(60), "{ping:?}");
}

#[test]
fn parities_that_are_asked_for_recover_what_a_repair_would_bring_too_late() {
    let realtime =
        |redundancy| Treatment { class: Some(Class::Realtime), redundancy, ..Treatment::default() };
    let lost = |redundancy| lossy(0.05, 120, 6000, realtime(redundancy)).flows[0].lost();
    let (usual, parity) = (lost(FlowRedundancy::Usual), lost(FlowRedundancy::Parity));
    assert!(parity * 2 < usual, "{parity} {usual}");
}
