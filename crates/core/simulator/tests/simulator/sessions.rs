//! Handshakes, keys, restarts, addresses that change.

use crate::support::{
    constant, link, millis, pings, play, play_without_loss, secs, three_links, two_homes,
};
use braid_simulator::{Action, ClockSpec, EndId, Lane, Scenario, Simulation, Traffic};
use braid_tunnel::PathState;

fn two_links() -> Scenario {
    Scenario::new(vec![link(10, 5, 10), link(5, 5, 30)])
}

/// All links are dark between these seconds.
fn dark(mut scenario: Scenario, from: u64, to: u64) -> Scenario {
    for link in 0..scenario.links.len() {
        scenario = scenario
            .event(secs(from), Action::Blackout(link, true))
            .event(secs(to), Action::Blackout(link, false));
    }
    scenario
}

#[test]
fn the_first_messages_may_all_be_lost() {
    let scenario = dark(two_links().traffic(pings()).lasting(secs(6)), 0, 1);
    let outcome = play_without_loss(scenario);
    let first = outcome.flows[0].first_delivery_after(secs(0)).unwrap();
    assert!(first > secs(1) && first < secs(4), "{first:?}");
}

#[test]
fn a_preshared_key_works() {
    let mut scenario = two_links().traffic(pings()).lasting(secs(2));
    scenario.preshared_key = true;
    play_without_loss(scenario);
}

#[test]
fn clocks_may_differ_and_drift() {
    let mut scenario = two_links().traffic(pings()).traffic(Traffic::tcp(Lane::Down));
    scenario.home_clock = ClockSpec { offset: secs(0), drift_ppm: 200 };
    scenario.concentrator_clock = ClockSpec { offset: secs(4_000_000), drift_ppm: -200 };
    let outcome = play(scenario);
    assert_eq!(outcome.flows[0].lost(), 0);
    let mbit = outcome.flows[1].mbit(secs(3), secs(10));
    assert!(mbit > 10.0, "{mbit} of 15");
}

#[test]
fn times_of_32_bits_may_begin_anew() {
    for (home, concentrator) in [(4_290, 0), (0, 4_290), (4_292, 4_288)] {
        let mut scenario = two_links().traffic(pings()).traffic(Traffic::tcp(Lane::Down));
        scenario.home_clock = ClockSpec { offset: secs(home), drift_ppm: 0 };
        scenario.concentrator_clock = ClockSpec { offset: secs(concentrator), drift_ppm: 0 };
        let outcome = play(scenario);
        assert_eq!(outcome.flows[0].lost(), 0);
        let mbit = outcome.flows[1].mbit(secs(3), secs(10));
        assert!(mbit > 10.0, "{mbit} of 15: {home}, {concentrator}");
    }
}

#[test]
fn a_rekey_under_load_loses_nothing() {
    let scenario = two_links()
        .traffic(constant(Lane::Down, 6000, 1200).from(secs(117)))
        .traffic(constant(Lane::Up, 3000, 1200).from(secs(117)))
        .traffic(pings().from(secs(117)))
        .lasting(secs(126));
    let mut simulation = Simulation::new(scenario.clone());
    simulation.run_until(secs(117));
    simulation.record();
    simulation.run_until(scenario.duration + scenario.drain);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    let index = |at: usize| &outcome.captured[at].datagram.bytes[..4];
    let ups: Vec<usize> =
        (0..outcome.captured.len()).filter(|&i| outcome.captured[i].lane == Lane::Up).collect();
    let (first, last) = (ups[0], ups[ups.len() - 1]);
    assert_ne!(index(first), index(last), "the session has to be another one at the end");
    for flow in &outcome.flows {
        assert_eq!(flow.sent, flow.delivered, "{:?}", flow.kind);
    }
}

#[test]
fn a_restarted_concentrator_is_found_again() {
    let scenario = two_links()
        .traffic(pings())
        .traffic(Traffic::tcp(Lane::Down))
        .event(secs(4), Action::RestartConcentrator)
        .lasting(secs(12));
    let outcome = play(scenario);
    for flow in &outcome.flows {
        let resumed = flow.first_delivery_after(millis(4100)).unwrap();
        assert!(resumed < secs(8), "{:?} resumed at {resumed:?}", flow.kind);
    }
}

#[test]
fn a_restarted_home_is_known_again_at_once() {
    let scenario = two_links()
        .traffic(pings())
        .traffic(Traffic::tcp(Lane::Down))
        .event(secs(4), Action::RestartHome(0))
        .lasting(secs(10));
    let outcome = play(scenario);
    let resumed = outcome.flows[0].first_delivery_after(millis(4100)).unwrap();
    assert!(resumed < millis(4600), "{resumed:?}");
    let resumed = outcome.flows[1].first_delivery_after(millis(4100)).unwrap();
    assert!(resumed < secs(6), "{resumed:?}");
}

/// Either end, at any moment of a round trip, over links of any delay: what says that it restarts
/// is back without anything lost but what it was sent before it could say so.
#[test]
fn a_program_that_is_replaced_is_back_in_a_moment() {
    for (end, delay_ms, gap_ms) in [
        (EndId::Concentrator, 5, 30),
        (EndId::Concentrator, 40, 200),
        (EndId::Concentrator, 150, 30),
        (EndId::Concentrator, 300, 400),
        (EndId::Home(0), 5, 30),
        (EndId::Home(0), 40, 200),
        (EndId::Home(0), 150, 30),
        (EndId::Home(0), 300, 400),
    ] {
        let scenario = Scenario::new(vec![link(20, 10, delay_ms), link(8, 4, delay_ms)])
            .traffic(pings())
            .traffic(Traffic::tcp(Lane::Down))
            .event(secs(6), Action::Replace(end, millis(gap_ms)))
            .lasting(secs(12));
        let outcome = play(scenario);
        // A handshake, the first probes of a path from either end, a packet: five round trips.
        let back = millis(6000 + gap_ms + 60 + 10 * delay_ms + 150);
        let case = format!("{end:?} {delay_ms} ms, gone for {gap_ms} ms");
        let resumed = outcome.flows[0].first_delivery_after(millis(6000 + gap_ms)).unwrap();
        assert!(resumed < back, "{case}: pings at {resumed:?}, not by {back:?}");
        let lost = outcome.flows[0].lost();
        assert!(lost <= 5 + delay_ms / 10, "{case}: {lost} pings");
    }
}

/// Its clock stands still meanwhile: it doesn't know that its keys are too old.
#[test]
fn a_home_that_slept_for_a_day_is_back_at_once() {
    const DAY: u64 = 86_400;
    let scenario = two_links()
        .traffic(pings().from(secs(DAY + 10)))
        .event(secs(10), Action::Suspend(EndId::Home(0), secs(DAY)))
        .lasting(secs(DAY + 20));
    let mut simulation = Simulation::new(scenario.clone());
    simulation.run_until(secs(DAY / 2));
    assert!(!simulation.report(EndId::Concentrator)[0].connected, "it does sleep");
    simulation.run_until(scenario.duration + scenario.drain);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    let back = outcome.flows[0].first_delivery_after(secs(0)).unwrap();
    assert!(back < secs(DAY + 12), "{back:?}");
    let up = |report: &braid_tunnel::PeerReport| {
        report.paths.iter().filter(|path| path.state == PathState::Up).count()
    };
    assert_eq!((up(&outcome.homes[0]), up(&outcome.concentrator[0])), (2, 2));
}

/// Two laptops whose lids are closed, or a host of virtual machines that sleeps: neither clock
/// shows that time has passed, and the one that wakes first hears nothing.
#[test]
fn ends_that_both_slept_find_each_other_within_2_seconds() {
    const HOUR: u64 = 3600;
    for (home, concentrator) in [(HOUR, HOUR), (HOUR, HOUR + 20), (HOUR + 20, HOUR), (9, 4)] {
        let woken = secs(10 + home.max(concentrator));
        let scenario = two_links()
            .traffic(pings())
            .traffic(Traffic::tcp(Lane::Down))
            .event(secs(10), Action::Suspend(EndId::Home(0), secs(home)))
            .event(secs(10), Action::Suspend(EndId::Concentrator, secs(concentrator)))
            // The home's provider gives it another address meanwhile.
            .event(secs(11), Action::Roam(0))
            .lasting(woken + secs(10));
        let outcome = play(scenario);
        let back = outcome.flows[0].first_delivery_after(woken).unwrap();
        assert!(back < woken + secs(2), "{home} {concentrator}: {back:?}, awake at {woken:?}");
        let up = outcome.homes[0].paths.iter().filter(|path| path.state == PathState::Up);
        assert_eq!(up.count(), 2, "{home} {concentrator}");
    }
}

/// Weeks of a home's life are `--example churn`; this is an evening.
#[test]
fn a_home_may_sleep_again_and_again() {
    let mut scenario = two_links().traffic(pings()).lasting(secs(120));
    for (at, time) in [(5, 1), (10, 4), (20, 25), (50, 3), (60, 40)] {
        scenario = scenario.event(secs(at), Action::Suspend(EndId::Home(0), secs(time)));
    }
    let outcome = play(scenario);
    for woken in [6, 14, 45, 53, 100] {
        let back = outcome.flows[0].first_delivery_after(secs(woken)).unwrap();
        assert!(back < secs(woken + 2), "{woken}: {back:?}");
    }
}

/// As with a router that has no clock of its own: wrong until it has asked
/// somebody by the tunnel.
#[test]
fn a_home_whose_clock_went_back_is_known_again() {
    const DAY: i64 = 86_400;
    for (before, after) in [(0, -DAY), (DAY, 0), (0, -1_700_000_000), (100 * 365 * DAY, 0)] {
        let scenario = two_links()
            .traffic(pings())
            .traffic(Traffic::tcp(Lane::Down))
            .event(millis(900), Action::WallClock(0, before))
            .event(secs(1), Action::RestartHome(0))
            .event(millis(3900), Action::WallClock(0, after))
            .event(secs(4), Action::RestartHome(0))
            .lasting(secs(10));
        let outcome = play(scenario);
        for flow in &outcome.flows {
            let resumed = flow.first_delivery_after(millis(4100));
            let resumed = resumed.unwrap_or_else(|| panic!("{before}, {after}: locked out"));
            assert!(resumed < secs(7), "{before}, {after}: {:?} resumed at {resumed:?}", flow.kind);
        }
    }
}

#[test]
fn a_rebinding_nat_costs_nothing() {
    let scenario = Scenario::new(three_links())
        .traffic(pings())
        .traffic(constant(Lane::Down, 5000, 1200))
        .event(secs(3), Action::Rebind(0))
        .event(secs(4), Action::Rebind(1))
        .lasting(secs(6));
    play_without_loss(scenario);
}

#[test]
fn the_only_link_may_roam() {
    let scenario = Scenario::new(vec![link(10, 5, 10)])
        .traffic(pings())
        .traffic(constant(Lane::Up, 1000, 500))
        .event(secs(3), Action::Roam(0))
        .event(secs(5), Action::Roam(0))
        .lasting(secs(8));
    let outcome = play_without_loss(scenario);
    assert!(outcome.longest_stall() < millis(500), "{:?}", outcome.longest_stall());
}

#[test]
fn a_link_may_go_and_come() {
    let scenario = Scenario::new(three_links())
        .traffic(pings())
        .traffic(Traffic::tcp(Lane::Down))
        .event(secs(3), Action::Remove(0))
        .event(secs(5), Action::Add(0))
        .event(secs(6), Action::Carrier(1, false))
        .event(secs(7), Action::Carrier(1, true))
        .lasting(secs(10));
    let outcome = play(scenario);
    assert_eq!(outcome.flows[0].lost(), 0);
    let mbit = outcome.flows[1].mbit(secs(8), secs(10));
    assert!(mbit > 25.0, "all links have to be back in use: {mbit}");
}

#[test]
fn two_homes_share_a_concentrator() {
    let scenario = two_homes()
        .traffic(Traffic::tcp(Lane::Down).of_home(1))
        .event(secs(5), Action::RestartHome(1));
    let mut simulation = Simulation::new(scenario.clone());
    simulation.run_until(scenario.duration + scenario.drain);
    assert_eq!(simulation.report(EndId::Concentrator).len(), 2);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!(outcome.flows[0].lost(), 0, "the other home's restart must not matter");
    assert!(outcome.flows[2].mbit(secs(3), secs(10)) > 9.0);
    assert!(outcome.flows[3].mbit(secs(7), secs(10)) > 4.0);
}

#[test]
fn a_path_silent_for_long_is_closed_and_opens_again() {
    let mut scenario = Scenario::new(three_links())
        .traffic(pings())
        .traffic(constant(Lane::Down, 5000, 1200))
        .traffic(constant(Lane::Up, 2000, 1200))
        .event(secs(3), Action::Blackout(1, true))
        .event(secs(9), Action::Blackout(1, false))
        .lasting(secs(12));
    scenario.path_expiry = secs(3);
    let mut simulation = Simulation::new(scenario.clone());
    let paths = |simulation: &Simulation| {
        let report = simulation.report(EndId::Concentrator).remove(0);
        report.paths.iter().map(|path| path.id).collect::<Vec<_>>()
    };
    simulation.run_until(millis(5500));
    assert_eq!(paths(&simulation), [0, 1, 2]);
    simulation.run_until(millis(6500));
    assert_eq!(paths(&simulation), [0, 2]);
    simulation.run_until(scenario.duration + scenario.drain);
    assert_eq!(paths(&simulation), [0, 2, 1]);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    for flow in &outcome.flows {
        assert_eq!(flow.sent, flow.delivered, "{:?} lost something", flow.kind);
    }
    let report = &outcome.concentrator[0];
    assert!(report.paths.iter().all(|path| path.state == PathState::Up), "{:?}", report.paths);
    let (_, up) = outcome.link_bytes[1];
    let counted = report.paths.iter().find(|path| path.id == 1).unwrap().counters.received_bytes;
    assert!(counted > up / 2, "the path's counters go on: {counted} of {up}");
}

#[test]
fn the_last_path_stays_however_long_it_is_silent() {
    let mut scenario = dark(two_links().traffic(pings()).lasting(secs(14)), 2, 9);
    scenario.path_expiry = secs(2);
    let mut simulation = Simulation::new(scenario.clone());
    simulation.run_until(millis(8500));
    assert_eq!(simulation.report(EndId::Concentrator)[0].paths.len(), 1);
    simulation.run_until(scenario.duration + scenario.drain);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    let flow = &outcome.flows[0];
    assert_eq!(flow.sent, flow.delivered, "what waits at home is kept");
    assert_eq!(outcome.concentrator[0].paths.len(), 2);
}

#[test]
fn packets_of_a_closed_path_are_not_taken_again() {
    let mut scenario = two_links()
        .traffic(pings())
        .traffic(constant(Lane::Up, 1000, 500))
        .event(secs(3), Action::Blackout(1, true))
        .lasting(secs(8));
    scenario.path_expiry = secs(2);
    let mut simulation = Simulation::new(scenario.clone());
    simulation.run_until(secs(1));
    simulation.record();
    simulation.run_until(secs(7));
    assert_eq!(simulation.report(EndId::Concentrator)[0].paths.len(), 1);
    let old: Vec<_> = simulation
        .captured()
        .iter()
        .filter(|c| c.link == 1 && c.lane == Lane::Up && c.at < secs(2))
        .map(|c| c.datagram.clone())
        .collect();
    assert!(old.len() > 10);
    for datagram in &old {
        simulation.inject(EndId::Concentrator, 1, datagram.from, &datagram.bytes);
    }
    assert_eq!(simulation.report(EndId::Concentrator)[0].paths.len(), 1);
    simulation.run_until(scenario.duration + scenario.drain);
    let outcome = simulation.finish();
    assert_eq!(outcome.violations, Vec::<String>::new());
    let replayed: u64 = outcome.counters.iter().map(|counters| counters.replayed).sum();
    assert!(replayed >= old.len() as u64, "{replayed} of {}", old.len());
}

#[test]
fn a_home_may_have_any_number_of_links_one_after_the_other() {
    let mut scenario = Scenario::new(vec![link(1, 1, 10); 80]).traffic(pings()).lasting(secs(6));
    for gone in 0..74 {
        scenario = scenario.event(secs(2), Action::Remove(gone));
    }
    for new in 64..74 {
        scenario = scenario.event(secs(3), Action::Add(new));
    }
    let outcome = play_without_loss(scenario);
    let up = |report: &braid_tunnel::PeerReport| {
        report.paths.iter().filter(|path| path.state == PathState::Up).count()
    };
    assert_eq!((up(&outcome.homes[0]), up(&outcome.concentrator[0])), (10, 10));
    assert!(outcome.concentrator[0].paths.len() <= 64);
}

/// A NAT that takes another address costs little more than a round trip of its path:
/// the home notices before silence makes the path suspect.
#[test]
fn roaming_under_load_holds_nothing_up_for_long() {
    for moved in 0..3 {
        for at in [3500, 3792, 4303, 4376] {
            let scenario = Scenario::new(three_links())
                .traffic(pings())
                .traffic(Traffic::tcp(Lane::Down))
                .event(millis(at), Action::Roam(moved))
                .lasting(secs(6));
            let outcome = play(scenario);
            assert_eq!(outcome.flows[0].lost(), 0);
            let times = &outcome.flows[1].delivery_times;
            let near = times.windows(2).filter(|pair| pair[1] > millis(at) && pair[0] < secs(6));
            let stall = near.map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(stall < millis(130), "link {moved} at {at} ms: {stall:?}");
        }
    }
}
