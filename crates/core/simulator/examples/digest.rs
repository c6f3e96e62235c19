//! Shows whether the core still does exactly what it did: `digest [--check FILE]
//! [NAME]...` plays named scenarios and random ones and prints a line for each:
//! name, seed, a digest of all that the cores did ([`Outcome::digest`]), how often
//! a timer woke them, and two figures that say what a difference means. `--check`
//! holds that against an output stored before, and fails where they differ.
//!
//! ```text
//! cargo run -p braid-simulator --example digest > before
//! cargo run -p braid-simulator --example digest -- --check before
//! ```

#[path = "../tests/simulator/weather.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod weather;

use braid_simulator::{
    Congestion, Lane, Outcome, Scenario, Simulation, Traffic, TrafficKind, named,
};
use braid_tunnel::Mode;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Named scenarios and how many seeds of each; those with recordings are left
/// out where these are absent.
const NAMED: [(&str, u64); 22] = [
    ("six-3g", 3),
    ("cable-dsl-lte", 3),
    ("starlink-lte", 1),
    ("step", 2),
    ("recorded-3g", 1),
    ("recorded-4g", 1),
    ("recorded-mix", 1),
    ("swinging", 1),
    ("blackout-best", 2),
    ("blackout-all", 1),
    ("gigabit", 1),
    ("single", 2),
    ("mixed-1", 1),
    ("mixed-2", 1),
    ("mixed-5", 1),
    ("slow-1", 1),
    ("slow-2", 1),
    ("slow-3", 1),
    ("harsh-1", 1),
    ("harsh-2", 1),
    ("harsh-3", 1),
    ("harsh-4", 1),
];
/// Random scenarios of either kind.
const RANDOM: usize = 24;

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let mut stored = None;
    if names.first().is_some_and(|first| first == "--check") {
        let Some(file) = names.get(1) else {
            eprintln!("usage: digest [--check FILE] [NAME]...");
            return ExitCode::from(2);
        };
        match std::fs::read_to_string(file) {
            Ok(text) => stored = Some(text),
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        }
        names.drain(..2);
    }
    let mut scenarios = scenarios();
    scenarios.retain(|(name, _)| names.is_empty() || names.contains(name));
    let lines = play(&scenarios);
    for line in &lines {
        println!("{line}");
    }
    match stored {
        None => ExitCode::SUCCESS,
        Some(stored) => check(&stored, &lines, names.is_empty()),
    }
}

fn scenarios() -> Vec<(String, Scenario)> {
    let mut scenarios = Vec::new();
    for (name, seeds) in NAMED {
        let Some(scenario) = named(name) else {
            eprintln!("{name}: its recording is absent");
            continue;
        };
        let seeded = |seed| (name.to_owned(), Scenario { seed, ..scenario.clone() });
        scenarios.extend((1..=seeds).map(seeded));
    }
    scenarios.extend(modes());
    scenarios.extend(senders());
    let mut runner = TestRunner::new_with_rng(
        Config { failure_persistence: None, ..Config::default() },
        TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
    );
    let weather = weather::weather();
    scenarios.extend(draw("weather", &weather, &mut runner));
    scenarios.extend(draw("calm", &weather::calm(), &mut runner));
    scenarios
}

/// What no named scenario has: other modes, calls, uploads.
fn modes() -> impl Iterator<Item = (String, Scenario)> {
    let modes = [
        ("overflow", Mode::Overflow),
        ("balance-rr", Mode::BalanceRr),
        ("broadcast", Mode::Broadcast),
        ("active-backup", Mode::ActiveBackup),
        ("adaptive", Mode::Adaptive),
    ];
    modes.into_iter().filter_map(|(name, mode)| {
        let mut scenario = named("six-3g")?;
        (scenario.mode, scenario.duration) = (mode, Duration::from_secs(6));
        for (tier, link) in scenario.links.iter_mut().enumerate() {
            link.config.tier = tier as u8 / 2;
            link.config.standby = tier == 5;
            // Far and lossy: calls get parities.
            link.down.delay += Duration::from_millis(60);
        }
        let scenario = scenario
            .traffic(Traffic::tcp(Lane::Up))
            .traffic(Traffic::new(Lane::Down, TrafficKind::Voip))
            .traffic(Traffic::new(Lane::Up, TrafficKind::Voip));
        Some((format!("{name}-calls"), scenario))
    })
}

/// Senders that pace themselves: named scenarios have cubic.
fn senders() -> impl Iterator<Item = (String, Scenario)> {
    let senders =
        [("bbr", Congestion::Bbr), ("bbr3", Congestion::Bbr3), ("quic", Congestion::Quic)];
    senders.into_iter().filter_map(|(name, congestion)| {
        let mut scenario = named("cable-dsl-lte")?;
        let tcp = TrafficKind::Tcp { congestion, super_packets: true };
        scenario.traffic = vec![Traffic::new(Lane::Down, tcp), Traffic::ping()];
        Some((format!("cable-dsl-lte-{name}"), scenario))
    })
}

fn draw(
    name: &str,
    strategy: &impl Strategy<Value = Scenario>,
    runner: &mut TestRunner,
) -> Vec<(String, Scenario)> {
    let trees = (0..RANDOM).filter_map(|_| strategy.new_tree(runner).ok());
    let numbered = trees.enumerate();
    numbered.map(|(number, tree)| (format!("{name}-{number}"), tree.current())).collect()
}

/// On all processors, in order.
fn play(scenarios: &[(String, Scenario)]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut lines = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, scenario)) = scenarios.get(index) else { return lines };
            lines.push((index, line(name, scenario.seed, &Simulation::play(scenario.clone()))));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut lines: Vec<(usize, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    lines.sort_unstable();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn line(name: &str, seed: u64, outcome: &Outcome) -> String {
    let delivered: u64 = outcome.flows.iter().map(|f| f.delivered[0] + f.delivered[1]).sum();
    let sent: u64 = outcome.link_bytes.iter().map(|(down, up)| down + up).sum();
    format!(
        "{name} seed {seed} digest {:016x} wakes {} delivered {delivered} link bytes {sent}",
        outcome.digest, outcome.wakes
    )
}

/// Lines of the output before that differ or are missing; of all scenarios, those
/// that are missing now too.
fn check(stored: &str, lines: &[String], all: bool) -> ExitCode {
    let stored: Vec<&str> = stored.lines().collect();
    let key = |line: &str| line.split(" digest ").next().map(str::to_owned);
    let mut differ = 0;
    for line in lines {
        let before = stored.iter().find(|before| key(before) == key(line));
        if before.is_none_or(|before| before != line) {
            differ += 1;
            eprintln!("before: {}\n   now: {line}", before.unwrap_or(&"absent"));
        }
    }
    if all && stored.len() > lines.len() {
        differ += stored.len() - lines.len();
        eprintln!("there were {} lines before", stored.len());
    }
    eprintln!("{} of {} differ", differ, lines.len());
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
