//! Links that fail, change their addresses, or sit behind a NAT.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::{LinkChange, LinkModel};
use std::time::Duration;

const MEGABYTE: usize = 1_000_000;

#[test]
fn a_nat_that_moves_the_only_link_stops_nothing() {
    let Some(mut world) = World::new(&[LinkModel { nat: true, ..link("lte") }]) else { return };
    world.start(&Tunnel::default());
    let seen_from = |world: &World| world.concentrator.paths()[0]["remote"].clone();
    let first = seen_from(&world);
    let pings = Pings::start(&world.home, INSIDE_V4, 60);
    let transfer =
        Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Down, 8 * MEGABYTE);
    for progress in [2 * MEGABYTE, 5 * MEGABYTE] {
        transfer.wait_until_received(progress);
        world.change(0, &LinkChange::Rebind);
    }
    transfer.finish();
    pings.none_is_lost();
    assert_ne!(seen_from(&world), first, "the concentrator follows the link's address");
}

#[test]
fn a_silent_blackout_of_one_link_loses_nothing() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    for (dark, direction) in [(0, Direction::Down), (1, Direction::Up)] {
        let pings = Pings::start(&world.home, INSIDE_V4, 30);
        let transfer =
            Transfer::start(&world.home, &world.concentrator, INSIDE_V4, direction, 10 * MEGABYTE);
        transfer.wait_until_received(3 * MEGABYTE);
        world.change(dark, &LinkChange::Blackout(true));
        transfer.finish();
        pings.none_is_lost();
        world.home.wait_for_active_paths(1);
        world.change(dark, &LinkChange::Blackout(false));
        world.home.wait_for_active_paths(2);
    }
}

#[test]
fn a_connection_outlives_a_blackout_of_all_links() {
    // The one that returns is not the one that was quicker.
    let mut slower = link("lte");
    slower.down.delay *= 3;
    let Some(mut world) = World::new(&[link("dsl"), slower]) else { return };
    world.start(&Tunnel::default());
    let transfer =
        Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Down, 8 * MEGABYTE);
    transfer.wait_until_received(2 * MEGABYTE);
    for dark in [0, 1] {
        world.change(dark, &LinkChange::Blackout(true));
    }
    std::thread::sleep(Duration::from_secs(4));
    world.change(1, &LinkChange::Blackout(false));
    transfer.finish();
}

#[test]
fn a_link_that_gets_another_address_goes_on() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    world.start(&Tunnel::default());
    let transfer =
        Transfer::start(&world.home, &world.concentrator, INSIDE_V4, Direction::Down, 8 * MEGABYTE);
    transfer.wait_until_received(2 * MEGABYTE);
    let addresses = *world.topology.links()[0].addresses();
    let (old, gateway) = (addresses.home_v4, addresses.gateway_v4);
    world.home.sh(&format!(
        "ip addr del {old}/24 dev cable && ip addr add 192.168.11.77/24 dev cable && \
         ip route replace default via {gateway} dev cable"
    ));
    transfer.finish();
    let remote = world.concentrator.paths()[0]["remote"].to_string();
    assert!(remote.contains("192.168.11.77"), "the concentrator sees {remote}");
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}
