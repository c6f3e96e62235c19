//! Ten thousand homes and a hundred concentrators in virtual time: a rack of 20 fails and returns,
//! then 25 are cut off and return. It runs the real code with a modelled network in between:
//! [`braid_registry::placement`] assigns homes, [`braid_tunnel::routing::StandIns`] decides who
//! serves them, and [`braid_tunnel::retry_pause`] when they reconnect.
//!
//! `cargo run --release -p braid-registry --example fleet STAND_INS [sites|chance] [PICTURE.svg]`:
//! with `sites`, those that fail together are at one site.

mod picture;
mod world;

use picture::picture;
use std::time::Duration;
use world::{Outage, Outcome, Scenario, World};

/// An even share is a hundred homes each.
const CAPACITY: u32 = 160;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let stand_ins = arguments.next().map_or(2, |it| it.parse().expect("a number of stand-ins"));
    let sites = arguments.next().is_some_and(|it| it == "sites");
    let outage = |name, concentrators, times, die| Outage { name, concentrators, times, die };
    let mut world = World::new(Scenario {
        homes: 10_000,
        concentrators: 100,
        capacity: CAPACITY,
        sites: if sites { vec![20, 40, 65, 80] } else { vec![] },
        stand_ins,
        events: vec![
            outage("a rack of 20 dies", 0..20, 120..180, true),
            outage("25 are cut off", 40..65, 300..360, false),
        ],
        seconds: 430,
    });
    world.run();
    let by = if sites { "the second at another site than the first" } else { "by chance" };
    println!(
        "10000 homes with {stand_ins} stand-ins each, {by}, 100 concentrators for {CAPACITY} each\n"
    );
    println!(
        "| event | homes concerned | back within 1 s | 3 s | median | worst of 99 % | moves | of necessary | calls/s | of one | refused | most served | 5 s later | at last |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    world.outcomes().iter().for_each(tell);
    if let Some(file) = arguments.next() {
        std::fs::write(&file, picture(&world)).expect("a file that can be written");
    }
}

fn tell(it: &Outcome) {
    let at = |share: f64| {
        let place = (it.gaps.len().saturating_sub(1) as f64 * share) as usize;
        it.gaps.get(place).map_or("-".to_owned(), |gap| format!("{} ms", gap.as_millis()))
    };
    let within = |seconds| match it.gaps.is_empty() {
        // Nobody was without service.
        true => "-".to_owned(),
        false => format!("{:.1} %", it.back_within(Duration::from_secs(seconds)) * 100.0),
    };
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} | {} |",
        it.name,
        if it.gaps.is_empty() { it.necessary } else { it.gaps.len() },
        within(1),
        within(3),
        at(0.5),
        at(0.99),
        it.moves,
        it.moves as f64 / it.necessary.max(1) as f64,
        it.most_calls,
        it.most_calls_of_one,
        it.refused,
        it.most_served,
        it.most_served_later,
        it.most_served_at_last,
    );
}
