//! Holds the tunnel over all links of a set against each of them alone: `best_link [seeds=N]
//! [NAME|CLASS:COUNT]...`, by default `seeds=3 mixed:60 slow:60 harsh:60`. Prints Markdown: a table
//! of the classes, then one of their sets, the worst first: what one TCP connection (cubic) gets
//! over all links, what it gets over the best link alone by the tunnel and without one, and the
//! first by the larger of the others. Megabits of payload a second, after the first two seconds of
//! a connection that begins when the tunnel is up; the mean over `seeds` seeds of the links' losses
//! and jitter.

use braid_simulator::{
    Congestion, FlowOutcome, Scenario, Simulation, TrafficKind, named, play_plain,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The tunnel is up by then, whatever the delay, and the connection begins.
const START: Duration = Duration::from_secs(2);
/// Its first seconds don't count.
const FROM: Duration = Duration::from_secs(4);

#[derive(Debug)]
struct Set {
    name: String,
    tunnel: f64,
    /// Over each link alone.
    alone: Vec<f64>,
    plain: Vec<f64>,
}

impl Set {
    fn measure(name: &str, seeds: u64) -> Option<Self> {
        let mut scenario = named(name)?;
        scenario.duration += START;
        scenario.traffic[0].start = START;
        let links = || 0..scenario.links.len();
        Some(Self {
            name: name.to_owned(),
            tunnel: mean(&scenario, seeds, tunnel),
            alone: links().map(|link| mean(&only(&scenario, link), seeds, tunnel)).collect(),
            plain: links().map(|link| mean(&only(&scenario, link), seeds, plain)).collect(),
        })
    }

    fn best(&self) -> f64 {
        most(&self.alone).max(most(&self.plain))
    }

    fn ratio(&self) -> f64 {
        self.tunnel / self.best().max(1e-9)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let defaults = ["mixed:60", "slow:60", "harsh:60"].map(String::from);
    let (options, classes): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|argument| argument.starts_with("seeds="));
    let seeds = options.iter().find_map(|o| o.strip_prefix("seeds=")?.parse().ok()).unwrap_or(3);
    let wanted = if classes.is_empty() { &defaults[..] } else { &classes[..] };
    println!(
        "| class | sets | ratio, least | median | sum | below the best link | by 3 % | by 10 % |\n\
         |:--|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut all = Vec::new();
    for class in wanted {
        let names: Vec<String> = match class.split_once(':') {
            None => vec![class.clone()],
            Some((class, count)) => {
                (1..=count.parse().unwrap_or(0)).map(|n: u32| format!("{class}-{n}")).collect()
            }
        };
        let mut sets = measure(&names, seeds);
        if sets.len() < names.len() {
            eprintln!("{class}: not all are scenarios of `watch`, or their recordings are absent");
        }
        sets.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        summarise(class, &sets);
        all.extend(sets);
    }
    println!(
        "\n| set | links | tunnel, Mbit/s | best link, by the tunnel | best link, plain | ratio |\n\
         |:--|--:|--:|--:|--:|--:|"
    );
    for set in &all {
        let Set { name, tunnel, alone, plain } = set;
        println!(
            "| {name} | {} | {tunnel:.3} | {:.3} | {:.3} | {:.3} |",
            alone.len(),
            most(alone),
            most(plain),
            set.ratio()
        );
    }
}

/// On all processors.
fn measure(names: &[String], seeds: u64) -> Vec<Set> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut sets = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            sets.extend(Set::measure(name, seeds));
        }
        sets
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Over seeds from 1 on.
fn mean(scenario: &Scenario, seeds: u64, play: fn(Scenario) -> FlowOutcome) -> f64 {
    let one = |seed| play(Scenario { seed, ..scenario.clone() }).mbit(FROM, scenario.duration);
    (1..=seeds).map(one).sum::<f64>() / seeds as f64
}

fn tunnel(scenario: Scenario) -> FlowOutcome {
    Simulation::play(scenario).flows.swap_remove(0)
}

fn plain(mut scenario: Scenario) -> FlowOutcome {
    scenario.traffic[0].kind =
        TrafficKind::Tcp { congestion: Congestion::Cubic, super_packets: false };
    scenario.traffic.truncate(1);
    play_plain(&scenario, 0).swap_remove(0)
}

fn only(scenario: &Scenario, link: usize) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.links = vec![scenario.links.swap_remove(link)];
    scenario.events.clear();
    scenario
}

fn most(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

fn summarise(class: &str, sets: &[Set]) {
    let [Some(worst), Some(middle)] = [sets.first(), sets.get(sets.len() / 2)] else { return };
    let below = |limit| sets.iter().filter(|set| set.ratio() < limit).count();
    println!(
        "| {class} | {} | {:.3} | {:.3} | {:.2} | {} | {} | {} |",
        sets.len(),
        worst.ratio(),
        middle.ratio(),
        sets.iter().map(Set::ratio).sum::<f64>(),
        below(1.0),
        below(0.97),
        below(0.9)
    );
}
