//! Calls and pings beside links that are full.

use crate::support::{link, millis, play, secs};
use braid_simulator::{Action, Lane, Outcome, Scenario, Traffic, TrafficKind, named};
use braid_tunnel::Heuristics;
use braid_units::ByteSize;

#[test]
fn what_waits_on_the_way_back_does_not_end_drains() {
    // Each direction's queue delays the other's news of its own.
    let ping_ms = |heuristics| {
        let mut scenario = named("cable-dsl-lte").expect("links without recordings");
        scenario.heuristics = heuristics;
        scenario.traffic = vec![Traffic::ping().from(secs(2))];
        for lane in [Lane::Down, Lane::Up] {
            scenario.traffic.extend([Traffic::tcp(lane); 4]);
        }
        let ping = play(scenario).flows[0].delay_percentile(0.95);
        ping.expect("pings come back").as_secs_f64() * 1e3
    };
    let with = ping_ms(Heuristics::ALL);
    let without = ping_ms(Heuristics { drains_by_way: false, ..Heuristics::ALL });
    assert!(with < 0.92 * without, "{with} and {without} ms");
}

#[test]
fn a_call_beside_a_download_by_links_that_change_loses_less_than_by_full_ones() {
    let with = late(&train(Heuristics::ALL));
    let without = late(&train(Heuristics { yields_to_calls: false, ..Heuristics::ALL }));
    assert!(with < 0.85 * without, "{with} and {without} of 1500 come late");
}

/// A download and a call over two links with queues, whose rates change each second.
fn train(heuristics: Heuristics) -> Outcome {
    let delays = [35, 45];
    let of_rate = |place: usize, mbit| {
        let mut link = link(mbit, 4, delays[place]);
        link.down.jitter = millis(5);
        link.down.queue = ByteSize::from_bytes(400_000);
        link
    };
    let mut scenario = Scenario::new(vec![of_rate(0, 12), of_rate(1, 8)]).lasting(secs(30));
    scenario.heuristics = heuristics;
    for second in 0..30 {
        let rates = [[12, 3, 9, 2, 6], [8, 3, 5, 2, 10]].map(|of| of[second as usize % 5]);
        for (place, rate) in rates.into_iter().enumerate() {
            let at = millis(1000 * second + 300 * place as u64);
            scenario = scenario.event(at, Action::SetDown(place, of_rate(place, rate).down));
        }
    }
    let call = Traffic::new(Lane::Down, TrafficKind::Voip);
    play(scenario.traffic(Traffic::tcp(Lane::Down)).traffic(call))
}

/// Of the call's packets, those that take more than 150 ms.
fn late(outcome: &Outcome) -> f64 {
    let delays = &outcome.flows[1].delays;
    let in_time = delays.iter().filter(|delay| **delay <= millis(150)).count();
    outcome.flows[1].sent[0] as f64 - in_time as f64
}
