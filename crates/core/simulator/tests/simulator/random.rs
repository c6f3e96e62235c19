//! Random scenarios under invariants. `BRAID_SIM_CASES` sets how many,
//! `BRAID_SIM_SEED` where they start.

use crate::weather::{QUIET_END, calm, weather};
use braid_simulator::{Action, Loss, Outcome, Scenario, Simulation, TrafficKind};
use braid_tunnel::PathState;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::Duration;

/// The tunnel may stay below the best link by this: headers of 4 %, and what
/// finding the capacity costs where the jitter is a multiple of the delay.
const MARGIN: f64 = 0.2;

fn run(
    cases: u32,
    strategy: impl Strategy<Value = Scenario>,
    check: fn(&Scenario) -> Result<(), String>,
) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let cases = number("BRAID_SIM_CASES").map_or(cases, |n| n as u32);
    let seed = number("BRAID_SIM_SEED").unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 150, ..Config::default() };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, random)
        .run(&strategy, |scenario| check(&scenario).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("BRAID_SIM_SEED={seed}: {failure}");
    }
}

#[test]
fn no_rule_is_broken_in_any_weather() {
    run(40, weather(), |scenario| {
        let outcome = Simulation::play(scenario.clone());
        no_violations(&outcome)?;
        memory_is_bounded(scenario, &outcome)?;
        every_loss_has_a_reason(scenario, &outcome)?;
        it_works_in_the_end(scenario, &outcome)
    });
}

#[test]
fn the_tunnel_is_never_below_its_best_link() {
    run(16, calm(), |scenario| {
        let outcome = Simulation::play(scenario.clone());
        no_violations(&outcome)?;
        let (from, to) = (Duration::from_secs(4), scenario.duration);
        let best = (0..scenario.links.len())
            .map(|link| {
                let survives = 1.0 - scenario.links[link].down.loss.mean().fraction();
                scenario.link_capacity(link, true, from, to) as f64 * survives
            })
            .fold(0.0, f64::max);
        let got = outcome.flows[0].bytes_between(from, to) as f64;
        if got < best * (1.0 - MARGIN) {
            return Err(format!("{got} bytes, the best link carries {best}"));
        }
        // No path is starved: each that isn't far slower than the best has a
        // fair part of its capacity used.
        for (link, (down, _)) in outcome.link_bytes.iter().enumerate() {
            let capacity =
                scenario.link_capacity(link, true, Duration::ZERO, scenario.duration) as f64;
            if (*down as f64) < capacity * 0.3 {
                return Err(format!("link {link} carried {down} bytes of {capacity}"));
            }
        }
        Ok(())
    });
}

fn no_violations(outcome: &Outcome) -> Result<(), String> {
    if outcome.violations.is_empty() { Ok(()) } else { Err(outcome.violations.join("\n")) }
}

fn memory_is_bounded(scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
    // A packet of 64 KB may be the last straw in each of the three stores.
    let limit = scenario.memory + 3 * 66_000;
    if outcome.memory_high_water > limit {
        return Err(format!("{} bytes held of {limit}", outcome.memory_high_water));
    }
    Ok(())
}

fn every_loss_has_a_reason(scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
    let restarts = |e: &Action| matches!(e, Action::RestartHome(_) | Action::RestartConcentrator);
    if scenario.events.iter().any(|e| restarts(&e.action)) {
        return Ok(()); // What a program held is gone with it.
    }
    let mut reasons = 0;
    let mut inside = 0;
    for report in outcome.homes.iter().chain(&outcome.concentrator) {
        let packets = report.entry.overflowed + report.counters.abandoned + report.exit.missed;
        // A super-packet has up to 44 segments.
        reasons += report.entry.dropped + report.counters.thinned + 44 * packets;
        inside += 44 * report.entry.packets + report.unacknowledged_bytes.div_ceil(50);
        if report.counters.inner_refused > 0 {
            return Err(format!("{} inner packets refused", report.counters.inner_refused));
        }
    }
    let lost: u64 = outcome.flows.iter().map(|f| f.lost()).sum();
    if lost > reasons + inside {
        return Err(format!("{lost} segments lost, {reasons} explained, {inside} inside"));
    }
    Ok(())
}

/// All links have worked for some seconds: all paths do, and whatever sends
/// gets through.
fn it_works_in_the_end(scenario: &Scenario, outcome: &Outcome) -> Result<(), String> {
    for report in outcome.homes.iter().chain(&outcome.concentrator) {
        if !report.connected {
            return Err("not connected at the end".into());
        }
    }
    for path in outcome.homes.iter().flat_map(|r| &r.paths) {
        let link = &scenario.links[usize::from(path.link.0)];
        let share = |loss: Loss| loss.mean().fraction();
        let loss = share(link.up.loss).max(share(link.down.loss));
        // A channel that turns bad for a number of datagrams stays so for long
        // while only probes pass.
        let bursts = [link.up.loss, link.down.loss].iter().any(|l| l.burst_packets().is_some());
        if path.state != PathState::Up && !bursts && loss < 0.05 {
            return Err(format!("path of {:?} is {:?} at the end", path.link, path.state));
        }
    }
    let last = scenario.duration - QUIET_END / 2;
    for (index, flow) in outcome.flows.iter().enumerate() {
        // TCP may sit out its own backed-off timer, and a greedy flow leaves the
        // queue to one that fills it further.
        let patient = matches!(flow.kind, TrafficKind::Tcp { .. } | TrafficKind::Greedy { .. });
        let alone = outcome.flows.len() == 1;
        if (!patient || alone && scenario.events.is_empty())
            && flow.first_delivery_after(last).is_none()
        {
            return Err(format!("flow {index} {:?} got nothing in the end", flow.kind));
        }
    }
    Ok(())
}
