//! What each of the core's heuristics is worth: `ablation [points=200] [first=0] [only=NAME,...]`
//! plays the named scenarios (of those that have a number the first [`NUMBERED`]) and points drawn
//! from the whole space ([`Point::draw`]) with each heuristic switched off in turn, and prints what
//! changes: goodput with it by goodput without (above 1: it helps), the ping's 95th percentile and
//! bytes on the links likewise (below 1: it helps).

use braid_simulator::{NAMES, Outcome, Point, Scenario, Simulation, named};
use braid_tunnel::Heuristics;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Of `mixed-N`, `slow-N` and `harsh-N`, those with a number up to this.
const NUMBERED: u32 = 6;

/// A scenario or a point.
enum Set {
    Named(String, Box<Scenario>),
    Drawn(u64, Box<Point>),
}

#[derive(Clone, Copy)]
struct Figures {
    mbit: f64,
    ping_ms: f64,
    link_bytes: f64,
}

impl Set {
    fn name(&self) -> String {
        match self {
            Self::Named(name, _) => name.clone(),
            Self::Drawn(number, _) => format!("point {number}"),
        }
    }

    fn play(&self, heuristics: Heuristics) -> Figures {
        let (outcome, mbit, ping) = match self {
            Self::Named(_, scenario) => {
                let mut scenario = (**scenario).clone();
                scenario.heuristics = heuristics;
                let lasting = scenario.duration;
                let outcome = Simulation::play(scenario);
                let mbit = outcome.flows[0].mbit(Duration::ZERO, lasting);
                (outcome, mbit, 1)
            }
            Self::Drawn(_, point) => {
                let outcome = point.with(heuristics);
                let mbit = point.goodput(&outcome.flows[1..]);
                (outcome, mbit, 0)
            }
        };
        figures(&outcome, mbit, ping)
    }
}

fn figures(outcome: &Outcome, mbit: f64, ping: usize) -> Figures {
    let p95 = outcome.flows.get(ping).and_then(|flow| flow.delay_percentile(0.95));
    let carried: u64 = outcome.link_bytes.iter().map(|(down, up)| down + up).sum();
    let payload: u64 = outcome.flows.iter().flat_map(|flow| &flow.tenths).sum();
    Figures {
        mbit,
        ping_ms: p95.map_or(f64::NAN, |p95| p95.as_secs_f64() * 1e3),
        link_bytes: carried as f64 / payload.max(1) as f64,
    }
}

fn main() -> ExitCode {
    let (mut points, mut first, mut only) = (200, 0, None);
    for argument in std::env::args().skip(1) {
        let taken = argument.split_once('=').and_then(|(name, value)| {
            match name {
                "points" => points = value.parse().ok()?,
                "first" => first = value.parse().ok()?,
                "only" => only = Some(value.to_string()),
                _ => return None,
            }
            Some(())
        });
        if taken.is_none() {
            eprintln!("{argument}: not points=N, first=N or only=NAME,...");
            return ExitCode::from(2);
        }
    }
    let scenarios = NAMES
        .iter()
        .flat_map(|name| match name.strip_suffix('N') {
            Some(kind) => (1..=NUMBERED).map(|number| format!("{kind}{number}")).collect(),
            None => vec![(*name).to_string()],
        })
        .filter_map(|name| Some(Set::Named(name.clone(), Box::new(named(&name)?))));
    let drawn = (first..first + points).map(|n| Set::Drawn(n, Box::new(Point::draw(n))));
    let sets: Vec<Set> = scenarios.chain(drawn).collect();
    let wanted: Vec<(&str, Heuristics)> = Heuristics::each_off()
        .into_iter()
        .filter(|(name, _)| {
            only.as_ref().is_none_or(|only| only.split(',').any(|one| one == *name))
        })
        .collect();
    let with = play(&sets, Heuristics::ALL);
    println!("{} sets; with by without: least, 10 %, median, 90 %, most", sets.len());
    for (name, off) in wanted {
        report(name, &sets, &with, &play(&sets, off));
    }
    ExitCode::SUCCESS
}

/// One of the figures.
type Part = fn(&Figures) -> f64;

fn report(name: &str, sets: &[Set], with: &[Figures], without: &[Figures]) {
    println!("{name}");
    let parts: [(&str, Part); 3] =
        [("goodput", |f| f.mbit), ("ping p95", |f| f.ping_ms), ("bytes", |f| f.link_bytes)];
    for (what, figure) in parts {
        let mut ratios: Vec<(f64, usize)> = (0..sets.len())
            .map(|place| (figure(&with[place]) / figure(&without[place]), place))
            .filter(|(ratio, _)| ratio.is_finite())
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(last) = ratios.len().checked_sub(1) else { continue };
        let at = |share: f64| ratios[(last as f64 * share).round() as usize];
        let changed = ratios.iter().filter(|(ratio, _)| (ratio - 1.0).abs() > 0.01).count();
        println!(
            "  {what:9} {:6.3} {:6.3} {:6.3} {:6.3} {:6.3}; mean {:.4}; {changed} change by 1 %; least {}, most {}",
            at(0.0).0,
            at(0.1).0,
            at(0.5).0,
            at(0.9).0,
            at(1.0).0,
            (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp(),
            sets[at(0.0).1].name(),
            sets[at(1.0).1].name(),
        );
    }
}

/// On all processors, in the sets' order.
fn play(sets: &[Set], heuristics: Heuristics) -> Vec<Figures> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut played = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(set) = sets.get(place) else { return played };
            played.push((place, set.play(heuristics)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all: Vec<(usize, Figures)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, figures)| figures).collect()
}
