//! IPv6 inside and outside.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, INSIDE_V6, Tunnel, World, link};
use braid_lab::topology::CONCENTRATOR_V6;

#[test]
fn ipv6_passes_a_tunnel_over_ipv4() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    world.start(&Tunnel::default());
    Pings::start(&world.home, INSIDE_V6, 5).none_is_lost();
    for direction in [Direction::Down, Direction::Up] {
        Transfer::start(&world.home, &world.concentrator, INSIDE_V6, direction, 2_000_000).finish();
    }
}

#[test]
fn both_versions_pass_a_tunnel_over_ipv6() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let endpoint = format!("[{CONCENTRATOR_V6}]:51900");
    world.start(&Tunnel { endpoint, ..Tunnel::default() });
    for path in world.home.paths() {
        let remote = path["remote"].to_string();
        assert!(remote.contains(&CONCENTRATOR_V6.to_string()), "over IPv6: {remote}");
    }
    for inside in [INSIDE_V4, INSIDE_V6] {
        Pings::start(&world.home, inside, 5).none_is_lost();
        let (home, concentrator) = (&world.home, &world.concentrator);
        Transfer::start(home, concentrator, inside, Direction::Down, 2_000_000).finish();
    }
}

#[test]
fn an_address_that_was_just_given_is_waited_for() {
    const NEW: &str = "2001:db8:9::1";
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    // It takes a second or two until a new address can be bound to.
    world.concentrator.sh(&format!(
        "ip link add new0 type veth peer name new1 && \
         echo 1 > /proc/sys/net/ipv6/conf/new0/accept_dad && \
         ip link set new1 up && ip link set new0 up && ip addr add {NEW}/64 dev new0"
    ));
    let endpoint = format!("[{NEW}]:51900");
    world.write_configs(&Tunnel { endpoint, ..Tunnel::default() });
    world.concentrator.start();
}
