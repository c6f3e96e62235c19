//! Links that work in part: the others carry on, and none of it is lost.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::{DirectionChange, LinkChange, Loss};
use braid_units::Ratio;

/// What becomes of the first of two links.
fn carries_on(what: &str, damage: impl Fn(&World)) {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    for direction in [Direction::Down, Direction::Up] {
        println!("{what}, {direction:?}");
        let pings = Pings::start(&world.home, INSIDE_V4, 30);
        let (home, concentrator) = (&world.home, &world.concentrator);
        let transfer = Transfer::start(home, concentrator, INSIDE_V4, direction, 8_000_000);
        transfer.wait_until_received(1_000_000);
        damage(&world);
        transfer.finish();
        pings.none_is_lost();
    }
}

fn loses(share: f64) -> Option<DirectionChange> {
    let loss = Some(Loss::Random(Ratio::from_fraction(share)));
    Some(DirectionChange { loss, ..DirectionChange::default() })
}

#[test]
fn a_link_that_only_sends_or_only_receives() {
    for (what, down, up) in [("deaf", loses(1.0), None), ("dumb", None, loses(1.0))] {
        let (down, up) = (&down, &up);
        carries_on(what, |world| {
            let (down, up) = (down.clone(), up.clone());
            world.change(0, &LinkChange::Set { down, up, mtu: None });
        });
    }
}

#[test]
fn a_link_that_loses_a_third() {
    carries_on("lossy", |world| {
        world.change(0, &LinkChange::Set { down: loses(0.3), up: loses(0.3), mtu: None });
    });
}

#[test]
fn a_link_that_passes_small_packets_only() {
    carries_on("narrow", |world| {
        world.change(0, &LinkChange::Set { down: None, up: None, mtu: Some(600) });
    });
}

#[test]
fn a_link_that_lets_only_web_and_names_pass() {
    // What a captive portal does before somebody logs in, from the start on.
    let Some(mut world) = World::new(&[link("hotel"), link("lte")]) else { return };
    world.home.sh(
        "nft 'add table inet portal; add chain inet portal out { type filter hook output priority 0; }; \
         add rule inet portal out oifname \"hotel\" udp dport != 53 drop'",
    );
    world.write_configs(&Tunnel::default());
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    let (home, concentrator) = (&world.home, &world.concentrator);
    Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 3_000_000).finish();
    assert!(world.home.braid(&["status"]).status.success());
    // Logged in.
    world.home.sh("nft delete table inet portal");
    world.home.wait_for_active_paths(2);
}
