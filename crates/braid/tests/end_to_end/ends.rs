//! A daemon is ended, or loses what it needs, in ways that nobody means well: it is one, it takes
//! all back, and a tunnel that runs goes on.

use crate::traffic::Pings;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use std::fs;
use std::time::Duration;

#[test]
fn one_that_is_ended_while_it_starts_leaves_nothing() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&carries_all());
    let signals = ["-TERM", "-INT", "-HUP", "-QUIT"];
    for (signal, moment) in signals.into_iter().cycle().zip(0..12) {
        world.home.begin();
        // From before it does anything until it is up.
        std::thread::sleep(Duration::from_millis(20 + 60 * moment));
        let status = world.home.signal(signal);
        assert_eq!(world.home.host_settings(), before, "{signal}, moment {moment}: {status}");
    }
    // All of them are heard when it is up.
    for signal in signals {
        world.home.start();
        assert_eq!(world.home.signal(signal).code(), Some(0), "{signal}");
        assert_eq!(world.home.host_settings(), before, "{signal}");
    }
}

/// As a service manager's and an administrator's, after a crash has left its socket.
#[test]
fn of_several_that_start_at_once_there_is_one() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&carries_all());
    world.concentrator.start();
    for _ in 0..3 {
        world.home.start();
        world.home.kill();
        let mut daemons: Vec<_> = (0..4).map(|_| world.home.another()).collect();
        world.home.wait_until("one answers", || world.home.braid(&["status"]).status.success());
        world.home.wait_for_active_paths(1);
        let running = world.home.status()["pid"].as_u64().unwrap();
        daemons.retain_mut(|daemon| {
            u64::from(daemon.id()) == running || {
                assert_eq!(daemon.wait().unwrap().code(), Some(6), "is up already");
                false
            }
        });
        world.home.braid_ok(&["down"]);
        assert_eq!(daemons.remove(0).wait().unwrap().code(), Some(0));
        assert_eq!(world.home.host_settings(), before);
    }
}

/// As by somebody who tidies up /run.
#[test]
fn one_whose_socket_is_deleted_goes_on_and_goes_down() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.start(&carries_all());
    wait_until_it_carries_all(&world);
    let pings = Pings::start(&world.home, INSIDE_V4, 10);
    let during = world.home.host_settings();
    for folder in world.home.folders() {
        fs::remove_dir_all(folder).unwrap();
    }
    for again in [&["up"][..], &["up", "--foreground"]] {
        let output = world.home.braid(again);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("is up already: process"), "{said}");
    }
    assert_eq!(world.home.host_settings(), during);
    pings.none_is_lost();
    world.home.braid_ok(&["down"]);
    assert_eq!(world.home.wait_for_the_end().code(), Some(0));
    assert_eq!(world.home.host_settings(), before);
}

#[test]
fn one_whose_device_is_set_down_sets_it_up_again() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.start(&carries_all());
    wait_until_it_carries_all(&world);
    let during = world.home.host_settings();
    world.home.sh("ip link set braid0 down");
    world.home.wait_until("it is told", || world.home.log().contains("it is set up again"));
    world.home.wait_until("all is as it was", || world.home.host_settings() == during);
    world.home.wait_for_ping(INSIDE_V4);
    world.home.stop();
    assert_eq!(world.home.host_settings(), before);
}

#[test]
fn one_whose_device_is_renamed_ends_and_says_why() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.start(&carries_all());
    world.home.wait_for_ping(INSIDE_V4);
    world.home.sh("ip link set braid0 down && ip link set braid0 name other0");
    assert_eq!(world.home.wait_for_the_end().code(), Some(1));
    assert!(world.home.log().contains("braid0 is gone"), "{}", world.home.log());
    assert_eq!(world.home.host_settings(), before);
}

/// As one that waits for something for ever.
#[test]
fn one_that_is_stuck_is_named_and_can_be_killed() {
    let Some(mut world) = World::new(&[link("cable")]) else { return };
    let before = world.home.host_settings();
    world.write_configs(&carries_all());
    world.home.start();
    let process = world.home.status()["pid"].as_u64().unwrap();
    world.home.sh(&format!("kill -STOP {process}"));
    let output = world.home.braid(&["down"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("kill -9 {process}")), "{said}");
    world.home.kill();
    world.home.braid_ok(&["down"]);
    assert_eq!(world.home.host_settings(), before);
}

/// From then on nothing of the host changes by itself. IPv6 routes are listed twice.
fn wait_until_it_carries_all(world: &World) {
    let carries = || world.home.rules_and_tables().matches("default dev braid0").count() == 3;
    world.home.wait_until("the tunnel carries all", carries);
}

fn carries_all() -> Tunnel<'static> {
    Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() }
}
