//! Weeks of a home's life in virtual time: `churn [DAYS=24] [SEED=1]`. Links go dark, lose
//! their carrier, get other addresses and ports, are taken out and put back, both ends restart,
//! clocks are wrong, the home's machine sleeps for a night. Each day is told in a line;
//! it fails when a rule is broken, when the home isn't connected in peace, when an end then
//! holds more than a little, and when this process grows.
//!
//! ```text
//! cargo run --release -p braid-simulator --example churn -- 24
//! ```
//!
//! That takes some 10 s; without `--release` 70 s.

use braid_simulator::{Action, EndId, Lane, LinkSpec, Scenario, Simulation, Traffic, TrafficKind};
use braid_tunnel::PeerReport;
use braid_units::Rate;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const DAY: Duration = Duration::from_secs(86_400);
/// Events of a day; an hour before its end all is in peace.
const EVENTS: u32 = 400;
const PEACE: Duration = Duration::from_secs(3600);
const LINKS: usize = 3;
/// What is kept of a day's pings, twice as much for room that isn't used yet.
const KIB_A_DAY: u64 = 2 * 17_280 * 32 / 1024;
/// Memory that the allocator doesn't give back.
const KIB_ONCE: u64 = 8 << 10;
/// Bytes that an end may hold in peace: a few packets on their way.
const HELD: u64 = 64 << 10;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (days, seed) = match (numbers.next().unwrap_or(Ok(24)), numbers.next().unwrap_or(Ok(1))) {
        (Ok(days), Ok(seed)) => (days, seed),
        _ => {
            eprintln!("churn [DAYS] [SEED], both numbers");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut simulation = Simulation::new(scenario(days, seed));
    let (mut failed, mut first) = (false, None);
    for day in 1..=days {
        simulation.run_until(DAY * day as u32);
        let kib = resident_kib();
        let more = kib.saturating_sub(*first.get_or_insert(kib));
        let wrong = wrong(&simulation).or_else(|| {
            (more > KIB_ONCE + KIB_A_DAY * day).then(|| format!("{more} KiB more than on day 1"))
        });
        println!(
            "day {day:2}: {:6.1} s, {kib} KiB in this process, pings {}{}",
            began.elapsed().as_secs_f64(),
            simulation.flows().iter().map(|flow| flow.delivered[1]).sum::<u64>(),
            wrong.as_ref().map_or(String::new(), |wrong| format!(": WRONG: {wrong}")),
        );
        failed |= wrong.is_some();
    }
    ExitCode::from(u8::from(failed))
}

fn scenario(days: u64, seed: u64) -> Scenario {
    let mbit = Rate::from_mbit;
    let link =
        |down, up, delay| LinkSpec::clean(mbit(down), mbit(up), Duration::from_millis(delay));
    let ping = TrafficKind::Ping { interval: Duration::from_secs(5) };
    let mut scenario = Scenario::new(vec![link(30, 6, 8), link(20, 4, 20), link(10, 4, 40)])
        .traffic(Traffic::new(Lane::Up, ping))
        .lasting(DAY * days as u32);
    scenario.seed = seed;
    let mut rng = fastrand::Rng::with_seed(seed);
    for day in 0..days {
        for _ in 0..EVENTS {
            let busy = (DAY - PEACE * 2).as_secs_f64();
            let at = DAY * day as u32 + Duration::from_secs_f64(rng.f64() * busy);
            scenario = happen(scenario, at, &mut rng);
        }
        // A night.
        let asleep = Action::Suspend(EndId::Home(0), Duration::from_secs(rng.u64(60..30_000)));
        scenario = scenario.event(DAY * day as u32 + DAY / 2, asleep);
    }
    scenario
}

/// Something happens, and is over in an hour.
fn happen(scenario: Scenario, at: Duration, rng: &mut fastrand::Rng) -> Scenario {
    let link = rng.usize(0..LINKS);
    // Most are short; some as long as a provider's trouble.
    let over = at + Duration::from_secs_f64(rng.f64().powi(4) * PEACE.as_secs_f64());
    match rng.u32(0..9) {
        0 | 1 => scenario
            .event(at, Action::Blackout(link, true))
            .event(over, Action::Blackout(link, false)),
        2 => scenario
            .event(at, Action::Carrier(link, false))
            .event(over, Action::Carrier(link, true)),
        3 => scenario.event(at, Action::Rebind(link)),
        4 => scenario.event(at, Action::Roam(link)),
        5 => scenario.event(at, Action::Remove(link)).event(over, Action::Add(link)),
        6 => scenario.event(at, Action::RestartConcentrator),
        7 => {
            let wrong = rng.i64(-2_000_000_000..2_000_000_000);
            scenario.event(at, Action::WallClock(0, wrong)).event(at, Action::RestartHome(0))
        }
        _ => scenario.event(at, Action::WallClock(0, 0)).event(over, Action::RestartHome(0)),
    }
}

/// What isn't as it should be, in peace.
fn wrong(simulation: &Simulation) -> Option<String> {
    if let Some(broken) = simulation.violations().first() {
        return Some(broken.clone());
    }
    let home: Vec<PeerReport> = simulation.report(EndId::Home(0));
    let concentrator = simulation.report(EndId::Concentrator);
    for (whose, report) in [("home", home.first()), ("concentrator", concentrator.first())] {
        let Some(report) = report else { return Some(format!("the {whose} has no peer")) };
        let up = report.paths.iter().filter(|path| path.state == braid_tunnel::PathState::Up);
        let held = report.entry.bytes + report.exit.held_bytes + report.unacknowledged_bytes;
        if !report.connected || up.count() != LINKS {
            return Some(format!("the {whose} isn't connected by all links: {report:#?}"));
        }
        // Those that a home has left are closed after ten minutes.
        if report.paths.len() > LINKS || held > HELD {
            return Some(format!("the {whose} holds {} paths, {held} bytes", report.paths.len()));
        }
    }
    None
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
