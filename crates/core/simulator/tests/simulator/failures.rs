//! Links that die, narrow, and come back.

use crate::support::{constant, link, millis, pings, play, secs, three_links, traced};
use braid_simulator::{Action, Lane, Scenario, Traffic, TrafficKind, named};

#[test]
fn any_single_link_may_die_in_a_download() {
    for dead in 0..3 {
        let scenario = Scenario::new(three_links())
            .traffic(Traffic::tcp(Lane::Down))
            .traffic(pings())
            .traffic(constant(Lane::Down, 2000, 1000))
            .event(secs(4), Action::Blackout(dead, true))
            .event(secs(7), Action::Blackout(dead, false))
            .lasting(secs(9));
        let outcome = play(scenario);
        let [tcp, pings, steady] = &outcome.flows[..] else { panic!("three flows") };
        let stall = steady.longest_stall;
        assert!(stall <= millis(250), "link {dead} died: nothing came for {stall:?}");
        // What the queue dropped when the capacity fell, TCP sends again behind
        // what waits.
        let stall = tcp.longest_stall;
        assert!(stall <= millis(400), "link {dead} died: TCP stood still for {stall:?}");
        assert_eq!((pings.lost(), steady.lost()), (0, 0), "link {dead} died");
    }
}

#[test]
fn a_dead_link_is_used_again_when_it_returns() {
    let scenario = Scenario::new(three_links())
        .traffic(Traffic::new(Lane::Down, TrafficKind::Greedy { backlog: 100_000, size: 1300 }))
        .event(secs(3), Action::Blackout(0, true))
        .event(secs(6), Action::Blackout(0, false))
        .lasting(secs(12));
    let outcome = play(scenario);
    let before = outcome.flows[0].mbit(secs(2), secs(3));
    let during = outcome.flows[0].mbit(secs(4), secs(6));
    let after = outcome.flows[0].mbit(secs(10), secs(12));
    assert!(during > 22.0 && during < 31.0, "{before} {during} {after}");
    assert!(after > 45.0, "{before} {during} {after}");
}

#[test]
fn after_an_outage_of_all_links_everything_resumes_within_a_second() {
    let mut scenario = Scenario::new(three_links())
        .traffic(Traffic::tcp(Lane::Down))
        .traffic(pings())
        .lasting(secs(30));
    for link in 0..3 {
        scenario = scenario
            .event(secs(5), Action::Blackout(link, true))
            .event(secs(25), Action::Blackout(link, false));
    }
    let outcome = play(scenario);
    for flow in &outcome.flows {
        let resumed = flow.first_delivery_after(millis(25_001)).unwrap();
        assert!(resumed < secs(26), "{:?} resumed at {resumed:?}", flow.kind);
    }
    let mbit = outcome.flows[0].mbit(secs(27), secs(30));
    assert!(mbit > 25.0, "{mbit}");
}

#[test]
fn full_packets_cross_narrow_links() {
    let mut narrow = vec![link(10, 5, 10), link(10, 5, 20)];
    for link in &mut narrow {
        link.mtu = 1280;
    }
    let mut tcp = Traffic::tcp(Lane::Down);
    if let TrafficKind::Tcp { super_packets, .. } = &mut tcp.kind {
        *super_packets = false;
    }
    let scenario = Scenario::new(narrow).traffic(tcp).traffic(pings());
    let outcome = play(scenario);
    let mbit = outcome.flows[0].mbit(secs(3), secs(10));
    assert!(mbit > 14.0, "{mbit} of 20");
    for report in outcome.homes.iter().chain(&outcome.concentrator) {
        for path in &report.paths {
            assert!((1200..=1252).contains(&path.datagram), "{}", path.datagram);
        }
    }
}

#[test]
fn a_path_that_narrows_silently_goes_on() {
    let scenario = Scenario::new(vec![link(10, 5, 10)])
        .traffic(Traffic::tcp(Lane::Down))
        .event(secs(4), Action::Mtu(0, 1300))
        .lasting(secs(14));
    let outcome = play(scenario);
    let before = outcome.flows[0].mbit(secs(2), secs(4));
    let after = outcome.flows[0].mbit(secs(10), secs(14));
    assert!(before > 7.0 && after > 7.0, "{before} {after}");
    let path = &outcome.concentrator[0].paths[0];
    assert!(path.datagram <= 1272, "{}", path.datagram);
}

#[test]
fn a_voice_call_survives_the_death_of_any_link() {
    for dead in 0..3 {
        let scenario = Scenario::new(three_links())
            .traffic(Traffic::new(Lane::Up, TrafficKind::Voip))
            .traffic(Traffic::new(Lane::Down, TrafficKind::Voip))
            .traffic(Traffic::tcp(Lane::Down))
            .event(secs(4), Action::Blackout(dead, true))
            .lasting(secs(8));
        let outcome = play(scenario);
        for call in &outcome.flows[..2] {
            let latest = call.delay_percentile(1.0).unwrap();
            assert_eq!(call.lost(), 0, "link {dead} died, {:?}", call.lane);
            assert!(latest <= millis(150), "link {dead} died, {:?}: {latest:?}", call.lane);
        }
    }
}

#[test]
fn a_capacity_that_changes_all_the_time_is_followed() {
    // 6 and 1 Mbit/s in turn, for 700 ms each.
    let changing =
        traced((0..40_000).filter(|ms| ms % if ms / 700 % 2 == 0 { 2 } else { 12 } == 0), 30);
    let scenario = Scenario::new(vec![changing])
        .traffic(Traffic::new(Lane::Down, TrafficKind::Greedy { backlog: 200_000, size: 1400 }))
        .traffic(pings())
        .lasting(secs(30));
    let capacity = scenario.capacity(true, secs(5), secs(30));
    let outcome = play(scenario);
    let got = outcome.flows[0].bytes_between(secs(5), secs(30));
    assert!(got * 100 > capacity * 80, "{got} of {capacity}");
}

#[test]
fn a_steady_link_is_not_followed_since_its_sender_pauses() {
    // A stream by two links of constant capacity and some jitter, whose queue
    // rises and falls with the sender's window.
    for seed in 1..4 {
        let mut scenario = named("starlink-lte").unwrap();
        scenario.seed = seed;
        scenario.duration = secs(30);
        let ping = play(scenario).flows[1].delay_percentile(0.95).unwrap();
        assert!(ping <= millis(115), "seed {seed}: {ping:?}");
    }
}
