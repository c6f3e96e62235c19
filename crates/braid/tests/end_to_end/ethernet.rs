//! The tunnel as an Ethernet cable.

use crate::traffic::{Direction, Pings, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};

const CONCENTRATOR: &str = "layer = \"l2\"\naddresses = [\"10.77.0.1/24\"]";

#[test]
fn ethernet_frames_pass() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let home = "layer = \"l2\"\naddresses = [\"10.77.0.2/24\"]";
    world.start(&Tunnel { concentrator: CONCENTRATOR, home, ..Tunnel::default() });
    world.home.wait_for_ping(INSIDE_V4);
    let neighbour = world.home.sh("ip neigh show 10.77.0.1 dev braid0");
    let device = world.concentrator.sh("ip -br link show braid0");
    let address = device.split_whitespace().nth(2).unwrap();
    assert!(neighbour.contains(address), "ARP found {address}: {neighbour}");
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    let (home, concentrator) = (&world.home, &world.concentrator);
    Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 2_000_000).finish();
}

#[test]
fn the_device_becomes_a_port_of_a_bridge() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    // A LAN of one host, a port of the home's bridge as the tunnel is.
    world.home.sh(
        "ip link add br0 type bridge && ip link set br0 up && ip addr add 10.77.0.2/24 dev br0",
    );
    let home = "layer = \"l2\"\nbridge = \"br0\"";
    world.start(&Tunnel { concentrator: CONCENTRATOR, home, ..Tunnel::default() });
    assert!(world.home.sh("ip -o link show master br0").contains("braid0"));
    world.home.wait_for_ping(INSIDE_V4);
    Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
    world.home.stop();
    assert_eq!(world.home.sh("ip -o link show master br0"), "");
}

#[test]
fn a_bridge_that_is_made_anew_gets_its_port_back() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let make = "ip link add br0 type bridge && ip link set br0 up && \
                ip addr add 10.77.0.2/24 dev br0";
    world.home.sh(make);
    let home = "layer = \"l2\"\nbridge = \"br0\"";
    world.start(&Tunnel { concentrator: CONCENTRATOR, home, ..Tunnel::default() });
    world.home.wait_for_ping(INSIDE_V4);
    let is_port = || world.home.sh("ip -o link show master br0").contains("braid0");
    world.home.sh(&format!("ip link del br0 && {make}"));
    world.home.wait_until("it is a port again", is_port);
    world.home.wait_for_ping(INSIDE_V4);
    world.home.sh("ip link set braid0 nomaster");
    world.home.wait_until("it is a port again", is_port);
    world.home.wait_for_ping(INSIDE_V4);
    // Who makes it a port of another bridge means that.
    world.home.sh("ip link add br1 type bridge && ip link set braid0 master br1");
    world.home.sh("ip link set lo mtu 60000");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(world.home.sh("ip -o link show master br1").contains("braid0"));
}

#[test]
fn a_bridge_that_is_none_is_told() {
    let Some(world) = World::new(&[link("dsl")]) else { return };
    for (bridge, problem) in [("br7", "there is no such device"), ("dsl", "it is not a bridge")] {
        let home = format!("layer = \"l2\"\nbridge = \"{bridge}\"");
        world.write_configs(&Tunnel { home: &home, ..Tunnel::default() });
        let refused = world.home.braid(&["up", "--foreground"]);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains(problem) && text.contains(bridge), "{text}");
        assert!(!world.home.sh("ip -o link").contains("braid0"), "nothing stays");
    }
}
