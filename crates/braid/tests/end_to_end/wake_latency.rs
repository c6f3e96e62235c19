//! Processors that are asked to stay awake.

use crate::traffic::{Direction, Transfer};
use crate::world::{INSIDE_V4, Tunnel, World, link};
use braid_linux::wake_latency::{self, WakeLatency};
use std::fs::File;
use std::io::Read;

#[test]
fn the_kernel_is_asked_while_packets_come() {
    asked_by("wake_latency = \"7us\"", 7);
}

#[test]
fn unless_told_otherwise_only_processors_of_our_own_stay_awake() {
    if !wake_latency::processors_are_dedicated() {
        return eprintln!("SKIPPED: no virtual machine with processors of its own");
    }
    asked_by("", 0);
}

fn asked_by(setting: &str, micros: i32) {
    let device = WakeLatency::DEVICE;
    if let Err(error) = limit_micros() {
        return eprintln!("SKIPPED: {device}: {error}");
    }
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    let home = &format!("addresses = [\"10.77.0.2/24\"]\n{setting}");
    let concentrator = "addresses = [\"10.77.0.1/24\"]\nwake_latency = \"off\"";
    world.start(&Tunnel { home, concentrator, ..Tunnel::default() });
    world.home.wait_for_ping(INSIDE_V4);
    let is_asked = || limit_micros().is_ok_and(|limit| limit == micros);
    world.home.wait_until("nothing is asked while nothing comes", || !is_asked());
    let (home, concentrator) = (&world.home, &world.concentrator);
    let download = Transfer::start(home, concentrator, INSIDE_V4, Direction::Down, 8_000_000);
    world.home.wait_until("it is asked while packets come", is_asked);
    download.finish();
    world.home.wait_until("it is taken back after them", || !is_asked());
}

/// What all processes together ask of the kernel.
fn limit_micros() -> std::io::Result<i32> {
    let mut limit = [0; 4];
    File::open(WakeLatency::DEVICE)?.read_exact(&mut limit)?;
    Ok(i32::from_ne_bytes(limit))
}
