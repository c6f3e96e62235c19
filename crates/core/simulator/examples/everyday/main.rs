//! What people feel all day: `everyday [both-ways] [train] [start] [hard] [profiles]
//! [seeds=8] [first=1] [without=HEURISTIC] [profile=TEXT]` plays scenarios of several kinds, some
//! of them drawn at random by the seed, and prints what came of each; of the profiles those alone
//! with this in their names.
//!
//! ```text
//! cargo run --release -p braid-simulator --example everyday -- train seeds=20
//! ```

mod both_ways;
mod hard;
mod profiles;
mod start;
mod train;

use braid_tunnel::Heuristics;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to play.
struct Options {
    seeds: std::ops::Range<u64>,
    heuristics: Heuristics,
    /// What the names of profiles have in them.
    profile: String,
}

fn main() -> ExitCode {
    let (mut kinds, mut seeds, mut first) = (Vec::new(), 8, 1);
    let (mut heuristics, mut profile) = (Heuristics::ALL, String::new());
    for argument in std::env::args().skip(1) {
        let taken = match argument.split_once('=') {
            None => {
                kinds.push(argument.clone());
                ["both-ways", "train", "start", "hard", "profiles"]
                    .contains(&argument.as_str())
                    .then_some(())
            }
            Some(("seeds", value)) => value.parse().ok().map(|value| seeds = value),
            Some(("first", value)) => value.parse().ok().map(|value| first = value),
            Some(("without", value)) => {
                let mut each = Heuristics::each_off().into_iter();
                each.find(|(name, _)| *name == value).map(|(_, off)| heuristics = off)
            }
            Some(("profile", value)) => {
                profile = value.to_owned();
                Some(())
            }
            Some(_) => None,
        };
        if taken.is_none() {
            eprintln!(
                "{argument}: not both-ways, train, start, hard, profiles, seeds=N, first=N, \
                 without=NAME or profile=TEXT"
            );
            return ExitCode::from(2);
        }
    }
    let options = Options { seeds: first..first + seeds, heuristics, profile };
    let wants = |kind: &str| kinds.is_empty() || kinds.iter().any(|k| k == kind);
    if wants("both-ways") {
        both_ways::print(&options);
    }
    if wants("train") {
        train::print(&options);
    }
    if wants("start") {
        start::print(&options);
    }
    if wants("hard") {
        hard::print(&options);
    }
    if wants("profiles") {
        profiles::print(&options);
    }
    ExitCode::SUCCESS
}

/// Each seed's figures, on all processors.
fn of_each<T: Send>(options: &Options, play: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let seeds: Vec<u64> = options.seeds.clone().collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut played = Vec::new();
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            played.push((seed, play(seed)));
        }
        played
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, figures)| figures).collect()
}

/// Least, median, mean and most.
fn row(what: &str, values: impl Iterator<Item = f64>) {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    println!(
        "  {what:44} {:8.2} {:8.2} {mean:8.2} {:8.2}",
        values[0],
        values[last / 2],
        values[last]
    );
}

fn heading(what: &str) {
    println!("{what:46} {:>8} {:>8} {:>8} {:>8}", "least", "median", "mean", "most");
}
