//! Memory, threads and ports that can't be had: the tunnel goes on or says plainly why not, heals
//! when it is over, and `down` takes everything back.

use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::net::UdpSocket;

#[test]
fn a_port_that_is_taken_is_told_and_nothing_is_left() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    world.write_configs(&Tunnel { concentrator_routing: "masquerade = true", ..carries_all() });
    let side = &world.concentrator;
    let before = side.host_settings();
    let bind = || UdpSocket::bind("0.0.0.0:51900").unwrap();
    let taken = side.namespace.run(bind).unwrap();
    let output = side.braid(&["up", "--foreground"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("51900: the port is taken"), "{said}");
    assert_eq!(side.host_settings(), before, "nothing is left behind");
    drop(taken);
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
}

/// As when other programs hold all that the kernel gives to who doesn't name one.
#[test]
fn links_without_a_port_are_told_and_heal() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&carries_all());
    let range = |world: &World, ports: &str| {
        world.home.sh(&format!("echo '{ports}' > /proc/sys/net/ipv4/ip_local_port_range"));
    };
    let usual = world.home.sh("cat /proc/sys/net/ipv4/ip_local_port_range").trim().to_owned();
    let hold = |port: u16| UdpSocket::bind(("::", port)).unwrap();
    let held = world.home.namespace.run(|| [hold(40_000), hold(40_001)]).unwrap();
    range(&world, "40000 40001");
    world.concentrator.start();
    world.home.start();
    let told = |world: &World| {
        world.home.status()["links"].to_string().matches("can't open its socket").count()
    };
    world.home.wait_until("what lacks is told", || told(&world) == 2);
    drop(held);
    world.home.wait_for_active_paths(2);
    world.home.wait_until("nothing lacks", || told(&world) == 0);
    range(&world, &usual);
    world.home.stop();
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
}

/// The process gets no more address space: not for a buffer, not for a thread's stack.
#[test]
fn without_more_memory_the_tunnel_goes_on_and_goes_down_in_order() {
    let Some(mut world) = World::new(&[link("cable"), link("dsl")]) else { return };
    let before = world.home.host_settings();
    world.start(&carries_all());
    for heals in [true, false] {
        let pid = world.home.status()["pid"].as_u64().unwrap();
        let limit = |limit: &str| world.home.sh(&format!("prlimit --pid {pid} --as={limit}:"));
        let used =
            world.home.sh(&format!("awk '/^VmSize/ {{ print $2 * 1024 }}' /proc/{pid}/status"));
        limit(used.trim());
        Pings::start(&world.home, INSIDE_V4, 5).none_is_lost();
        for request in [&["status"][..], &["reload"], &["mode", "overflow"], &["events"]] {
            let output = world.home.braid(request);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{request:?}: {said}");
        }
        assert!(!world.home.log().contains("panicked"), "{}", world.home.log());
        if heals {
            limit("unlimited");
            world.home.braid_ok(&["reload"]);
            world.home.wait_for_active_paths(2);
        }
    }
    world.home.stop();
    assert_eq!(world.home.host_settings(), before, "nothing is left behind");
}

/// At whatever moment of the start it lacks: each more that is allowed gets it further.
#[test]
fn a_start_with_too_little_memory_leaves_nothing() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&carries_all());
    world.concentrator.start();
    let (mut refused, mut came_up) = (0, 0);
    for megabytes in (45..330).step_by(15) {
        let (code, said) = world.home.up_for_a_moment(megabytes * 1_000_000);
        match code {
            // The loader's, which comes before `main`; or what Rust does when it can't allocate.
            Some(127) | None => drop(world.home.braid(&["down"])),
            Some(0) => came_up += 1,
            Some(code) => {
                assert!(
                    code == 1 && ["no memory", "unavailable"].iter().any(|why| said.contains(why)),
                    "{megabytes} MB: {code}\n{said}"
                );
                refused += 1;
            }
        }
        // Not the standard library's: a thread that has no room for its signal stack.
        assert!(!said.contains("panicked at crates/"), "{megabytes} MB: {said}");
        assert_eq!(world.home.host_settings(), before, "{megabytes} MB: nothing is left behind");
    }
    println!("{refused} were refused, {came_up} came up");
    assert!(came_up > 0);
    world.home.start();
    world.home.wait_for_active_paths(1);
}

fn carries_all() -> Tunnel<'static> {
    Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() }
}
