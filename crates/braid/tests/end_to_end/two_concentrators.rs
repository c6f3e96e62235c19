//! A home with two concentrators that have the same networks behind them.

use crate::side::Side;
use crate::traffic::{Direction, Transfer};
use crate::world::{LEAVE_HOST_ALONE, Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use std::net::{IpAddr, Ipv4Addr};

/// A server that both reach.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const SECOND: &str = "203.0.113.2";
const BYTES: usize = 10_000_000;

#[test]
fn a_connection_outlives_its_concentrator() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte")]) else { return };
    let mut second = second_concentrator(&world);
    world.write_configs(&Tunnel::default());
    world.add_stand_in(&second, SECOND);
    world.home.append_to_config("keepalive = \"1s\"\n");
    world.concentrator.start();
    second.start();
    world.home.start();
    world.home.wait_until("both are connected", ready(&world));
    world.home.sh(&format!("ip route add {SERVER} dev braid0 src 10.77.0.2"));
    let served_by = |world: &World| world.home.status()["peers"][0]["served_by"].clone();
    assert!(served_by(&world).is_null());

    // The server's way back is the kernel's: by the first, while that has the device.
    let start = |world: &World, direction| {
        let (home, server) = (&world.home, &world.concentrator);
        let transfer = Transfer::start(home, server, SERVER, direction, BYTES);
        transfer.wait_until_received(BYTES / 20);
        transfer
    };
    let transfer = start(&world, Direction::Up);
    world.concentrator.kill();
    transfer.finish();
    assert_eq!(served_by(&world), "second");
    let told = String::from_utf8(world.home.braid_ok(&["status"])).unwrap();
    assert!(told.contains("second now stands in for it"), "{told}");

    world.concentrator.start();
    world.home.wait_until("both are connected", ready(&world));
    let transfer = start(&world, Direction::Down);
    second.kill();
    transfer.finish();
    assert!(served_by(&world).is_null(), "the first serves, since it answers");
    second.start();
    world.home.wait_until("both are connected", ready(&world));

    // One that is stopped in good order is followed as well, and a config without it.
    world.concentrator.stop();
    world.home.wait_until("the second serves", || served_by(&world) == "second");
    world.write_configs(&Tunnel::default());
    world.home.braid_ok(&["reload"]);
    world.home.wait_until("the first has no other", || served_by(&world).is_null());
}

/// Whether the home is connected to both.
fn ready(world: &World) -> impl Fn() -> bool {
    || {
        let peers = world.home.status()["peers"].clone();
        (0..2).all(|peer| peers[peer]["connected"] == true)
    }
}

/// A host behind the first one, which routes to it and is the server.
fn second_concentrator(world: &World) -> Side {
    let namespace = NetNs::new().unwrap();
    let mut netlink = namespace.run(Netlink::open).unwrap().unwrap();
    netlink.add_veth("c2", "r2", Some(&world.concentrator.namespace)).unwrap();
    let side = Side::new(&namespace, &world.scratch.path().join("second"));
    side.sh(&format!(
        "ip addr add {SECOND}/30 dev c2 && ip link set c2 up && ip link set lo up \
         && ip route add default via 203.0.113.1 && sysctl -qw net.ipv4.ip_forward=1"
    ));
    world.concentrator.sh(&format!(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
         && ip link set r2 up && ip route add {SECOND} dev r2 src 203.0.113.1 \
         && ip addr add {SERVER}/32 dev lo \
         && ip route add 10.77.0.0/24 via {SECOND} dev r2 metric 4000"
    ));
    let listen = format!("addresses = [\"10.77.0.1/24\"]\nlisten = [\"{SECOND}:51900\"]");
    let home = format!(
        "[[peer]]\nname = \"home\"\npublic_key = \"{}\"\nallowed_ips = [\"10.77.0.2\"]\n",
        world.home.public_key()
    );
    side.write_config(&listen, LEAVE_HOST_ALONE, &home);
    side
}
