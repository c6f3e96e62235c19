//! Uplinks of every kind, by real DHCP and router advertisements, that come, go and change
//! their address at every moment of a tunnel's life: it works when they are there, and each
//! time the host is as it was when the tunnel is down.

use crate::world::{Uplink, World, assert_unchanged, settled_state, wait_for};
use std::process::{Child, Command, Stdio};

/// When an uplink comes, goes and changes.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Up,
    Running,
    Reload,
    Down,
}

/// What an administrator gives the second uplink.
const BY_HAND: &str =
    "ip addr replace 10.1.2.2/24 dev wan2; ip addr replace fd00:2::2/64 dev wan2 nodad
     ip route replace default via 10.1.2.1 dev wan2 metric 20
     ip -6 route replace default via fd00:2::1 dev wan2 metric 20";
/// Its cable is pulled, and plugged in again.
const UNPLUGGED: &str = "ip link set wan2 down; sleep 0.2; ip link set wan2 up";

#[test]
fn an_uplink_set_by_hand_may_come_go_and_change_whenever_it_likes() {
    at_every_moment(
        Uplink::Static,
        BY_HAND,
        UNPLUGGED,
        "ip -4 addr flush dev wan2; ip addr add 10.1.2.77/24 dev wan2
         ip route replace default via 10.1.2.1 dev wan2 metric 20; sleep 0.3
         ip -4 addr flush dev wan2",
    );
}

#[test]
fn an_uplink_by_dhcp_may_come_go_and_change_whenever_it_likes() {
    // The other lease is what a provider gives that renumbers.
    at_every_moment(
        Uplink::Dhcp,
        "udhcpc -f -n -q -t 20 -T 1 -i wan2 -s $LEASE >/dev/null 2>&1",
        UNPLUGGED,
        "OTHER=10.1.2.88 udhcpc -f -n -q -t 20 -T 1 -i wan2 -s $LEASE >/dev/null 2>&1; sleep 0.3",
    );
}

#[test]
fn an_uplink_by_router_advertisements_may_come_go_and_change_whenever_it_likes() {
    let change = "ip -6 addr flush dev wan2 scope global; sleep 0.3";
    at_every_moment(Uplink::Slaac, "true", UNPLUGGED, change);
}

#[test]
fn an_uplink_by_dhcpv6_may_come_go_and_change_whenever_it_likes() {
    at_every_moment(
        Uplink::Dhcp6,
        "$LEASE6 wan2",
        UNPLUGGED,
        "OTHER=fd00:2::77 $LEASE6 wan2; sleep 0.3; ip -6 addr flush dev wan2 scope global",
    );
}

/// As a modem at USB that starts anew, and is told apart by its name only.
#[test]
fn a_device_may_come_and_go_whenever_it_likes() {
    let renamed = "ip link set wan2 down; ip link set wan2 name usb0; sleep 0.2
         ip link set usb0 name wan2; ip link set wan2 up";
    at_every_moment(Uplink::Static, BY_HAND, "$RECREATE wan2 isp2", renamed);
}

/// `restore` makes the second uplink what it is, after `unplug` (which plugs it in again) and
/// after `change`, which makes something else of it for a moment.
fn at_every_moment(kind: Uplink, restore: &str, unplug: &str, change: &str) {
    let Some(mut world) = World::new(&[Uplink::Static, kind]) else { return };
    world.concentrator.sh("ip -6 route add default via 2001:db8:1::ff dev eth0");
    let both = "198.51.100.1:51900\", \"[2001:db8:1::1]:51900";
    world.write_configs_for(both, 2, "default_route = true", "leave_host_alone = true");
    world.concentrator.start();
    let (lease, lease6) = (world.lease_script(), world.lease6_script());
    let recreate = world.recreate_script();
    let restore = format!("LEASE={lease}; LEASE6={lease6}; RECREATE={recreate}; {restore}");
    let there = "ip addr show dev wan2 scope global | grep -q inet &&
         (ip route show default; ip -6 route show default) | grep -q wan2";
    for moment in [Moment::Up, Moment::Running, Moment::Reload, Moment::Down] {
        println!("{moment:?}");
        world.home.sh(&restore);
        wait_for(&world.home.namespace, there);
        let before = settled_state(&world.home.namespace);
        // Plugged out and in, and renumbered, until told to stop.
        let unrest = format!(
            "for round in 1 2; do
                 {unplug}; {restore}; sleep 0.3
                 {change}; {restore}; sleep 0.2
             done"
        );
        match moment {
            Moment::Up => {
                let unrest = begin(&world, &unrest);
                world.home.start();
                end(unrest);
                world.home.wait_for_active_paths(2);
                world.home.stop();
            }
            Moment::Running => {
                world.home.start();
                world.home.wait_for_active_paths(2);
                end(begin(&world, &unrest));
                world.home.wait_for_active_paths(2);
                let warnings = || world.home.status()["warnings"].as_array().map(Vec::len);
                world.home.wait_until("nothing is in its way", || warnings() == Some(0));
                world.home.stop();
            }
            Moment::Reload => {
                world.home.start();
                world.home.wait_for_active_paths(2);
                let mut unrest = begin(&world, &unrest);
                while unrest.try_wait().unwrap().is_none() {
                    world.home.braid_ok(&["reload"]);
                }
                end(unrest);
                world.home.wait_for_active_paths(2);
                world.home.stop();
            }
            Moment::Down => {
                world.home.start();
                world.home.wait_for_active_paths(2);
                let unrest = begin(&world, &unrest);
                world.home.stop();
                end(unrest);
            }
        }
        world.home.sh(&restore);
        wait_for(&world.home.namespace, there);
        assert_unchanged(&world.home.namespace, &before);
    }
}

fn begin(world: &World, script: &str) -> Child {
    let mut command: Command = world.home.namespace.command("sh");
    command.args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
}

fn end(mut unrest: Child) {
    assert!(unrest.wait().unwrap().success());
}
