//! Either end's program ends and comes back; nobody tells the other.

use crate::traffic::Pings;
use crate::world::{INSIDE_V4, Tunnel, World, link};

#[test]
fn a_concentrator_that_crashed_is_found_again() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    world.concentrator.kill();
    world.concentrator.start();
    world.home.wait_for_ping(INSIDE_V4);
    world.home.wait_for_active_paths(2);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}

#[test]
fn a_home_that_starts_anew_is_let_in_again() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    world.home.kill();
    world.home.start();
    world.home.wait_for_ping(INSIDE_V4);
    world.home.stop();
    world.home.start();
    world.home.wait_for_active_paths(2);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
}
