//! Hosts that get their IPv6 default route by router advertisements.

use crate::world::{Uplink, World, assert_unchanged, settled_state, wait_for};

const HAS_RA_ROUTE: &str = "ip -6 route show default proto ra | grep -q .";

#[test]
fn a_concentrator_keeps_the_default_route_that_it_learnt() {
    let Some(mut world) = World::new(&[Uplink::Static]) else { return };
    world.advertise("con");
    let namespace = &world.concentrator.namespace;
    wait_for(namespace, HAS_RA_ROUTE);
    let before = settled_state(namespace);
    world.write_configs(1, "", "masquerade = true");
    world.concentrator.start();
    assert_ne!(world.concentrator.sh("cat /proc/sys/net/ipv6/conf/all/forwarding"), "0\n");
    world.concentrator.sh(HAS_RA_ROUTE);
    // One that is lost is learnt again, also by a device that comes later.
    world.concentrator.sh("ip -6 route del default proto ra dev eth0");
    wait_for(&world.concentrator.namespace, HAS_RA_ROUTE);
    world.concentrator.stop();
    assert_unchanged(&world.concentrator.namespace, &before);
}

#[test]
fn a_device_that_comes_while_the_tunnel_runs_learns_its_route() {
    let Some(mut world) = World::new(&[Uplink::Static]) else { return };
    world.write_configs(1, "default_route = true", "leave_host_alone = true");
    world.home.start();
    let had = world.home.sh("cat /proc/sys/net/ipv6/conf/lo/accept_ra");
    world.add_uplink(2, Uplink::Slaac);
    // As ifupdown does for `accept_ra 1`.
    world.home.sh("echo 1 > /proc/sys/net/ipv6/conf/wan2/accept_ra");
    wait_for(
        &world.home.namespace,
        &format!("{HAS_RA_ROUTE} && ip -6 route show default dev wan2 proto ra | grep -q ."),
    );
    world.home.stop();
    let has = world
        .home
        .sh("cat /proc/sys/net/ipv6/conf/wan2/accept_ra /proc/sys/net/ipv6/conf/wan2/forwarding");
    assert_eq!(has, "1\n0\n", "as a new device has it without the tunnel; lo had {had}");
}

#[test]
fn an_uplink_with_router_advertisements_only_returns() {
    let Some(mut world) = World::new(&[Uplink::Slaac]) else { return };
    wait_for(&world.home.namespace, HAS_RA_ROUTE);
    let before = settled_state(&world.home.namespace);
    world.write_configs_for(
        "[2001:db8:1::1]:51900",
        1,
        "default_route = true",
        "leave_host_alone = true",
    );
    world.concentrator.sh("ip route add default via 2001:db8:1::ff dev eth0");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    for _ in 0..2 {
        world.home.sh("ip link set wan1 down");
        world.home.wait_for_active_paths(0);
        world.home.sh("ip link set wan1 up");
        world.home.wait_for_active_paths(1);
    }
    world.home.stop();
    wait_for(&world.home.namespace, HAS_RA_ROUTE);
    assert_unchanged(&world.home.namespace, &before);
}
