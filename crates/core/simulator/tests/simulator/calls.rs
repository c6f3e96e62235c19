//! Calls beside links that are full.

use crate::support::{link, millis, play, secs};
use braid_simulator::{Action, Lane, Outcome, Scenario, Traffic, TrafficKind};
use braid_tunnel::Heuristics;
use braid_units::ByteSize;

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
