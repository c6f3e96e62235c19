//! Random scenarios under invariants. `BRAID_SIM_CASES` sets how many,
//! `BRAID_SIM_SEED` where they start.

use crate::support::millis;
use braid_simulator::{
    Action, Capacity, ClockSpec, Congestion, DirectionSpec, Lane, LinkSpec, Loss, Outcome,
    Scenario, Simulation, Traffic, TrafficKind,
};
use braid_tunnel::{LinkConfig, PathState};
use braid_units::Rate;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::Duration;

/// Every link works again for so long before the end.
const QUIET_END: Duration = Duration::from_secs(3);
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
                let survives = 1.0 - loss_of(&scenario.links[link].down);
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

fn loss_of(direction: &DirectionSpec) -> f64 {
    match direction.loss {
        Loss::None => 0.0,
        Loss::Random(share) | Loss::Burst { share, .. } => share,
    }
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
        let packets = report.entry.overflowed + report.counters.gave_up + report.exit.missed;
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
        let loss = loss_of(&link.up).max(loss_of(&link.down));
        // A channel that turns bad for a number of datagrams stays so for long
        // while only probes pass.
        let bursts = [link.up.loss, link.down.loss].iter().any(|l| matches!(l, Loss::Burst { .. }));
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

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        3 => Just(Loss::None),
        2 => (0.0..0.03).prop_map(Loss::Random),
        1 => (0.001..0.03, 1.0..20.0).prop_map(|(share, length)| Loss::Burst { share, length }),
    ]
}

/// `rates` in kbit/s.
fn direction(rates: std::ops::Range<u64>) -> impl Strategy<Value = DirectionSpec> {
    let rare = |most: f64| prop_oneof![3 => Just(0.0), 1 => 0.0..most];
    (rates, 1u64..120, 0u64..30, loss(), 50u64..500, rare(0.05), rare(0.03), rare(0.02)).prop_map(
        |(kbit, delay, jitter, loss, queue, reorder, duplicate, corrupt)| {
            let rate = Rate::from_bits_per_sec(kbit * 1000);
            DirectionSpec {
                capacity: Capacity::Rate(rate),
                delay: millis(delay),
                jitter: millis(jitter),
                loss,
                queue: rate.bytes_in(millis(queue)).max(8_000),
                reorder,
                duplicate,
                corrupt,
            }
        },
    )
}

fn link() -> impl Strategy<Value = LinkSpec> {
    let mtu = prop_oneof![Just(1500u16), Just(1492), 1280u16..1500];
    (direction(300..20_000), direction(200..10_000), mtu, any::<bool>()).prop_map(
        |(down, up, mtu, nat)| LinkSpec {
            home: 0,
            down,
            up,
            mtu,
            nat,
            config: LinkConfig::default(),
        },
    )
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let kind = prop_oneof![
        (20u64..400, 20usize..1470)
            .prop_map(|(kb, size)| TrafficKind::Greedy { backlog: kb * 1000, size }),
        (50u64..3000, 20usize..1470).prop_map(|(kbit, size)| TrafficKind::Constant {
            rate: Rate::from_bits_per_sec(kbit * 1000),
            size
        }),
        Just(TrafficKind::Voip),
        (5u64..200).prop_map(|ms| TrafficKind::Ping { interval: millis(ms) }),
        (any::<bool>(), any::<bool>()).prop_map(|(cubic, super_packets)| TrafficKind::Tcp {
            congestion: if cubic { Congestion::Cubic } else { Congestion::Reno },
            super_packets
        }),
    ];
    (any::<bool>(), kind)
        .prop_map(|(down, kind)| Traffic::new(if down { Lane::Down } else { Lane::Up }, kind))
}

/// Something that happens to one of `links` links; outages end again.
fn trouble(links: usize, until: u64) -> impl Strategy<Value = Vec<(Duration, Action)>> {
    let at = 0..until;
    (0..links, at.clone(), at, 0u8..10, direction(300..20_000)).prop_map(
        |(link, a, b, what, spec)| {
            let (from, to) = (millis(a.min(b)), millis(a.max(b)));
            match what {
                0..3 => {
                    vec![(from, Action::Blackout(link, true)), (to, Action::Blackout(link, false))]
                }
                3 => vec![(from, Action::Carrier(link, false)), (to, Action::Carrier(link, true))],
                4 => vec![(from, Action::Rebind(link))],
                5 => vec![(from, Action::Roam(link))],
                6 => vec![(from, Action::Mtu(link, 1280 + (b % 220) as u16))],
                7 => vec![(from, Action::RestartHome(0))],
                8 => vec![(from, Action::Remove(link)), (to, Action::Add(link))],
                _ => vec![(from, Action::SetDown(link, spec))],
            }
        },
    )
}

fn clocks() -> impl Strategy<Value = ClockSpec> {
    (0u64..10_000_000, -200i32..200)
        .prop_map(|(ms, drift_ppm)| ClockSpec { offset: millis(ms), drift_ppm })
}

/// Anything.
fn weather() -> impl Strategy<Value = Scenario> {
    let duration = 5000u64..8000;
    (proptest::collection::vec(link(), 1..5), duration).prop_flat_map(|(links, duration)| {
        let until = duration - QUIET_END.as_millis() as u64;
        (
            Just((links.clone(), duration)),
            any::<u64>(),
            proptest::collection::vec(traffic(), 1..5),
            proptest::collection::vec(trouble(links.len(), until), 0..5),
            (clocks(), clocks()),
            (2u64..32, prop_oneof![Just(600_000u64), 500u64..3000]),
        )
            .prop_map(
                |((links, duration), seed, traffic, troubles, clocks, (memory, expiry))| {
                    let mut scenario = Scenario::new(links).lasting(millis(duration));
                    scenario.seed = seed;
                    scenario.traffic = traffic;
                    scenario.memory = memory << 20;
                    scenario.path_expiry = millis(expiry);
                    (scenario.home_clock, scenario.concentrator_clock) = clocks;
                    for (at, action) in troubles.into_iter().flatten() {
                        scenario = scenario.event(at, action);
                    }
                    scenario
                },
            )
    })
}

/// Links that don't change, with buffers of 100 ms or more, and one greedy
/// download. What the links lose is lost at random, up to 3 %.
fn calm() -> impl Strategy<Value = Scenario> {
    (proptest::collection::vec(link(), 1..5), any::<u64>()).prop_map(|(mut links, seed)| {
        for link in &mut links {
            let Capacity::Rate(down) = link.down.capacity else { continue };
            (link.down.reorder, link.down.corrupt, link.up.corrupt) = (0.0, 0.0, 0.0);
            link.down.loss = Loss::Random(loss_of(&link.down));
            link.up.loss = Loss::Random(loss_of(&link.up));
            link.down.queue = link.down.queue.max(down.bytes_in(millis(100))).max(16_000);
            link.up.queue = link.up.queue.max(16_000);
        }
        let greedy = TrafficKind::Greedy { backlog: 300_000, size: 1400 };
        let mut scenario = Scenario::new(links).traffic(Traffic::new(Lane::Down, greedy));
        scenario.seed = seed;
        scenario
    })
}
