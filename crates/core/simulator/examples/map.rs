//! Looks over the space that the tunnel must hold in: `map [points=2000] [first=0]
//! [sender=NAME] [worst=20] [runs=1]` plays points drawn at random ([`Point::draw`]) and
//! prints the distributions of what the tunnel gives beside the links by
//! themselves, and the worst points with the command that shows each. Of several
//! runs of a point, with other random numbers, the median one counts; how far the worst
//! one is below it is a distribution of its own.
//!
//! To try a change on the same points again and again: `links=N`, `flows=N`, `most=MBIT`
//! (all links' rates together, both ways) and `numbers=A,B,…` select, `without=HEURISTIC`
//! switches one off, `best_only=true` gives the tunnel only the link that is best alone,
//! `by_links=FILE` keeps what the links give by themselves, which a change of the tunnel
//! doesn't touch.
//!
//! ```text
//! cargo run --release -p braid-simulator --example map -- points=200
//! cargo run --release -p braid-simulator --example map -- point=17
//! ```

use braid_simulator::{ByLinks, Figures, Outcome, Point};
use braid_tunnel::Heuristics;
use std::collections::HashMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Played {
    number: u64,
    point: Point,
    figures: Figures,
    /// Goodput of the worst run by the median one's.
    spread: f64,
}

fn main() -> ExitCode {
    let mut options = Options::default();
    for argument in std::env::args().skip(1) {
        if options.take(&argument).is_none() {
            eprintln!(
                "{argument}: not points=N, first=N, worst=N, runs=N, sender=NAME, links=N, flows=N, most=MBIT, \
                 numbers=A,B,…, without=HEURISTIC, best_only=true, by_links=FILE or point=N"
            );
            return ExitCode::from(2);
        }
    }
    if let Some(number) = options.point {
        show(number, options.heuristics);
        return ExitCode::SUCCESS;
    }
    let known = match &options.by_links {
        Some(path) => match Known::read(path) {
            Ok(known) => Some(known),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::FAILURE;
            }
        },
        None => None,
    };
    let mut played = play(&options, known.as_ref());
    played.sort_by(|a, b| a.figures.of_best().total_cmp(&b.figures.of_best()));
    distributions(&played);
    println!("\nworst by the best link alone:");
    for one in played.iter().take(options.worst.unwrap_or(20)) {
        line(one);
    }
    let broken = played.iter().filter(|one| one.figures.violations > 0);
    for one in broken {
        println!("breaks rules: map point={}", one.number);
    }
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Options {
    points: Option<u64>,
    first: u64,
    numbers: Option<Vec<u64>>,
    worst: Option<usize>,
    runs: Option<u64>,
    sender: Option<String>,
    links: Option<usize>,
    flows: Option<usize>,
    most_mbit: Option<f64>,
    heuristics: Heuristics,
    by_links: Option<String>,
    best_only: bool,
    point: Option<u64>,
}

impl Options {
    fn take(&mut self, argument: &str) -> Option<()> {
        let (name, value) = argument.split_once('=')?;
        match name {
            "points" => self.points = Some(value.parse().ok()?),
            "first" => self.first = value.parse().ok()?,
            "numbers" => {
                self.numbers =
                    Some(value.split(',').map(str::parse).collect::<Result<_, _>>().ok()?)
            }
            "worst" => self.worst = Some(value.parse().ok()?),
            "runs" => self.runs = Some(value.parse().ok().filter(|runs| *runs > 0)?),
            "sender" => self.sender = Some(value.to_string()),
            "links" => self.links = Some(value.parse().ok()?),
            "flows" => self.flows = Some(value.parse().ok()?),
            "most" => self.most_mbit = Some(value.parse().ok()?),
            "without" => {
                let mut each = Heuristics::each_off().into_iter();
                self.heuristics = each.find(|(name, _)| *name == value)?.1;
            }
            "best_only" => self.best_only = value.parse().ok()?,
            "by_links" => self.by_links = Some(value.to_string()),
            "point" => self.point = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    fn numbers(&self) -> Vec<u64> {
        let points = self.points.unwrap_or(2000);
        self.numbers.clone().unwrap_or_else(|| (self.first..self.first + points).collect())
    }

    fn wants(&self, point: &Point) -> bool {
        self.sender.as_ref().is_none_or(|name| point.sender.to_string() == *name)
            && self.links.is_none_or(|links| point.scenario.links.len() == links)
            && self.flows.is_none_or(|flows| point.flows == flows)
            && self.most_mbit.is_none_or(|most| point.rate().bits_per_sec() as f64 <= most * 1e6)
    }
}

/// What links give by themselves, from earlier runs.
struct Known {
    file: Mutex<std::fs::File>,
    points: HashMap<u64, ByLinks>,
}

impl Known {
    fn read(path: &str) -> std::io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let entry = |line: &str| {
            let mut fields = line.split(' ');
            let number = fields.next()?.parse().ok()?;
            let mut figure = || fields.next()?.parse().ok();
            let (best, sum) = (figure()?, figure()?);
            Some((number, ByLinks { best, sum, best_link: fields.next()?.parse().ok()? }))
        };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file: Mutex::new(file), points: text.lines().filter_map(entry).collect() })
    }

    fn by_links(&self, number: u64, point: &Point) -> ByLinks {
        if let Some(by_links) = self.points.get(&number) {
            return *by_links;
        }
        let by_links = point.by_links();
        if let Ok(mut file) = self.file.lock() {
            // What can't be kept is found out again.
            let _ = writeln!(
                file,
                "{number} {} {} {}",
                by_links.best, by_links.sum, by_links.best_link
            );
        }
        by_links
    }
}

/// On all processors.
fn play(options: &Options, known: Option<&Known>) -> Vec<Played> {
    let (numbers, next) = (options.numbers(), AtomicUsize::new(0));
    let work = || {
        let mut played = Vec::new();
        while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let point = Point::draw(number);
            if options.wants(&point) {
                let by_links =
                    known.map_or_else(|| point.by_links(), |known| known.by_links(number, &point));
                played.push(play_point(number, point, by_links, options));
            }
        }
        played
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Once or several times.
fn play_point(number: u64, point: Point, by_links: ByLinks, options: &Options) -> Played {
    let tunnelled = if options.best_only { point.only(by_links.best_link) } else { point.clone() };
    let run = |run: u64| {
        let mut point = tunnelled.clone();
        point.scenario.seed ^= run << 32;
        point.figures(by_links, &point.with(options.heuristics))
    };
    let mut runs: Vec<Figures> = (0..options.runs.unwrap_or(1)).map(run).collect();
    runs.sort_by(|a, b| a.tunnel.total_cmp(&b.tunnel));
    let (worst, figures) = (runs[0], runs[runs.len() / 2]);
    Played { number, point, figures, spread: worst.tunnel / figures.tunnel.max(1e-9) }
}

fn distributions(played: &[Played]) {
    let several: Vec<&Played> =
        played.iter().filter(|one| one.point.scenario.links.len() > 1).collect();
    let all: Vec<&Played> = played.iter().collect();
    println!("{} points, {} of them with several links", all.len(), several.len());
    println!("{:44} {:>7} {:>7} {:>7} {:>7} {:>7}", "", "least", "1 %", "10 %", "median", "90 %");
    distribution("goodput by the best link alone", &all, Figures::of_best);
    distribution("goodput by the sum of links", &all, Figures::of_sum);
    distribution("ping p95 over the best link's idle, ms", &all, |f| f.ping_ms);
    distribution("bytes by plain TCP's", &all, |f| f.bytes);
    if played.iter().any(|one| one.spread < 1.0) {
        let mut spreads: Vec<f64> = played.iter().map(|one| one.spread).collect();
        spreads.sort_by(f64::total_cmp);
        row("worst run by the median one", &spreads);
    }
    let below = |limit| all.iter().filter(|one| one.figures.of_best() < limit).count();
    println!("below 0.97 of the best link: {}, below 0.9: {}", below(0.97), below(0.9));
    let class = |name: &str, belongs: &dyn Fn(&Point) -> bool| {
        let of: Vec<&Played> = all.iter().copied().filter(|one| belongs(&one.point)).collect();
        distribution(&format!("{name}: by the best link alone"), &of, Figures::of_best);
        distribution(&format!("{name}: ping p95 over idle, ms"), &of, |f| f.ping_ms);
    };
    let stalls = |point: &Point| point.scenario.stalls.is_some();
    class("steady links", &|point| !point.volatile && !stalls(point));
    class("rates that change", &|point| point.volatile);
    class("ends that stand still", &stalls);
    class("one link", &|point| point.scenario.links.len() == 1);
    for sender in braid_simulator::SENDERS {
        let of: Vec<&Played> =
            all.iter().copied().filter(|one| one.point.sender == sender).collect();
        distribution(&format!("{sender}: by the best link alone"), &of, Figures::of_best);
    }
}

fn distribution(what: &str, played: &[&Played], figure: impl Fn(&Figures) -> f64) {
    let mut values: Vec<f64> = played.iter().map(|one| figure(&one.figures)).collect();
    values.sort_by(f64::total_cmp);
    row(what, &values);
}

/// Of values in order.
fn row(what: &str, values: &[f64]) {
    let Some(last) = values.len().checked_sub(1) else { return };
    let at = |share: f64| values[(last as f64 * share).round() as usize];
    println!(
        "{what:44} {:7.2} {:7.2} {:7.2} {:7.2} {:7.2}",
        values[0],
        at(0.01),
        at(0.1),
        at(0.5),
        at(0.9)
    );
}

fn line(one: &Played) {
    let Figures { tunnel, best, sum, ping_ms, bytes, .. } = one.figures;
    println!(
        "map point={:<5} {:.2} of the best link, {:.2} of the sum ({tunnel:.2}; {best:.2}; {sum:.2} Mbit/s), \
         ping +{ping_ms:.0} ms, bytes {bytes:.3}: {}",
        one.number,
        one.figures.of_best(),
        one.figures.of_sum(),
        one.point
    );
}

fn show(number: u64, heuristics: Heuristics) {
    let point = Point::draw(number);
    let outcome: Outcome = point.with(heuristics);
    let figures = point.figures(point.by_links(), &outcome);
    line(&Played { number, point, figures, spread: 1.0 });
    for violation in &outcome.violations {
        println!("  {violation}");
    }
    for (place, flow) in outcome.flows.iter().enumerate().skip(1).take(4) {
        let tenths: Vec<String> = flow
            .tenths
            .chunks(5)
            .map(|t| format!("{:.1}", t.iter().sum::<u64>() as f64 * 16e-6))
            .collect();
        println!(
            "  flow {place}, Mbit/s each half second: {}; {} cuts, {} timeouts, {} sent again, stall {} ms",
            tenths.join(" "),
            flow.cuts,
            flow.timeouts,
            flow.retransmissions,
            flow.longest_stall.as_millis()
        );
    }
    for (end, reports) in [("home", &outcome.homes), ("concentrator", &outcome.concentrator)] {
        for path in reports.iter().flat_map(|report| &report.paths) {
            println!("  {end}: {path:?}");
        }
    }
}
