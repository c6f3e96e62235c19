//! Links that work in part: what they still do must not be mistaken for health,
//! and the others carry on as if they were alone.

use crate::support::{constant, millis, pings, play, secs, three_links};
use braid_simulator::{Action, Capacity, DirectionModel, Lane, LinkSpec};
use braid_simulator::{Loss, Outcome, Scenario, Traffic};
use braid_units::Ratio;

#[test]
fn a_link_may_go_deaf_or_dumb() {
    for half in 0..3 {
        for deaf in [true, false] {
            let silent = |spec: &DirectionModel| {
                let loss = Loss::Random(Ratio::from_fraction(1.0));
                DirectionModel { loss, ..spec.clone() }
            };
            let links = three_links();
            let action = match deaf {
                true => Action::SetDown(half, silent(&links[half].down)),
                false => Action::SetUp(half, silent(&links[half].up)),
            };
            let outcome = play(loaded(links).event(secs(4), action));
            assert_carries_on(&outcome, half, if deaf { "deaf" } else { "dumb" });
        }
    }
}

#[test]
fn a_link_may_be_deaf_from_the_first_call_on() {
    // The quickest one brings each call first: were it alone answered by that, nobody heard.
    for deaf in 0..3 {
        let mut links = three_links();
        links[deaf].down.loss = Loss::Random(Ratio::from_fraction(1.0));
        assert_carries_on(&play(loaded(links)), deaf, "deaf from the first call on");
    }
}

#[test]
fn a_link_may_pass_small_packets_only() {
    for narrow in 0..3 {
        for since in [0, 4] {
            let scenario = loaded(three_links()).event(secs(since), Action::Mtu(narrow, 600));
            assert_carries_on(&play(scenario), narrow, "narrow");
        }
    }
}

#[test]
fn a_link_may_lose_a_third_of_all() {
    for lossy in 0..3 {
        let mut links = three_links();
        links[lossy].down.loss = Loss::Random(Ratio::from_fraction(0.3));
        links[lossy].up.loss = Loss::Random(Ratio::from_fraction(0.3));
        assert_carries_on(&play(loaded(links)), lossy, "lossy");
    }
}

#[test]
fn a_link_may_never_let_a_datagram_through() {
    // As a captive portal does that lets web and DNS pass only.
    for closed in 0..3 {
        let scenario = loaded(three_links()).event(secs(0), Action::Blackout(closed, true));
        assert_carries_on(&play(scenario), closed, "closed");
    }
}

#[test]
fn a_link_may_be_seconds_late() {
    for late in 0..3 {
        let mut links = three_links();
        links[late].down.delay = secs(2);
        links[late].up.delay = secs(2);
        assert_carries_on(&play(loaded(links)), late, "late");
    }
}

/// A download beside pings and a steady stream.
fn loaded(links: Vec<LinkSpec>) -> Scenario {
    Scenario::new(links)
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(pings())
        .traffic(constant(Lane::Down, 1000, 1000))
        .lasting(secs(12))
}

/// Nothing is lost, nothing waits for long, and most of what the other two
/// links have is used.
fn assert_carries_on(outcome: &Outcome, half: usize, how: &str) {
    let [tcp, pings, steady] = &outcome.flows[..] else { panic!("three flows") };
    let others: u64 = three_links()
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != half)
        .map(|(_, link)| match &link.down.capacity {
            Capacity::Rate(rate) => rate.mbit() as u64,
            Capacity::Unlimited | Capacity::Trace { .. } => 0,
        })
        .sum();
    let mbit = tcp.mbit(secs(7), secs(12));
    assert_eq!((pings.lost(), steady.lost()), (0, 0), "link {half} {how}");
    assert!(mbit > 0.8 * others as f64, "link {half} {how}: {mbit} of {others}");
    for flow in [tcp, steady] {
        let stall = flow.longest_stall;
        assert!(stall <= millis(500), "link {half} {how}: {:?} stood {stall:?}", flow.kind);
    }
}
